"""Measures of opening a long session again: what it adds to the start of a prompt."""

from __future__ import annotations

from bench.room import Room
from bench.rows import Row, interleaved, limit_row

CALLS = 2000


def resume(room: Room) -> list[Row]:
    """The next prompt of a session of 2,000 tool calls, against that of a session of none."""
    room.one_shot("ours", f"calls-{CALLS}-bash", room.new_run(), "long", cwd="resume")
    room.one_shot("ours", "text-1", room.new_run(), "empty", cwd="resume")

    def once(home: str) -> list[float]:
        run = room.new_run()
        finished = room.one_shot("ours", "text-1", run, home, options=["--continue"], cwd="resume")
        return [room.records(run)[0].first_byte - finished.started / 1e6, finished.peak_mib]

    medians = interleaved(max(room.rounds, 21), long=lambda: once("long"), empty=lambda: once("empty"))
    long, empty = medians["long"], medians["empty"]
    return [
        limit_row("next prompt of a session of 2,000 calls, to the request", long[0], "ms", 50, empty[0]),
        limit_row("its peak memory", long[1], "MiB", 10, empty[1]),
    ]
