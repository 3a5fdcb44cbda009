"""The part of a screen that fits into a window, and what has to be written so that it is seen there."""

from __future__ import annotations

import re

import msgspec

from ostler.faces.tui.drawing.pieces import cells, split_at
from ostler.terminals.screen import Screen

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_STYLE = r"(\x1b\[[0-9;:]*m)"
_OBEYED = r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|.)?|[\x00-\x1f\x7f-\x9f]"
_PARTS = re.compile(rf"{_STYLE}|{_OBEYED}|([^\x00-\x1f\x7f-\x9f]+)")


class Part(msgspec.Struct, frozen=True):
    """Of a screen, counted from 0; rows that scrolled off are below 0."""

    top: int
    left: int
    columns: int
    rows: int

    def words(self, screen: Screen) -> str:
        """What is not all of it says so."""
        seen = []
        if self.rows < screen.rows or self.top < 0:
            first, last = self.top + 1, min(self.top + self.rows, screen.rows)
            seen.append(f"rows {first}-{last} of {screen.rows}")
        if self.columns < screen.columns:
            seen.append(f"columns {self.left + 1}-{self.left + self.columns} of {screen.columns}")
        return ", ".join(seen)


def part_of(screen: Screen, columns: int, rows: int, top: int | None = None) -> Part:
    """With the cursor in it, and as much before the end of what is drawn as fits; or from a row on."""
    cursor = screen.cursor()
    if top is None:
        lines = screen.lines()
        end = next((row for row in range(len(lines) - 1, 0, -1) if lines[row]), 0)
        end = max(end, cursor.row) if cursor.visible else end
        top = max(0, min(end, screen.rows - 1) - rows + 1)
        top = min(top, cursor.row) if cursor.visible else top
    left = 0
    if cursor.visible and cursor.column >= columns:
        left = min(screen.columns - columns, cursor.column - columns * 3 // 4)
    return Part(top, left, columns, rows)


def cut_row(row: str, left: int, columns: int) -> str:
    """The cells from `left` on, with their colours; nothing else that a terminal would obey."""
    kept: list[str] = []
    column = 0
    for style, text in _PARTS.findall(row):
        if style:
            kept.append(style)
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
            kept.append(split_at(inside, left + columns - start)[0] if column > left else "")
    return "".join(kept)


class Painter:
    """Knows what the window shows, and writes only what is another now."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._modes = (False, False)

    def forget(self) -> None:
        """What the window shows is not known any more."""
        self._shown = []

    def painted(self, screen: Screen | None, part: Part, status: str) -> bytes:
        """`status` is the last row."""
        rows = (
            [cut_row(row, part.left, part.columns) for row in screen.drawn(part.top, part.rows)]
            if screen
            else []
        )
        rows += [""] * (part.rows - len(rows))
        rows.append(f"\x1b[7m{status}{' ' * (part.columns - cells(status))}")
        changed = [
            f"\x1b[{number + 1};1H\x1b[0m\x1b[2K{row}"
            for number, row in enumerate(rows)
            if number >= len(self._shown) or self._shown[number] != row
        ]
        self._shown = rows
        return "".join([_BEGIN, *changed, *self._followed(screen), self._cursor(screen, part), _END]).encode(
            "utf-8", "replace"
        )

    def _cursor(self, screen: Screen | None, part: Part) -> str:
        if screen is None or not (cursor := screen.cursor()).visible:
            return "\x1b[0m\x1b[?25l"
        row, column = cursor.row - part.top, cursor.column - part.left
        if not (0 <= row < part.rows and 0 <= column < part.columns):
            return "\x1b[0m\x1b[?25l"
        return f"\x1b[0m\x1b[{row + 1};{column + 1}H\x1b[?25h"

    def _followed(self, screen: Screen | None) -> list[str]:
        """What the agent wants of its keyboard is wanted of this one."""
        modes = screen.modes() if screen else None
        wanted = (modes.bracketed_paste, modes.cursor_keys) if modes else (False, False)
        if wanted == self._modes:
            return []
        self._modes = wanted
        return [f"\x1b[?{mode}{'h' if on else 'l'}" for mode, on in zip((2004, 1), wanted, strict=True)]
