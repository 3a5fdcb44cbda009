"""Light or dark background: parsing answers, and querying a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TextIO

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, Layout, Window
from prompt_toolkit.output import DummyOutput

from ostler.tui.terminal_input import (
    QUESTION,
    AnswerFilter,
    Appearance,
    TerminalInput,
    ask_background,
    color_of,
    dark_by_variable,
    detected_dark,
    is_dark,
    luma,
)

LIGHT = "\x1b]11;rgb:fafa/fafa/fafa\x1b\\"
DARK = "\x1b]11;rgb:1e1e/1e1e/2e2e\x07"
PATIENCE = 60


@pytest.mark.parametrize(
    ("answer", "color"),
    [
        ("rgb:ffff/0000/8080", (1.0, 0.0, 0x8080 / 0xFFFF)),
        ("rgb:ff/00/33", (1.0, 0.0, 0.2)),
        ("rgb:f/0/f", (1.0, 0.0, 1.0)),
        ("rgba:0000/0000/ffff/8000", (0.0, 0.0, 1.0)),
        ("#ff0000", (1.0, 0.0, 0.0)),
        ("?", None),
        ("rgb:ff/00", None),
        ("rgb:fffff/00/00", None),
        ("red", None),
        ("", None),
    ],
)
def test_a_background_answer_is_parsed_as_a_colour(
    answer: str, color: tuple[float, float, float] | None
) -> None:
    assert color_of(answer) == color


@given(st.text(max_size=30))
def test_invalid_background_answers_are_ignored(answer: str) -> None:
    color = color_of(answer)
    assert color is None or all(0 <= one <= 1 for one in color)


def test_green_looks_brighter_than_blue() -> None:
    assert (round(luma((0, 0, 0)), 9), round(luma((1, 1, 1)), 9)) == (0, 1)
    assert luma((0, 1, 0)) > 0.5 > luma((1, 0, 0)) > luma((0, 0, 1))


@pytest.mark.parametrize(
    ("value", "dark"),
    [
        ("15;0", True),
        ("0;15", False),
        ("0;default;15", False),
        ("12;8", True),
        ("0;7", False),
        ("15;default", None),
        ("0;16", None),
        ("0;-1", None),
        ("0;٧", None),
        ("15", None),
        ("", None),
    ],
)
def test_colorfgbg_names_one_of_sixteen_colours(value: str, dark: bool | None) -> None:
    assert dark_by_variable(value) is dark


def test_the_setting_decides_then_the_terminal_then_the_variable() -> None:
    white, light = (1.0, 1.0, 1.0), {"COLORFGBG": "0;15"}
    assert is_dark("dark", white, light)
    assert not is_dark("light", (0.0, 0.0, 0.0), {})
    assert is_dark("auto", (0.0, 0.0, 0.0), light)
    assert not is_dark("auto", white, {"COLORFGBG": "15;0"})
    assert not is_dark("auto", None, light)
    assert is_dark("auto", None, {})


# --- the answer and what is typed ---------------------------------------------------------------------


_TYPED = st.text(st.sampled_from("ab\x1b]1;\\:[é"), max_size=12)


@given(_TYPED, _TYPED, st.sampled_from([LIGHT, DARK]), st.lists(st.integers(0, 60)), st.booleans())
def test_an_answer_in_any_pieces_is_removed_from_typed_input(
    before: str, after: str, answer: str, cuts: list[int], slowly: bool
) -> None:
    assume("\x1b]11;" not in before + after)
    whole, begin = before + answer + after, len(before)
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    answers, out = AnswerFilter(), ""
    for start, end in pairwise(places):
        out += answers.feed(whole[start:end])
        # An answer that halts before it can be told from keys counts as typed so far.
        if slowly and not begin < end < begin + 5:
            out += answers.flush()
    assert out + answers.flush() == before + after
    assert answers.color == color_of(answer[5:].rstrip("\x07\x1b\\"))


def test_escape_is_a_key_unless_an_answer_follows() -> None:
    answers = AnswerFilter()
    assert answers.feed("\x1b") == ""
    assert (answers.flush(), answers.flush()) == ("\x1b", "")
    assert answers.feed("a") == "a"
    assert answers.feed("\x1b[A") == "\x1b[A"
    assert answers.feed("\x1b") + answers.feed("]") + answers.flush() == "\x1b]"
    assert answers.feed("]11") == "]11"
    assert answers.feed("\x1b") + answers.flush() == "\x1b"
    assert answers.feed("]") + answers.flush() == "]", "what was typed is not typed again"
    assert answers.color is None


def test_an_answer_interrupted_by_a_pause_is_removed() -> None:
    answers = AnswerFilter()
    assert answers.feed("a\x1b") + answers.flush() == "a\x1b"
    assert answers.feed("]11;rgb:ff/ff") + answers.flush() == ""
    assert answers.feed("/ff\x1b") + answers.flush() == ""
    assert answers.feed("\\b") == "b"
    assert answers.color == (1.0, 1.0, 1.0)


# --- a real terminal ----------------------------------------------------------------------------------


class Terminal:
    """The other side of a pseudo-terminal: what a person types and a terminal answers."""

    def __init__(self, descriptor: int, reader: TextIO, writer: TextIO) -> None:
        self.descriptor = descriptor
        self.reader = reader
        self.input = TerminalInput(reader)
        self.writer = writer

    def send(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def answers(self, text: str) -> None:
        """Sends an answer once the terminal is queried."""
        loop = asyncio.get_running_loop()
        received = b""

        def on_output() -> None:
            nonlocal received
            received += os.read(self.descriptor, 1024)
            if QUESTION.encode() in received:
                loop.remove_reader(self.descriptor)
                self.send(text)

        loop.add_reader(self.descriptor, on_output)

    def was_queried(self) -> bool:
        os.set_blocking(self.descriptor, False)
        try:
            return QUESTION.encode() in os.read(self.descriptor, 1024)
        except BlockingIOError:
            return False

    def typed(self) -> str:
        return "".join(key.data for key in get_typeahead(self.input))


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, encoding="utf-8") as reader, os.fdopen(os.dup(theirs), "w") as writer:
        yield Terminal(ours, reader, writer)
    os.close(ours)


@contextmanager
def raw(terminal: Terminal) -> Iterator[None]:
    before = termios.tcgetattr(terminal.reader)
    with terminal.input.raw_mode():
        yield
    assert termios.tcgetattr(terminal.reader) == before


async def test_the_answer_of_the_terminal_decides(terminal: Terminal) -> None:
    for answer, dark in ((LIGHT, False), (DARK, True)):
        terminal.answers(answer)
        with raw(terminal):
            async with asyncio.timeout(PATIENCE):
                color = await ask_background(terminal.input, terminal.writer, PATIENCE)
        assert color is not None
        assert is_dark("auto", color, {}) is dark
        terminal.input.answers.color = None
    assert terminal.typed() == ""


async def test_a_silent_terminal_is_not_waited_for(terminal: Terminal) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    with raw(terminal):
        assert await ask_background(terminal.input, terminal.writer) is None
    assert 0.07 < loop.time() - began < PATIENCE
    assert terminal.was_queried()


async def test_keys_typed_during_the_query_reach_the_application(terminal: Terminal) -> None:
    terminal.answers(f"hé{DARK}llo\x1b[A")
    with raw(terminal):
        assert await ask_background(terminal.input, terminal.writer, PATIENCE) is not None
    assert terminal.typed() == "héllo\x1b[A"


@pytest.mark.parametrize(
    "pieces", [[LIGHT], [LIGHT[:3], LIGHT[3:]], list(LIGHT)], ids=["whole", "two", "many"]
)
async def test_a_late_answer_is_removed_from_typed_input(terminal: Terminal, pieces: list[str]) -> None:
    editor = Buffer()
    keys = KeyBindings()

    @keys.add("enter")
    def leave(event: KeyPressEvent) -> None:
        event.app.exit()

    pressed: list[str] = []

    @keys.add("escape")
    def escape(event: KeyPressEvent) -> None:
        pressed.append("escape")

    application: Application[None] = Application(
        layout=Layout(Window(BufferControl(editor))),
        key_bindings=keys,
        input=terminal.input,
        output=DummyOutput(),
    )
    application.ttimeoutlen = 0.05
    came: list[object] = []
    terminal.input.answers.on_color = came.append
    with raw(terminal):
        terminal.send("a")
        assert await ask_background(terminal.input, terminal.writer, 0.001) is None

        async def answer() -> None:
            for piece in ("b", *pieces, "c", "\r"):
                terminal.send(piece)
                await asyncio.sleep(0)

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            tasks.create_task(answer())
            await application.run_async()
    assert (editor.text, pressed) == ("abc", [])
    assert came == [color_of("rgb:fafa/fafa/fafa")]


async def test_the_escape_key_still_reaches_the_application(terminal: Terminal) -> None:
    keys = KeyBindings()

    @keys.add("escape")
    def leave(event: KeyPressEvent) -> None:
        event.app.exit()

    application: Application[None] = Application(
        layout=Layout(Window(BufferControl(Buffer()))),
        key_bindings=keys,
        input=terminal.input,
        output=DummyOutput(),
    )
    application.ttimeoutlen = 0.05
    terminal.send("\x1b")
    async with asyncio.timeout(PATIENCE):
        await application.run_async()


@pytest.mark.parametrize(
    ("appearance", "environment", "dark"),
    [
        ("light", {"TERM": "xterm"}, False),
        ("dark", {"TERM": "xterm", "COLORFGBG": "0;15"}, True),
        ("auto", {"TERM": "linux", "COLORFGBG": "0;15"}, False),
        ("auto", {"TERM": "dumb"}, True),
    ],
)
async def test_a_terminal_is_not_queried_if_its_answer_would_not_decide(
    terminal: Terminal, appearance: Appearance, environment: dict[str, str], dark: bool
) -> None:
    assert await detected_dark(appearance, terminal.input, terminal.writer, environment) is dark
    assert not terminal.was_queried()


async def test_a_terminal_is_queried_if_nothing_else_decides(terminal: Terminal) -> None:
    terminal.answers(LIGHT)
    assert not await detected_dark("auto", terminal.input, terminal.writer, {"TERM": "xterm"})
