"""Bars, frames and tables; on narrow terminals plain lines, which have all the room."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ostler.extensions.ui.themes import ThemeColors
from ostler.schema.events import Printed
from ostler.schema.text import cells, cut, one_line, printable
from ostler.tui.render.spans import (
    BOLD,
    DIM,
    Piece,
    Row,
    after,
    cells_of,
    drawn,
    muted_row,
    path_spans,
    sgr,
    styled,
    wrapped,
)
from ostler.tui.render.terminal_text import terminal_rows

NARROW = 40
"""Up to so many columns there are no bars and frames."""

_MARKS = {"info": ("·", "info"), "warning": ("!", "warning"), "error": ("✗", "error")}


def inside(width: int) -> int:
    """The width inside a bar or frame."""
    return width if width <= NARROW else width - 2


def barred(rows: Sequence[str], width: int, style: str) -> list[str]:
    """Rows behind a bar."""
    if width <= NARROW:
        return list(rows)
    bar = drawn([Piece("▌", style)])
    return [f"{bar} {row}".rstrip() for row in rows]


def framed(
    rows: Sequence[str],
    width: int,
    colors: ThemeColors | None,
    *,
    title: str,
    about: str = "",
    note: str = "",
    slot: str = "muted_border",
    edge_style: str = "",
    is_bare: bool | None = None,
) -> list[str]:
    """Rows in a frame with a title, a subject and a note. It is open to the right, so that copies have no
    edge and a narrower terminal breaks no rows. Narrow terminals have no frame, and so has `is_bare`."""
    if width <= NARROW if is_bare is None else is_bare:
        return [drawn(_heading(title, about, note, width, colors)), *rows]
    style = edge_style or sgr(colors, slot)
    heading = _heading(title, about, note, width - 6, colors)
    if not rows:
        return [drawn([Piece("╶─ ", style), *heading])]
    edge = drawn([Piece("│", style)])
    return [
        drawn([Piece("╭─ ", style), *heading]),
        *(f"{edge} {row}".rstrip() for row in rows),
        drawn([Piece("╰─", style)]),
    ]


def _heading(title: str, about: str, note: str, width: int, colors: ThemeColors | None) -> Row:
    """The subject gives way to the title and the note."""
    title = cut(one_line(title), width)
    note = one_line(note)
    if cells(title) + cells(note) + 3 > width:
        note = ""
    room = width - cells(title) - 1 - (cells(note) + 3 if note else 0)
    about = cut(one_line(about), room) if room > 1 else ""
    muted = sgr(colors, "muted") or DIM
    row = [Piece(title, sgr(colors, "tool", BOLD))] if title else []
    if about:
        row += [Piece(" " if title else ""), Piece(about, muted)]
    return [*row, Piece(" · " if row else "", muted), Piece(note, muted)] if note else row


def user_rows(
    text: str, width: int, colors: ThemeColors | None, *, attachments: Sequence[str] = ()
) -> list[str]:
    """A prompt, behind a bar or a mark."""
    room = max(1, width - 2)
    lines = [Piece(line.expandtabs(4)) for line in printable(text).rstrip("\n").split("\n")]
    lines += [Piece(cut(f"[{one_line(name)}]", room), sgr(colors, "muted") or DIM) for name in attachments]
    rows = [row for line in lines for row in wrapped([line], room)]
    style = sgr(colors, "primary") or BOLD
    if width <= NARROW:
        return [drawn(row) for row in after([Piece("> ", style)], rows, [Piece("  ")])]
    return barred([drawn(row) for row in rows], width, style)


def notice_rows(text: str, width: int, colors: ThemeColors | None, *, level: str = "info") -> list[str]:
    """A notice, with a mark for its level that needs no colours."""
    mark, slot = _MARKS[level]
    style = sgr(colors, slot) or ("" if level == "info" else BOLD)
    if "\x1b" in text:  # with its own colours
        first = drawn([Piece(f"{mark} ", style)])
        colored = terminal_rows(text.strip("\n"), max(1, width - 2), colors)
        return [f"{'  ' if number else first}{row}" for number, row in enumerate(colored)]
    rows = wrapped([Piece(printable(text).strip("\n"), style if level == "error" else "")], max(1, width - 2))
    return [drawn(row) for row in after([Piece(f"{mark} ", style)], rows, [Piece("  ")])]


def printed_rows(printed: Printed, width: int, colors: ThemeColors | None) -> list[str]:
    """A message of an extension, with its own colours."""
    match printed.level:
        case "info" | "error":
            return notice_rows(printed.text, width, colors, level=printed.level)
        case "block":
            rows = terminal_rows(printed.text, inside(width), colors)
            if printed.title:
                rows.append(muted_row(one_line(printed.title), inside(width), colors))
            color = printed.color if colors else ""
            return barred(rows, width, styled(color) or sgr(colors, "border"))
        case _:
            return terminal_rows(printed.text, width, colors)


_BETWEEN = " │ "
_NARROWEST = 5
"""The narrowest readable column, in cells."""


class Cell(msgspec.Struct, frozen=True):
    pieces: Row
    align: str = ""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


def table_rows(table: Sequence[Sequence[Cell]], width: int, border: str) -> list[Row]:
    """The rows of a table; the first line has headings."""
    head, *body = table
    room = width - len(_BETWEEN) * (len(head) - 1)
    columns = list(zip(*table, strict=True))
    natural = [max(cells(line) for cell in column for line in cell.text.split("\n")) for column in columns]
    if sum(natural) > room and room < _NARROWEST * len(head):
        return _records(head, body, width)
    words = [[cells(word) for cell in column for word in cell.text.split()] for column in columns]
    widths = _shared(natural, [max(one, default=1) for one in words], room)
    if any(_widest_path(column) > one for column, one in zip(columns, widths, strict=True)):
        return _records(head, body, width)
    lines = [_line(cells_in_line, widths, border) for cells_in_line in table]
    rule = [Piece("─┼─".join("─" * one for one in widths), border)]
    is_tall = any(len(line) > 1 for line in lines[1:])
    rows = [*lines[0], rule]
    for number, line in enumerate(lines[1:]):
        rows += [rule, *line] if is_tall and number else line
    return rows


def _widest_path(column: Sequence[Cell]) -> int:
    """The width of the longest word; a word with a path is not broken."""
    texts = [cell.text for cell in column]
    words = (word for text in texts for word in text.split() if any(path_spans(word)))
    paths = (text[start:end] for text in texts for start, end in path_spans(text))
    whole = (piece.text for cell in column for piece in cell.pieces if piece.whole)
    return max(map(cells, (*words, *paths, *whole)), default=0)


def _shared(natural: Sequence[int], words: Sequence[int], room: int) -> list[int]:
    """Column widths that fit: whole words first, then the widest columns give way."""
    if sum(natural) <= room:
        return [max(1, one) for one in natural]
    least = list(words) if sum(words) <= room else _levelled(words, room)
    more = [whole - one for whole, one in zip(natural, least, strict=True)]
    return [one + extra for one, extra in zip(least, _levelled(more, room - sum(least)), strict=True)]


def _levelled(wanted: Sequence[int], room: int) -> list[int]:
    """Divides the room evenly among those that want more."""
    shares = [0] * len(wanted)
    for count, place in enumerate(sorted(range(len(wanted)), key=lambda place: wanted[place])):
        shares[place] = max(0, min(wanted[place], room // (len(wanted) - count)))
        room -= shares[place]
    return shares


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
