"""Terminal input: typing before the first frame, unmarked pastes, and the terminal's background colour."""

from __future__ import annotations

import asyncio
import re
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal, NoReturn, TextIO

from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress

from ostler.app import console

if TYPE_CHECKING:
    from types import FrameType

Appearance = Literal["auto", "light", "dark"]
Rgb = tuple[float, float, float]
"""From 0 to 1."""

_XTERM = re.compile(r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/[0-9a-fA-F]{1,4})?")
_HEX = re.compile(r"#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})")
_DARK = frozenset({0, 1, 2, 3, 4, 5, 6, 8})
"""Dark ones of the sixteen colours."""


def color_of(answer: str) -> Rgb | None:
    """Parses the answer to OSC 11, such as `rgb:1e1e/1e1e/2e2e`; None if it is no colour."""
    match = _XTERM.fullmatch(answer) or _HEX.fullmatch(answer)
    if not match:
        return None
    red, green, blue = (int(digits, 16) / (16 ** len(digits) - 1) for digits in match.groups())
    return red, green, blue


def luma(color: Rgb) -> float:
    """The perceived brightness, from 0 to 1."""
    red, green, blue = color
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def dark_by_variable(colorfgbg: str) -> bool | None:
    """Parses `COLORFGBG`, such as `15;0` or `0;default;15`; None if it is unset."""
    background = colorfgbg.rpartition(";")[2]
    if ";" not in colorfgbg or not re.fullmatch(r"1[0-5]|[0-9]", background):
        return None
    return int(background) in _DARK


def is_dark(appearance: Appearance, color: Rgb | None, environment: Mapping[str, str]) -> bool:
    """The setting decides, then the terminal, then the variable; by default it is dark."""
    if appearance != "auto":
        return appearance == "dark"
    if color is not None:
        return luma(color) < 0.5
    return dark_by_variable(environment.get("COLORFGBG", "")) is not False


PASTE_GAP_SECONDS = 0.01
"""Seconds without input after which a paste has ended."""

PASTE_SIZE = 256
"""So many letters at once are a paste, not typing."""

_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_TEXT = re.compile(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*")
_LINES = re.compile(r"[^\r\n]*[\r\n]+[^\r\n]")


def marked(text: str, read: Callable[[], str], descriptor: int) -> str:
    """Marks a paste as a bracketed one, so that none of its lines is sent; other input stays as it is. Enter
    after a single line is the key."""
    start = _TEXT.findall(text)[0]
    if len(start) < PASTE_SIZE and not _LINES.match(start):
        return text
    while select.select([descriptor], [], [], PASTE_GAP_SECONDS)[0] and (more := read()):
        text += more
    pasted = _TEXT.findall(text)[0]
    if not _LINES.match(pasted):
        pasted = pasted.rstrip("\r\n")
    return f"{_BEGIN}{pasted}{_END}{text[len(pasted) :]}"


SECONDS = 0.08
"""Seconds to wait for an answer: most terminals need a few milliseconds, more over a slow line."""

QUESTION = "\x1b]11;?\x1b\\"
_SILENT = frozenset({"dumb", "linux"})
"""Terminals that do not answer."""

_ANSWER_END = "\x07\x1b\x9c\udc9c"
_ANSWER = re.compile(rf"\x1b\]11;([^{_ANSWER_END}]{{0,40}})(?:\x07|\x1b\\|\x9c|\udc9c)")
_BEGUN = re.compile(rf"\x1b(?:\](?:1(?:1(?:;[^{_ANSWER_END}]{{0,40}}\x1b?)?)?)?)?\Z")
_SURE = "\x1b]11;"


class AnswerFilter:
    """Removes the terminal's answer from the input, whenever it comes and in any number of pieces.

    A possible beginning is held back until more arrives, or until `flush`: it may be the Escape key.
    """

    def __init__(self) -> None:
        self.color: Rgb | None = None
        self.on_color: Callable[[Rgb], None] = lambda color: None
        """Called with the colour, also when it comes late."""
        self._held = ""
        self._let_go = 0
        """How much of the held input is typed; the rest of an answer may follow."""

    def feed(self, text: str) -> str:
        whole, let_go = self._held + text, self._let_go
        if _ANSWER.match(whole):
            let_go = 0
        whole = _ANSWER.sub(self._take, whole)
        partial = _BEGUN.search(whole)
        start = partial.start() if partial else len(whole)
        self._held = whole[start:]
        self._let_go = let_go if start == 0 and self._held else 0
        return whole[let_go:start]

    def flush(self) -> str:
        """Releases held input after a pause."""
        if self._held.startswith(_SURE):
            return ""
        typed = self._held[self._let_go :]
        self._let_go = len(self._held)
        return typed

    def _take(self, answer: re.Match[str]) -> str:
        if (color := color_of(answer[1])) is not None:
            self.color = color
            self.on_color(color)
        return ""


class TerminalInput(Vt100Input):
    """The keyboard without the terminal's answers."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.answers = AnswerFilter()
        self.is_ui_drawn = False
        """Before, several lines at once were typed one after the other."""
        self._typed = _Typed(self.fileno(), self.answers, stdin.encoding)
        self.stdin_reader = self._typed

    def read_keys(self) -> list[KeyPress]:
        self._typed.may_be_pasted = self.is_ui_drawn and not self.vt100_parser._in_bracketed_paste
        return super().read_keys()

    def read_early(self) -> list[KeyPress]:
        """Reads what was typed before raw mode."""
        early = "".join(f"{one} " for one in console.typed_early if one)
        console.typed_early.clear()
        self.vt100_parser.feed(early + self._typed.read_plain().replace("\n", "\r"))
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
        """Handles several lines at once that the terminal has not marked as a paste."""

    def read(self, count: int = 1024) -> str:
        text = self.read_plain()
        return marked(text, self.read_plain, self.stdin_fd) if self.may_be_pasted else text

    def read_plain(self) -> str:
        return self._answers.feed(super().read())


async def ask_background(reader: TerminalInput, writer: TextIO, seconds: float = SECONDS) -> Rgb | None:
    """The colour of the background; None if the terminal does not answer in time.

    Typed keys are kept for the application that reads the same input. Until it runs, the caller stays in
    `reader.raw_mode()`: else the terminal would show a late answer.
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


async def detected_dark(
    appearance: Appearance, reader: TerminalInput, writer: TextIO, environment: Mapping[str, str]
) -> bool:
    """Whether the background is dark. Asks the terminal only if its answer decides."""
    answers = reader.stdin.isatty() and writer.isatty() and environment.get("TERM") not in _SILENT
    color = await ask_background(reader, writer) if appearance == "auto" and answers else None
    return is_dark(appearance, color, environment)


_CLEAR_ROW = "\r\x1b[K"


@contextmanager
def keep_early_typing(stdin: TextIO) -> Iterator[None]:
    """Keeps keys typed before the first frame: no echo, and Enter stays Enter; Ctrl+C still quits. Restores
    the terminal at the end, also after an early signal."""
    if sys.platform == "win32" or not stdin.isatty():
        yield
        return
    import termios

    before = termios.tcgetattr(stdin)
    changed = termios.tcgetattr(stdin)
    changed[0] &= ~termios.ICRNL
    changed[3] &= ~termios.ECHO
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        termios.tcsetattr(stdin, termios.TCSANOW, changed)
        yield
    finally:
        with suppress(termios.error):  # the terminal itself may be gone
            termios.tcsetattr(stdin, termios.TCSANOW, before)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def take_early_typing(reader: TerminalInput, writer: TextIO) -> None:
    """Hands early keys to the application that will read this input. In raw mode."""
    if typed := reader.read_early():
        store_typeahead(reader, typed)
        writer.write(_CLEAR_ROW)
        writer.flush()
