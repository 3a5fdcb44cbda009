"""Measures of a step: from the last byte of one answer to the first byte of the next request."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from bench.processes import BenchError
from bench.room import Room, Side
from bench.rows import Row, interleaved, ratio_row


def steps(room: Room) -> list[Row]:
    """The overhead between two model calls, with a tool in process and with bash, and whether it grows."""
    in_process = interleaved(
        room.rounds,
        ours=lambda: [median(_in_process(room, "ours", 50))],
        floor=lambda: [median(_in_process(room, "floor", 50))],
    )
    bash = interleaved(
        room.rounds,
        ours=lambda: [median(_bash(room, "ours", 50))],
        floor=lambda: [median(_bash(room, "floor", 50))],
    )
    growth = interleaved(max(2, room.rounds // 2), ours=lambda: _early_and_late(room))
    early, late = growth["ours"]
    ours, floor = in_process["ours"][0], in_process["floor"][0]
    return [
        ratio_row("overhead of a step, tool in process", ours, floor, "ms", "≤", 1.0),
        ratio_row("overhead of a step, bash", bash["ours"][0], bash["floor"][0], "ms", "≤", 1.3),
        ratio_row("steps 180 to 200 / steps 10 to 30 of one run", late, early, "ms", "≤", 1.2),
    ]


def together(room: Room) -> list[Row]:
    """Eight tools of 200 ms in one step."""

    def wall(side: Side) -> list[float]:
        run = room.new_run()
        room.in_process(side, "together-8-nap", [run], "together")
        return _gaps(room, run, 1)

    medians = interleaved(room.rounds, ours=lambda: wall("ours"), floor=lambda: wall("floor"))
    return [
        ratio_row(
            "eight tools of 200 ms in one step", medians["ours"][0], medians["floor"][0], "ms", "≤", 1.1
        )
    ]


def _in_process(room: Room, side: Side, count: int) -> list[float]:
    run = room.new_run()
    room.in_process(side, f"calls-{count}-echo", [run], "steps")
    return _gaps(room, run, count)


def _bash(room: Room, side: Side, count: int) -> list[float]:
    run = room.new_run()
    room.one_shot(side, f"calls-{count}-bash", run, "steps")
    return _gaps(room, run, count)


def _early_and_late(room: Room) -> list[float]:
    gaps = _in_process(room, "ours", 200)
    return [median(gaps[10:30]), median(gaps[180:200])]


def _gaps(room: Room, run: str, expected: int) -> list[float]:
    times = room.records(run)
    if len(times) != expected + 1:
        raise BenchError(f"expected {expected + 1} requests, the server saw {len(times)}")
    return [after.first_byte - before.last_byte for before, after in pairwise(times)]
