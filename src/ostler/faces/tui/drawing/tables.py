"""Tables in columns that fit a width; where there are too many for it, a line for each cell."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ostler.faces.tui.drawing.path_spans import path_spans
from ostler.faces.tui.drawing.pieces import Piece, Row, cells, cells_of, wrapped

_BETWEEN = " │ "
_NARROWEST = 5
"""Cells below which a column cannot be read."""


class Cell(msgspec.Struct, frozen=True):
    pieces: Row
    align: str = ""


def table_rows(table: Sequence[Sequence[Cell]], width: int, border: str) -> list[Row]:
    """The rows of a table; its first line has the headings."""
    head, *body = table
    room = width - len(_BETWEEN) * (len(head) - 1)
    columns = list(zip(*table, strict=True))
    natural = [max(_width_of(cell) for cell in column) for column in columns]
    if sum(natural) > room and room < _NARROWEST * len(head):
        return _records(head, body, width)
    widths = _shared(natural, [_widest_word(column) for column in columns], room)
    if any(_widest_path(column) > one for column, one in zip(columns, widths, strict=True)):
        return _records(head, body, width)
    lines = [_line(cells_in_line, widths, border) for cells_in_line in table]
    rule = [Piece("─┼─".join("─" * one for one in widths), border)]
    is_tall = any(len(line) > 1 for line in lines[1:])
    rows = [*lines[0], rule]
    for number, line in enumerate(lines[1:]):
        rows += [rule, *line] if is_tall and number else line
    return rows


def _width_of(cell: Cell) -> int:
    return max(cells(line) for line in "".join(piece.text for piece in cell.pieces).split("\n"))


def _widest_word(column: Sequence[Cell]) -> int:
    texts = ("".join(piece.text for piece in cell.pieces) for cell in column)
    return max((cells(word) for text in texts for word in text.split()), default=1)


def _widest_path(column: Sequence[Cell]) -> int:
    """With what stands around it: a word that has a path in it is not broken."""
    texts = ["".join(piece.text for piece in cell.pieces) for cell in column]
    words = (word for text in texts for word in text.split() if any(path_spans(word)))
    paths = (text[start:end] for text in texts for start, end in path_spans(text))
    whole = (piece.text for cell in column for piece in cell.pieces if piece.whole)
    return max(map(cells, (*words, *paths, *whole)), default=0)


def _shared(natural: Sequence[int], words: Sequence[int], room: int) -> list[int]:
    """Widths that fit into the room: whole words first, then the widest columns give way."""
    if sum(natural) <= room:
        return [max(1, one) for one in natural]
    least = list(words) if sum(words) <= room else _levelled(words, room)
    more = [whole - one for whole, one in zip(natural, least, strict=True)]
    return [one + extra for one, extra in zip(least, _levelled(more, room - sum(least)), strict=True)]


def _levelled(wanted: Sequence[int], room: int) -> list[int]:
    """What each gets when nobody gets more than others who still want."""
    given = [0] * len(wanted)
    for count, place in enumerate(sorted(range(len(wanted)), key=lambda place: wanted[place])):
        given[place] = max(0, min(wanted[place], room // (len(wanted) - count)))
        room -= given[place]
    return given


def _line(line: Sequence[Cell], widths: Sequence[int], border: str) -> list[Row]:
    columns = [wrapped(cell.pieces, width) for cell, width in zip(line, widths, strict=True)]
    rows: list[Row] = []
    for number in range(max(map(len, columns))):
        row: Row = []
        for place, (cell, width) in enumerate(zip(line, widths, strict=True)):
            text = columns[place][number] if number < len(columns[place]) else []
            blank = width - cells_of(text)
            before = {"right": blank, "center": blank // 2}.get(cell.align, 0)
            is_last = place == len(widths) - 1
            row += [Piece(_BETWEEN, border)] if place else []
            row += [Piece(" " * before), *text, Piece("" if is_last else " " * (blank - before))]
        rows.append(row)
    return rows


def _records(head: Sequence[Cell], body: Sequence[Sequence[Cell]], width: int) -> list[Row]:
    rows: list[Row] = []
    for line in body:
        rows += [[]] if rows else []
        for heading, cell in zip(head, line, strict=True):
            rows += wrapped([*heading.pieces, Piece(": "), *cell.pieces], width)
    return rows or [row for heading in head for row in wrapped(heading.pieces, width)]
