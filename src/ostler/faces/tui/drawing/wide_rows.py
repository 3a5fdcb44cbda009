"""Rows that are wider than the terminal, because a path or a URL in them is not broken.

What is printed for good keeps them: the terminal wraps them itself, so that a copy has no break in it. What
is drawn anew for each frame has to fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ostler.faces.tui.drawing.pieces import cells, split_at

_SEQUENCES = re.compile(r"(\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\)")
_STYLE_END, _LINK_END = "\x1b[0m", "\x1b]8;;\x1b\\"


def height(row: str, width: int) -> int:
    """How many rows of the terminal it takes."""
    return max(1, -(-_cells(row, width) // max(1, width)))


def fitted(rows: Iterable[str], width: int) -> list[str]:
    """Broken where they are too wide; the styles go on behind the break."""
    width = max(1, width)
    return [part for row in rows for part in ([row] if _cells(row, width) <= width else _broken(row, width))]


def _cells(row: str, width: int) -> int:
    """At most `width` is said of a row that certainly fits."""
    if len(row) <= width and row.isascii():
        return len(row)
    return cells(_SEQUENCES.sub("", row))


def _broken(row: str, width: int) -> list[str]:
    parts, part, room = [], "", width
    style = link = ""
    for place, text in enumerate(_SEQUENCES.split(row)):
        if place % 2:  # a sequence
            part += text
            if text.startswith("\x1b["):
                style = "" if text == _STYLE_END else style + text
            else:
                link = "" if text == _LINK_END else text
            continue
        while text:
            head, text = split_at(text, room, at_least_one=room == width)
            part += head
            room -= cells(head)
            if text:
                parts.append(part + (_STYLE_END if style else "") + (_LINK_END if link else ""))
                part, room = link + style, width
    return [*parts, part]
