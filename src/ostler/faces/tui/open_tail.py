"""The end of the conversation that still changes, in the rows that there are for it."""

from __future__ import annotations

from collections.abc import Sequence

from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.blocks import Item
from ostler.faces.tui.drawing.spacing import apart
from ostler.faces.tui.open_calls import OpenCall

LINES = 3
"""Calls that wait for others, and have a line of their own."""
_LEAST = 5
"""Rows of a call that something is seen of: its edges, a blank one, and two."""


def tail_rows(
    tail: Sequence[Item | OpenCall], draw: BlockRows, width: int, most: int, *, after_blank: bool
) -> list[str]:
    """Calls that run share the room, so that one sees of each what it is; those that wait behind them have a
    line each, as far as they are few."""
    runs = any(isinstance(one, OpenCall) and one.block.stage == "running" for one in tail)
    behind = [one for one in tail if runs and isinstance(one, OpenCall) and one.block.stage == "waiting"]
    seen = [one for one in tail if one not in behind]
    lines = [draw.waiting_call(one, width) for one in behind[:LINES]]
    if len(behind) > LINES:
        lines.append(draw.note(f"{len(behind) - LINES} more wait", width)[0])
    room = most - len(lines) - bool(lines)
    share = max(_LEAST, room // max(1, len(seen)))
    shown = apart((draw.opened(one, width, share) for one in seen), after_blank=after_blank)
    kept = shown[-room:] if room > 0 else []
    return apart([kept, ["", *lines]] if lines else [kept], after_blank=after_blank)
