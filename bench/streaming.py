"""Measures of streaming: the processor time of many small deltas, apart from that of a run with few."""

from __future__ import annotations

from bench.room import Room, Side
from bench.rows import Row, interleaved, ratio_row

SCENARIOS = ("text-1", "text-10000", "argument-1-1", "argument-100000-1", "argument-1-4", "argument-25000-4")


def streams(room: Room) -> list[Row]:
    """10,000 text deltas, and one large tool argument in deltas of 16 characters."""
    ours, floor = _costs(room)
    return [
        ratio_row("10,000 text deltas with `--json`, CPU", ours[0], floor[0], "ms", "≤", 0.8),
        ratio_row("a tool argument of 100 kB, CPU", ours[1], floor[1], "ms", "≤", 2),
        # A quarter is measured as four of them, because one alone drowns in the noise of starting.
        ratio_row("100 kB / 25 kB of tool argument, CPU", ours[1], ours[2] / 4, "ms", "≤", 5),
    ]


def _costs(room: Room) -> list[list[float]]:
    def cpu(side: Side) -> list[float]:
        return [room.one_shot(side, name, room.new_run(), "streams").cpu_ms for name in SCENARIOS]

    medians = interleaved(room.rounds * 2, ours=lambda: cpu("ours"), floor=lambda: cpu("floor"))
    pairs = ((1, 0), (3, 2), (5, 4))
    return [
        [medians[side][long] - medians[side][short] for long, short in pairs] for side in ("ours", "floor")
    ]
