"""Lines of a command, as rows of the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ostler.faces.tui.drawing.path_spans import is_path
from ostler.faces.tui.drawing.pieces import BOLD, Piece, Row, after, cells, drawn, harmless, sgr, wrapped
from ostler.faces.tui.drawing.spacing import apart

if TYPE_CHECKING:
    from ostler.faces.tui.desk import Desk

_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
_CELLS = re.compile(r" {2,}|(?:(?! {2}).)+")
"""Columns, and what stands between them. A column may be a path with blanks."""


def print_lines(desk: Desk, lines: Sequence[str], *, has_heading: bool = False) -> None:
    """All of it: what does not fit goes on below, in its column."""
    width, heading = desk.app.size.columns, sgr(desk.colors(), "secondary", BOLD)
    rows = [
        drawn(row)
        for at, line in enumerate(lines)
        for row in _rows(harmless(line.expandtabs(4)), heading if has_heading and not at else "", width)
    ]
    desk.app.print(apart([["", *rows, ""]], after_blank=desk.app.ends_blank))


def _rows(line: str, style: str, width: int) -> list[Row]:
    """Where the last column has less than half of the width, it has the rows below for itself."""
    if cells(line) <= width:
        return [[Piece(line, style)]]
    indent = max((gap.end() for gap in _GAP.finditer(line)), default=0)
    if 0 < indent <= width // 2:
        lead, rest = line[:indent], line[indent:]
    else:
        line = _GAP.sub("  ", line)
        indent = len(line) - len(line.lstrip(" ")) + 2
        lead, rest = line[:indent], line[indent:]
    pieces = [Piece(cell, style, whole=is_path(cell)) for cell in _CELLS.findall(rest)]
    return after([Piece(lead, style)], wrapped(pieces, max(1, width - indent)), [Piece(" " * indent)])
