"""A headless terminal: what a program draws, as text. A line of white space counts as blank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Protocol

import msgspec

from ostler.schema.errors import UsageError

SCROLLED_OFF_LINES = 2_000
SMALLEST, LARGEST = 10, 5_000


class Cursor(msgspec.Struct, frozen=True):
    """Counted from 0. A line that is just full keeps the cursor in its last column."""

    column: int
    row: int
    visible: bool = True


class Modes(msgspec.Struct, frozen=True):
    """The modes that the program has switched on, as far as they matter here."""

    alternate: bool = False
    bracketed_paste: bool = False
    cursor_keys: bool = False  # arrow keys in application mode
    drawing: bool = False  # in a synchronised update: the screen is half drawn


class Screen(Protocol):
    """The interface of an emulator.

    `feed` takes any bytes, whole sequences or not, and never raises. It returns the terminal's answers to
    queries: write them back, or the program may wait forever. Reading is cached until the next `feed`.
    """

    columns: int
    rows: int

    def feed(self, data: bytes) -> bytes: ...

    def resize(self, columns: int, rows: int) -> None: ...

    def lines(self) -> tuple[str, ...]:
        """All visible rows, without trailing blanks."""
        ...

    def scrolled_off(self) -> tuple[str, ...]:
        """The rows that left the primary screen at the top, the newest last; a bounded number."""
        ...

    def drawn(self, first: int, count: int) -> list[str]:
        """Visible rows with their colours; negative numbers are rows that scrolled off."""
        ...

    def ansi(self) -> str:
        """Bytes that draw the visible screen on a fresh terminal of its size, with colours and modes."""
        ...

    def cursor(self) -> Cursor: ...

    def modes(self) -> Modes: ...

    def close(self) -> None: ...


_EMULATORS = {
    "pyghostty": "ostler.drivers.ghostty:GhosttyScreen",
    "bittty": "ostler.drivers.bittty:BitttyScreen",
}


def open_screen(
    columns: int = 80, rows: int = 1000, *, emulator: str = "", scrolled_off: int = SCROLLED_OFF_LINES
) -> Screen:
    """A fresh screen on the named emulator, or on the first that is installed."""
    check_size(columns, rows)
    for name in [emulator] if emulator else _EMULATORS:
        module, _, factory = _EMULATORS[name].partition(":")
        try:
            opened: Screen = getattr(import_module(module), factory)(columns, rows, scrolled_off)
        except (ImportError, OSError):  # OSError: the wheel has no library for this machine
            continue
        return opened
    raise UsageError("no terminal emulator is installed: install ostler[terminals]")


@cache
def load_emulator(emulator: str = "") -> None:
    """Loads and warms up the emulator, which takes a third of a second: call it in a thread."""
    screen = open_screen(SMALLEST, SMALLEST, emulator=emulator)
    screen.feed(b"\r\n" * (2 * SMALLEST))
    read_out(screen)
    screen.ansi()
    screen.close()


def check_size(columns: int, rows: int) -> None:
    if not (SMALLEST <= columns <= LARGEST and SMALLEST <= rows <= LARGEST):
        raise UsageError(f"a terminal has {SMALLEST} to {LARGEST} columns and rows, not {columns}x{rows}")


def read_out(screen: Screen) -> str:
    """The screen and what scrolled off it, because a long answer begins above the screen."""
    return "\n".join((*screen.scrolled_off(), *screen.lines()))


_GAP = re.compile(r"\n(?:[ \t]*\n){20,}")
ASCII_WHITESPACE = " \t\n\r\f\v"


def without_blank_ends(lines: Sequence[str]) -> Sequence[str]:
    """The lines without blank ones at the start and the end."""
    start, end = 0, len(lines)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return lines[start:end]


def without_gaps(text: str) -> str:
    """Shortens each long run of blank lines to one: programs leave most of a tall screen empty."""
    return _GAP.sub("\n\n", text)


def trim_blank_lines(text: str) -> str:
    return "\n".join(without_blank_ends(text.split("\n")))


@lru_cache(maxsize=8192)
def cell_width(text: str) -> int:
    """How many columns a line takes on a screen."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    width: int = wcswidth(text)
    return width if width >= 0 else len(text)
