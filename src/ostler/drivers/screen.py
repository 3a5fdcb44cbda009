"""A terminal without a window: what a program draws, as text; and the lines of such a text.

Lines are split at line feeds only. A line of white space is blank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Protocol

import msgspec

from ostler.schema.errors import UsageError

SCROLLED_OFF_LINES = 2_000
SMALLEST = 10
LARGEST = 5_000


class Cursor(msgspec.Struct, frozen=True):
    """Counted from 0. A line that is just full keeps the cursor in its last column."""

    column: int
    row: int
    visible: bool = True


class Modes(msgspec.Struct, frozen=True):
    """The modes that the program has switched on, as far as they matter here."""

    alternate: bool = False
    bracketed_paste: bool = False
    cursor_keys: bool = False  # arrows are sent as an application wants them
    drawing: bool = False  # between the ends of a synchronised update: the screen is half drawn


class Screen(Protocol):
    """The interface of an emulator.

    `feed` takes any bytes, whole sequences or not, and never raises. It returns a terminal's answers to the
    queries among them: write them back, or the program may wait forever. Reading changes nothing, and costs
    nothing as long as nothing was fed.
    """

    columns: int
    rows: int

    def feed(self, data: bytes) -> bytes: ...

    def resize(self, columns: int, rows: int) -> None: ...

    def lines(self) -> tuple[str, ...]:
        """All visible rows, with trailing blanks cut."""
        ...

    def wrapped(self) -> tuple[bool, ...]:
        """For each visible row: whether its line goes on in the next one because it was too long."""
        ...

    def scrolled_off(self) -> tuple[str, ...]:
        """What left the primary screen at the top, the newest last; a bounded number of rows."""
        ...

    def drawn(self, first: int, count: int) -> list[str]:
        """Visible rows with their colours, each by itself; those above the first are what scrolled off."""
        ...

    def ansi(self) -> str:
        """What draws the visible screen on a fresh terminal of its size: colours, modes, cursor and all."""
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
    """What takes a third of a second before the first screen can be opened: to be done in a thread."""
    screen = open_screen(SMALLEST, SMALLEST, emulator=emulator)
    screen.feed(b"\r\n" * (2 * SMALLEST))
    read_out(screen)
    screen.ansi()
    screen.close()


def check_size(columns: int, rows: int) -> None:
    if not (SMALLEST <= columns <= LARGEST and SMALLEST <= rows <= LARGEST):
        raise UsageError(f"a terminal has {SMALLEST} to {LARGEST} columns and rows, not {columns}x{rows}")


def read_out(screen: Screen) -> str:
    """All that a tracker should see: an answer longer than the screen has begun above it."""
    return "\n".join((*screen.scrolled_off(), *screen.lines()))


def unwrap(lines: Sequence[str], wrapped: Sequence[bool]) -> list[str]:
    """Rows put together again to the lines that the program wrote."""
    joined: list[str] = []
    goes_on = False
    for line, wraps in zip(lines, wrapped, strict=True):
        if goes_on:
            joined[-1] += line
        else:
            joined.append(line)
        goes_on = wraps
    return joined


_GAP = re.compile(r"\n(?:[ \t]*\n){20,}")
ASCII_WHITESPACE = " \t\n\r\f\v"


def without_blank_ends(lines: Sequence[str]) -> Sequence[str]:
    """The lines from the first to the last that is not blank; padding within them is kept."""
    start, end = 0, len(lines)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return lines[start:end]


def without_gaps(text: str) -> str:
    """Where a program leaves most of a tall screen empty, one blank line."""
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


def pad(text: str, columns: int) -> str:
    """Each line filled up with blanks to the width of the screen, as the agentapi wire shows them."""
    return "\n".join(line + " " * (columns - cell_width(line)) for line in text.split("\n"))
