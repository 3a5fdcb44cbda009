"""Measures of many agents in one process: steps a second."""

from __future__ import annotations

from bench.room import Room, Side
from bench.rows import Row, interleaved, ratio_row


def agents(room: Room) -> list[Row]:
    """One agent of 200 steps, and fifty of 20 steps at the same time."""
    return [_steps_a_second(room, 1, 200, goal=1.2), _steps_a_second(room, 50, 20, goal=2.5)]


def _steps_a_second(room: Room, count: int, steps: int, goal: float) -> Row:
    def once(side: Side) -> list[float]:
        runs = [room.new_run() for _ in range(count)]
        return [count * (steps + 1) / room.in_process(side, f"calls-{steps}-echo", runs, "agents")]

    medians = interleaved(max(3, room.rounds // 2), ours=lambda: once("ours"), floor=lambda: once("floor"))
    name = f"steps a second, {count} agent{'s' if count > 1 else ''}"
    return ratio_row(name, medians["ours"][0], medians["floor"][0], "/s", "≥", goal)
