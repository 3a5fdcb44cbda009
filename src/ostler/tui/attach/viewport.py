"""The part of an agent's screen that fits this window, and the keys that scroll it or detach."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

import msgspec

from ostler.drivers.screen import Screen
from ostler.schema.errors import UsageError
from ostler.schema.text import cells, split_at

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_STYLE = r"(\x1b\[[0-9;:]*m)"
_OBEYED = r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|.)?|[\x00-\x1f\x7f-\x9f]"
_MOST_EMPTY = 3
"""Consecutive empty rows that are shown of a screen that does not fit."""

_LEFT_OUT = "\x1b[2m⋯"
_PARTS = re.compile(rf"{_STYLE}|{_OBEYED}|([^\x00-\x1f\x7f-\x9f]+)")


class Part(msgspec.Struct, frozen=True):
    """The visible rows of a screen, from 0; the scrollback is below 0, and None stands for empty rows."""

    rows: tuple[int | None, ...]
    left: int
    columns: int
    top: int = 0
    """The first of them, not counting rows that are left out."""

    def words(self, screen: Screen) -> str:
        """Describes the part if it is not the whole screen."""
        seen = []
        rows = [row for row in self.rows if row is not None and row < screen.rows]
        if rows and (len(rows) < screen.rows or rows[0] < 0):
            spans = [f"{first + 1}-{last + 1}" for first, last in _spans(rows)]
            seen.append(f"rows {', '.join(spans)} of {screen.rows}")
        if self.columns < screen.columns:
            seen.append(f"columns {self.left + 1}-{self.left + self.columns} of {screen.columns}")
        return ", ".join(seen)


def part_of(screen: Screen, columns: int, rows: int, top: int | None = None) -> Part:
    """The part with the cursor and as much above the end as fits; or the part from a row on."""
    cursor = screen.cursor()
    lines = screen.lines()
    numbers: list[int | None] = list(range(screen.rows))
    if screen.rows > rows:
        numbers = _squeezed(lines, cursor.row)
    place = numbers.index(cursor.row)
    end = next(
        (at for at in range(len(numbers) - 1, 0, -1) if (row := numbers[at]) is not None and lines[row]), 0
    )
    end = max(end, place) if cursor.visible else end
    last = max(0, end - rows + 1)
    last = min(last, place) if cursor.visible else last
    top = last if top is None else min(top, last)
    before = range(top, min(0, top + rows))
    left = 0
    if cursor.visible and cursor.column >= columns:
        left = min(screen.columns - columns, cursor.column - columns * 3 // 4)
    return Part((*before, *numbers[max(0, top) : top + rows]), left, columns, top)


def _squeezed(lines: Sequence[str], cursor_row: int) -> list[int | None]:
    """Leaves empty rows out: some agents write at both ends of a screen with a thousand rows."""
    numbers: list[int | None] = []
    for is_gap, run in groupby(range(len(lines)), lambda row: not lines[row] and row != cursor_row):
        rows = list(run)
        numbers += [None] if is_gap and len(rows) > _MOST_EMPTY else rows
    return numbers


def _spans(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    for _, run in groupby(enumerate(rows), lambda one: one[1] - one[0]):
        span = [row for _, row in run]
        yield span[0], span[-1]


def cut_row(row: str, left: int, columns: int) -> str:
    """The cells from `left` on with their colours, and no other control sequences."""
    pieces: list[str] = []
    column = 0
    for style, text in _PARTS.findall(row):
        if style:
            pieces.append(style)
            continue
        if not text:
            continue
        width = cells(text)
        before, inside = split_at(text, left - column) if column < left else ("", text)
        if column < left < column + width and (cut := column + cells(before)) < left:
            _, inside = split_at(inside, 2)  # a wide character that begins before the window
            inside = " " * (cut + 2 - left) + inside
        start = max(column, left)
        column += width
        if start < left + columns:
            pieces.append(split_at(inside, left + columns - start)[0] if column > left else "")
    return "".join(pieces)


class Painter:
    """Remembers what the window shows, and writes only what has changed."""

    def __init__(self) -> None:
        self._rows: list[str] = []
        self._modes = (False, False)

    def forget(self) -> None:
        """Forgets what the window shows."""
        self._rows = []

    def painted(self, screen: Screen | None, part: Part, height: int, status: str) -> bytes:
        """Draws a part; `status` is the last of `height` rows."""
        drawn: dict[int | None, str] = {None: _LEFT_OUT}
        if screen is not None:
            for first, last in _spans([row for row in part.rows if row is not None]):
                cut = [cut_row(row, part.left, part.columns) for row in screen.drawn(first, last - first + 1)]
                drawn |= dict(zip(range(first, last + 1), cut, strict=False))
        rows = [drawn.get(row, "") for row in part.rows]
        rows += [""] * (height - 1 - len(rows))
        rows.append(f"\x1b[7m{status}{' ' * (part.columns - cells(status))}")
        changed = [
            f"\x1b[{number + 1};1H\x1b[0m\x1b[2K{row}"
            for number, row in enumerate(rows)
            if number >= len(self._rows) or self._rows[number] != row
        ]
        self._rows = rows
        return "".join([_BEGIN, *changed, *self._followed(screen), self._cursor(screen, part), _END]).encode(
            "utf-8", "replace"
        )

    def _cursor(self, screen: Screen | None, part: Part) -> str:
        if screen is None or not (cursor := screen.cursor()).visible:
            return "\x1b[0m\x1b[?25l"
        column = cursor.column - part.left
        if cursor.row not in part.rows or not 0 <= column < part.columns:
            return "\x1b[0m\x1b[?25l"
        return f"\x1b[0m\x1b[{part.rows.index(cursor.row) + 1};{column + 1}H\x1b[?25h"

    def _followed(self, screen: Screen | None) -> list[str]:
        """Applies the agent's keyboard and mouse modes to this terminal."""
        modes = screen.modes() if screen else None
        wanted = (modes.bracketed_paste, modes.cursor_keys) if modes else (False, False)
        if wanted == self._modes:
            return []
        self._modes = wanted
        return [f"\x1b[?{mode}{'h' if on else 'l'}" for mode, on in zip((2004, 1), wanted, strict=True)]


ViewCommand = Literal["detach", "back", "forth"]
_PASTE, _PASTED = b"\x1b[200~", b"\x1b[201~"

_SCROLLING: dict[bytes, ViewCommand] = {
    b"\x1b[5;2~": "back",  # shift+PgUp, which some terminals keep for themselves; then alt+PgUp
    b"\x1b[5;3~": "back",
    b"\x1b[6;2~": "forth",
    b"\x1b[6;3~": "forth",
}


class Keyboard:
    """Splits input into keys for the agent and commands of the view, except in pastes. What may begin a
    command is held back until `flush`."""

    def __init__(self, detach: bytes) -> None:
        self._commands: dict[bytes, ViewCommand] = {detach: "detach", **_SCROLLING}
        self._sequences = re.compile(b"|".join(map(re.escape, (*self._commands, _PASTE))))
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.held = b""
        self._is_paste = False

    def feed(self, data: bytes) -> list[tuple[ViewCommand | None, str]]:
        """ViewCommandes, and keys for the agent."""
        data, self.held = self.held + data, b""
        parts: list[tuple[ViewCommand | None, str]] = []
        while data:
            end = re.search(re.escape(_PASTED), data) if self._is_paste else self._sequences.search(data)
            if end is None:
                size = len(data) - self._unfinished(data)
                parts.append((None, self._decode(data[:size])))
                self.held = data[size:]
                break
            command = self._commands.get(end[0]) if not self._is_paste else None
            if command:
                parts += [(None, self._decode(data[: end.start()])), (command, "")]
            else:
                self._is_paste = end[0] == _PASTE
                parts.append((None, self._decode(data[: end.end()])))
            data = data[end.end() :]
        return [(command, keys) for command, keys in parts if command or keys]

    def flush(self) -> str:
        held, self.held = self.held, b""
        return self._decode(held)

    def _unfinished(self, data: bytes) -> int:
        """How many bytes at the end may begin one of the sequences."""
        sequences = (_PASTED,) if self._is_paste else (*self._commands, _PASTE)
        sizes = range(min(max(map(len, sequences)) - 1, len(data)), 0, -1)
        return next(
            (size for size in sizes if any(one[:-1].startswith(data[-size:]) for one in sequences)), 0
        )


def control_key(named: str) -> bytes:
    """`ctrl+]` or `^]` as a terminal sends it. Raises `UsageError`."""
    match = re.fullmatch(r"(?:ctrl[+-]|\^)([a-z\[\]\\^_@])", named.strip().lower())
    key = bytes([ord(match[1].upper()) & 0x1F]) if match else b""
    if not key or key in b"\x1b\r\n\t":
        raise UsageError(f"{named!r:.20} is not a key to detach with: use one like ctrl+] or ctrl+q")
    return key
