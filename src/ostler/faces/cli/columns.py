"""Text in columns of a terminal: how wide it is, how it is cut, how rows are aligned."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from unicodedata import combining, east_asian_width

ELLIPSIS = "…"


def printable(text: str) -> str:
    """The text without what a terminal would obey: escape codes, and marks that reorder what is read."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def width_of(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, width: int) -> str:
    """The beginning that fits, marked where it was cut."""
    if width_of(text) <= width:
        return text
    kept, used = [], width_of(ELLIPSIS)
    for c in text:
        used += width_of(c)
        if used > width:
            break
        kept.append(c)
    return "".join(kept) + ELLIPSIS if width > 0 else ""


def cut_left(text: str, width: int) -> str:
    """The end that fits: of a path it says more than the beginning."""
    return cut(text[::-1], width)[::-1]


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows whose columns begin at the same place, two spaces apart."""
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell + " " * (width - width_of(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A line each: for a terminal with headings and cut to its width, or whole for a pipe."""
    if not rows:
        return
    if not sys.stdout.isatty():
        yield from aligned(rows)
        return
    from shutil import get_terminal_size

    width = get_terminal_size().columns
    for line in aligned([headings, *rows]):
        yield cut(line, width)
