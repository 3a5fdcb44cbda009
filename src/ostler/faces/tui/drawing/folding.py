"""Rows that are too many: the beginning and the end are kept, and it is said how many are not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.pieces import DIM, ELLIPSIS, Piece, cut, drawn, sgr
from ostler.faces.tui.drawing.wide_rows import height


def folded(
    rows: Sequence[str], most: int, width: int, colors: ThemeColors | None, hint: str = ""
) -> list[str]:
    """At most so many rows; where some are left out of the middle, one of them says so, and how to see
    them."""
    heights = [height(row, width) for row in rows]
    if sum(heights) <= max(1, most):
        return list(rows)
    kept = max(0, most - 1)
    head = _fitting(heights, (kept + 1) // 2)
    tail = _fitting(heights[head:][::-1], kept - (kept + 1) // 2)
    left_out = sum(heights[head : len(rows) - tail])
    mark = cut(f"{ELLIPSIS} {left_out} more row{'' if left_out == 1 else 's'}{hint}", width)
    return [*rows[:head], drawn([Piece(mark, sgr(colors, "muted") or DIM)]), *rows[len(rows) - tail :]]


def _fitting(heights: Sequence[int], room: int) -> int:
    """How many from the first one on find room."""
    return next((at for at, taken in enumerate(accumulate(heights)) if taken > room), len(heights))
