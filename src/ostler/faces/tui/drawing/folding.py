"""Rows that are too many: the beginning and the end are kept, and it is said how many are not."""

from __future__ import annotations

from collections.abc import Sequence

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.pieces import DIM, ELLIPSIS, Piece, cut, drawn, sgr


def folded(
    rows: Sequence[str], most: int, width: int, colors: ThemeColors | None, hint: str = ""
) -> list[str]:
    """At most so many rows; where some are left out of the middle, one of them says so, and how to see
    them."""
    if len(rows) <= max(1, most):
        return list(rows)
    kept = max(0, most - 1)
    head = (kept + 1) // 2
    tail = kept - head
    left_out = len(rows) - head - tail
    mark = cut(f"{ELLIPSIS} {left_out} more row{'' if left_out == 1 else 's'}{hint}", width)
    return [*rows[:head], drawn([Piece(mark, sgr(colors, "muted") or DIM)]), *rows[len(rows) - tail :]]
