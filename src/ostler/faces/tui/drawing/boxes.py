"""What sets blocks apart: bars and frames; on narrow terminals plain lines, which have all the room."""

from __future__ import annotations

from collections.abc import Sequence

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.pieces import (
    BOLD,
    DIM,
    Piece,
    Row,
    after,
    cells,
    cut,
    drawn,
    harmless,
    one_line,
    sgr,
    styled,
    wrapped,
)
from ostler.faces.tui.drawing.terminal_text import terminal_rows
from ostler.vocabulary.events import Printed

NARROW = 40
"""Columns up to which there are neither bars nor frames."""

_MARKS = {"info": ("·", "info"), "warning": ("!", "warning"), "error": ("✗", "error")}


def inside(width: int) -> int:
    """The width of what stands behind a bar or in a frame."""
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
    """Rows in a frame that is open to the right: what is copied from it has no edge at its end, and its edges
    are no wider than what they say, so that a terminal that gets narrower has nothing to break.

    In the top edge stand the title, what it is about, and a note. The edge has the colour of a slot, or a
    style of its own. Where the terminal is narrow, or it is said so, there is no frame; nor around nothing.
    """
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
    """The title and the note are seen whole for as long as they can be; what it is about gives way."""
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
    """What a person said, behind a bar; where there is none, behind a mark."""
    room = max(1, width - 2)
    lines = [Piece(line.expandtabs(4)) for line in harmless(text).rstrip("\n").split("\n")]
    lines += [Piece(cut(f"[{one_line(name)}]", room), sgr(colors, "muted") or DIM) for name in attachments]
    rows = [row for line in lines for row in wrapped([line], room)]
    style = sgr(colors, "primary") or BOLD
    if width <= NARROW:
        return [drawn(row) for row in after([Piece("> ", style)], rows, [Piece("  ")])]
    return barred([drawn(row) for row in rows], width, style)


def notice_rows(text: str, width: int, colors: ThemeColors | None, *, level: str = "info") -> list[str]:
    """Something a person should know: a mark that also tells without colours how much it matters."""
    mark, slot = _MARKS[level]
    style = sgr(colors, slot) or ("" if level == "info" else BOLD)
    if "\x1b" in text:  # with its own colours
        rows_of_others = terminal_rows(text.strip("\n"), max(1, width - 2), colors)
        marks = [drawn([Piece(f"{mark} ", style)]), *["  "] * len(rows_of_others)]
        return [f"{before}{row}" for before, row in zip(marks, rows_of_others, strict=False)]
    rows = wrapped([Piece(harmless(text).strip("\n"), style if level == "error" else "")], max(1, width - 2))
    return [drawn(row) for row in after([Piece(f"{mark} ", style)], rows, [Piece("  ")])]


def printed_rows(printed: Printed, width: int, colors: ThemeColors | None) -> list[str]:
    """What an extension says. Colours that it wrote itself are kept."""
    match printed.level:
        case "info" | "error":
            return notice_rows(printed.text, width, colors, level=printed.level)
        case "block":
            rows = terminal_rows(printed.text, inside(width), colors)
            if printed.title:
                title = cut(one_line(printed.title), inside(width))
                rows.append(drawn([Piece(title, sgr(colors, "muted") or DIM)]))
            color = printed.color if colors else ""
            return barred(rows, width, styled(color) or sgr(colors, "border"))
        case _:
            return terminal_rows(printed.text, width, colors)
