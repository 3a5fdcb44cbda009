"""Asking the terminal for its background, and keeping the answer out of what is typed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TextIO

from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress

from ostler.faces.tui.themes.background import Appearance, Rgb, color_of, is_dark
from ostler.faces.tui.unmarked_pastes import marked

SECONDS = 0.08
"""A terminal that knows the question answers in a few milliseconds, over a slow line a little later."""
QUESTION = "\x1b]11;?\x1b\\"
_DEAF = frozenset({"dumb", "linux"})
"""Terminals that have no answer."""
_ANSWER_END = "\x07\x1b\x9c\udc9c"
_ANSWER = re.compile(rf"\x1b\]11;([^{_ANSWER_END}]{{0,40}})(?:\x07|\x1b\\|\x9c|\udc9c)")
_BEGUN = re.compile(rf"\x1b(?:\](?:1(?:1(?:;[^{_ANSWER_END}]{{0,40}}\x1b?)?)?)?)?\Z")
_SURE = "\x1b]11;"


class AnswerFilter:
    """Takes the answer out of what is read, whenever it comes, and in however many pieces.

    What may be the beginning of one is held back until more is read, or until `flush`: it may be the Escape
    key as well.
    """

    def __init__(self) -> None:
        self.color: Rgb | None = None
        self.came: Callable[[Rgb], None] = lambda color: None
        """Called with it, also when nobody waits for it any more."""
        self._held = ""
        self._let_go = 0
        """How much of what is held was typed after all; the rest of an answer may still follow it."""

    def feed(self, text: str) -> str:
        whole, let_go = self._held + text, self._let_go
        if _ANSWER.match(whole):
            let_go = 0
        whole = _ANSWER.sub(self._take, whole)
        begun = _BEGUN.search(whole)
        start = begun.start() if begun else len(whole)
        self._held = whole[start:]
        self._let_go = let_go if start == 0 and self._held else 0
        return whole[let_go:start]

    def flush(self) -> str:
        """What was held back and is typed: nothing more came for a while."""
        if self._held.startswith(_SURE):
            return ""
        typed = self._held[self._let_go :]
        self._let_go = len(self._held)
        return typed

    def _take(self, answer: re.Match[str]) -> str:
        if (color := color_of(answer[1])) is not None:
            self.color = color
            self.came(color)
        return ""


class TerminalInput(Vt100Input):
    """The keyboard, without what the terminal answers."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.answers = AnswerFilter()
        self.is_drawn_for = False
        """Whether one sees what one types: else several lines at once were typed one after the other."""
        self._typed = _Typed(self.fileno(), self.answers, stdin.encoding)
        self.stdin_reader = self._typed

    def read_keys(self) -> list[KeyPress]:
        self._typed.may_be_pasted = self.is_drawn_for and not self.vt100_parser._in_bracketed_paste
        return super().read_keys()

    def read_early(self) -> list[KeyPress]:
        """What was typed while the terminal still made whole lines of it."""
        self.vt100_parser.feed(self._typed.read_plain().replace("\n", "\r"))
        keys, self._buffer = self._buffer, []
        return keys

    def flush_keys(self) -> list[KeyPress]:
        self.vt100_parser.feed(self.answers.flush())
        return super().flush_keys()


class _Typed(PosixStdinReader):
    def __init__(self, descriptor: int, answers: AnswerFilter, encoding: str) -> None:
        super().__init__(descriptor, encoding=encoding)
        self._answers = answers
        self.may_be_pasted = False
        """Several lines at once, which the terminal has not marked."""

    def read(self, count: int = 1024) -> str:
        text = self.read_plain()
        return marked(text, self.read_plain, self.stdin_fd) if self.may_be_pasted else text

    def read_plain(self) -> str:
        return self._answers.feed(super().read())


async def ask_background(reader: TerminalInput, writer: TextIO, seconds: float = SECONDS) -> Rgb | None:
    """The background's colour; None if the terminal has not said it in time.

    What is typed meanwhile is kept for the application that reads from the same input. Until that runs, the
    caller stays in `reader.raw_mode()`: else the terminal would show an answer that comes late.
    """
    done = asyncio.Event()
    typed: list[KeyPress] = []

    def read() -> None:
        typed.extend(reader.read_keys())
        if reader.answers.color is not None or reader.closed:
            done.set()

    with reader.raw_mode(), reader.attach(read):
        writer.write(QUESTION)
        writer.flush()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await done.wait()
    store_typeahead(reader, typed)
    return reader.answers.color


async def found_dark(
    appearance: Appearance, reader: TerminalInput, writer: TextIO, environment: Mapping[str, str]
) -> bool:
    """Whether dark colours are shown. The terminal is asked only where its answer would decide."""
    is_terminal = reader.stdin.isatty() and writer.isatty() and environment.get("TERM") not in _DEAF
    asks = appearance == "auto" and is_terminal
    answered = await ask_background(reader, writer) if asks else None
    return is_dark(appearance, answered, environment)
