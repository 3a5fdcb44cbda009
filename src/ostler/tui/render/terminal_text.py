"""The output of programs as lines: keeps colours, and drops all other control sequences."""

from __future__ import annotations

import re
from collections import deque
from functools import cache
from typing import NamedTuple

from ostler.extensions.ui.themes import ThemeColors
from ostler.schema.text import cells, printable, split_at
from ostler.tui.render.spans import Piece, broken, drawn

MOST_LINES = 1000
_TAB = 8
_LONGEST_SEQUENCE = 4096
_STRING_BEGIN = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*"
_CSI_BEGIN = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*"

_PARTS = (
    rf"(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    rf"|{_STRING_BEGIN}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]?"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
)

_CUT_SEQUENCE = rf"(?:{_CSI_BEGIN}|{_STRING_BEGIN}\x1b?|\x1b[ -/]*)\Z"
"""An unfinished sequence at the end."""

_ATTRIBUTES = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""Attributes and the code that ends each; neither blinking nor hidden text."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled on first use: that takes longer than loading this module."""
    return re.compile(pattern)


class Pen(NamedTuple):
    """The present style of the output."""

    attributes: tuple[str, ...] = ()
    foreground: str = ""
    background: str = ""

    def style(self, colors: ThemeColors | None) -> str:
        used = (*self.attributes, self.foreground, self.background) if colors else self.attributes
        return ";".join(one for one in used if one)


_PLAIN = Pen()
_Line = list[tuple[str, Pen]]


class TerminalText:
    """The last lines of growing output. Each character is read once."""

    def __init__(self, most_lines: int = MOST_LINES) -> None:
        self.lines = 0
        """Finished lines."""
        self._finished: deque[_Line] = deque(maxlen=most_lines)
        self._line: _Line = []
        self._column = 0
        self._end = 0
        """The end of the open line, in cells."""
        self._pen = _PLAIN
        self._pending = ""

    def feed(self, text: str) -> None:
        text = self._pending + text
        cut = _compiled(_CUT_SEQUENCE).search(text, max(0, len(text) - _LONGEST_SEQUENCE))
        at = cut.start() if cut else len(text)
        self._pending = text[at:]
        self._take(text[:at])

    def finish(self) -> None:
        """Ends the output: an unfinished sequence is text."""
        pending, self._pending = self._pending, ""
        self._take(pending)

    def rows(self, width: int, colors: ThemeColors | None, last: int = MOST_LINES) -> list[str]:
        """The last rows; lines that are too wide are wrapped."""
        rows: deque[str] = deque()
        for line in (*([self._line] if self._line else []), *reversed(self._finished)):
            pieces = [Piece(text, pen.style(colors)) for text, pen in line]
            rows.extendleft(drawn(row) for row in reversed(broken(pieces, width)))
            if len(rows) >= last:
                break
        return list(rows)[-last:]

    def _take(self, text: str) -> None:
        for match in _compiled(_PARTS).finditer(text):
            if plain := match["text"]:
                self._write(printable(plain))
            elif match["final"] == "m":
                self._pen = _changed(self._pen, match["parameters"])
            elif match["final"] == "K":
                self._erase(match["parameters"])
            elif control := match["control"]:
                self._obey(control)

    def _obey(self, control: str) -> None:
        match control:
            case "\n":
                self._finished.append(self._line)
                self.lines += 1
                self._line, self._column, self._end = [], 0, 0
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case "\t":
                self._write(" " * (_TAB - self._column % _TAB))

    def _write(self, text: str) -> None:
        size = cells(text)
        if self._column == self._end:
            self._line.append((text, self._pen))
        else:
            before, rest = _split(self._line, self._column)
            _, behind = _split(rest, size)
            self._line = [*before, (text, self._pen), *behind]
        self._column += size
        self._end = max(self._end, self._column)

    def _erase(self, parameters: str) -> None:
        if parameters in ("", "0"):
            self._line, _ = _split(self._line, self._column)
            self._end = self._column
        elif parameters == "2":
            self._line = [(" " * self._column, _PLAIN)] if self._column else []
            self._end = self._column


def terminal_rows(text: str, width: int, colors: ThemeColors | None, last: int = MOST_LINES) -> list[str]:
    """The last rows of a complete output."""
    output = TerminalText(last)
    output.feed(text)
    output.finish()
    return output.rows(width, colors, last)


def _split(line: _Line, column: int) -> tuple[_Line, _Line]:
    """Splits at a column; a wide character across it becomes spaces."""
    for place, (text, pen) in enumerate(line):
        size = cells(text)
        if column < size:
            left, right = split_at(text, column)
            if cells(left) < column:
                _, right = split_at(right, 2)
                left, right = f"{left} ", f" {right}"
            return [*line[:place], (left, pen)], [(right, pen), *line[place + 1 :]]
        column -= size
    return line, []


def _changed(pen: Pen, parameters: str) -> Pen:
    codes = parameters.split(";") if parameters else ["0"]
    while codes:
        code = codes.pop(0).partition(":")[0].lstrip("0") or "0"
        if code == "0":
            pen = _PLAIN
        elif code in _ATTRIBUTES:
            pen = pen._replace(attributes=(*(one for one in pen.attributes if one != code), code))
        elif code in _ATTRIBUTES.values():
            pen = pen._replace(attributes=tuple(one for one in pen.attributes if _ATTRIBUTES[one] != code))
        elif code in ("38", "48"):
            color = _taken_color(codes)
            pen = _colored(pen, f"{code};{color}" if color else "", is_background=code == "48")
        elif re.fullmatch("(?:3|4|9|10)[0-7]|[34]9", code):
            color = "" if code in ("39", "49") else code
            pen = _colored(pen, color, is_background=code.startswith(("4", "10")))
    return pen


def _colored(pen: Pen, color: str, *, is_background: bool) -> Pen:
    return pen._replace(background=color) if is_background else pen._replace(foreground=color)


def _taken_color(codes: list[str]) -> str:
    """The 256 or RGB colour that the codes begin with; empty if there is none."""
    count = {"5": 2, "2": 4}.get(codes[0] if codes else "", 1)
    color, codes[:count] = codes[:count], []
    is_color = len(color) == count > 1 and all(re.fullmatch(r"\d{1,3}", one) for one in color)
    return ";".join(color) if is_color else ""
