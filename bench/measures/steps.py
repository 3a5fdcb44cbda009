"""Measures of steps: the overhead between two model calls, parallel tools, small deltas, many agents."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import Literal

from bench.child import BenchError
from bench.environment import Environment
from bench.table import Row, interleaved, ratio_row

Side = Literal["ours", "floor"]
STREAMS = ("text-1", "text-10000", "argument-1-1", "argument-100000-1", "argument-1-4", "argument-25000-4")


def steps(environment: Environment) -> list[Row]:
    """The overhead between two model calls, with a tool in process and with bash, and whether it grows."""
    in_process = interleaved(
        environment.rounds,
        ours=lambda: [median(_in_process(environment, "ours", 50))],
        floor=lambda: [median(_in_process(environment, "floor", 50))],
    )
    bash = interleaved(
        environment.rounds,
        ours=lambda: [median(_bash(environment, "ours", 50))],
        floor=lambda: [median(_bash(environment, "floor", 50))],
    )
    growth = interleaved(max(2, environment.rounds // 2), ours=lambda: _early_and_late(environment))
    early, late = growth["ours"]
    ours, floor = in_process["ours"][0], in_process["floor"][0]
    return [
        ratio_row("overhead of a step, tool in process", ours, floor, "ms", "≤", 1.0),
        ratio_row("overhead of a step, bash", bash["ours"][0], bash["floor"][0], "ms", "≤", 0.75),
        ratio_row("steps 180 to 200 / steps 10 to 30 of one run", late, early, "ms", "≤", 1.2),
    ]


def _in_process(environment: Environment, side: Side, count: int) -> list[float]:
    run = environment.new_run()
    environment.in_process(side, f"calls-{count}-echo", [run], "steps")
    return _gaps(environment, run, count)


def _bash(environment: Environment, side: Side, count: int) -> list[float]:
    run = environment.new_run()
    environment.one_shot(side, f"calls-{count}-bash", run, "steps")
    return _gaps(environment, run, count)


def _early_and_late(environment: Environment) -> list[float]:
    gaps = _in_process(environment, "ours", 200)
    return [median(gaps[10:30]), median(gaps[180:200])]


def _gaps(environment: Environment, run: str, expected: int) -> list[float]:
    """From the last byte of each answer to the first byte of the next request."""
    requests = environment.requests(run)
    if len(requests) != expected + 1:
        raise BenchError(f"expected {expected + 1} requests, the server got {len(requests)}")
    return [after.first_byte - before.last_byte for before, after in pairwise(requests)]


def parallel_tools(environment: Environment) -> list[Row]:
    """Eight tools of 200 ms in one step."""

    def once(side: Side) -> list[float]:
        run = environment.new_run()
        environment.in_process(side, "parallel-8-nap", [run], "parallel")
        return _gaps(environment, run, 1)

    medians = interleaved(environment.rounds, ours=lambda: once("ours"), floor=lambda: once("floor"))
    name = "eight tools of 200 ms in one step"
    return [ratio_row(name, medians["ours"][0], medians["floor"][0], "ms", "≤", 1.1)]


def streams(environment: Environment) -> list[Row]:
    """10,000 text deltas, and one large tool argument in deltas of 16 characters: CPU time."""
    ours, floor = _stream_costs(environment)
    return [
        ratio_row("10,000 text deltas with `--json`, CPU", ours[0], floor[0], "ms", "≤", 0.8),
        ratio_row("a tool argument of 100 kB, CPU", ours[1], floor[1], "ms", "≤", 2),
        # Four of 25 kB, because the cost of one is less than the noise of start-up.
        ratio_row("100 kB / 25 kB of tool argument, CPU", ours[1], ours[2] / 4, "ms", "≤", 5),
    ]


def _stream_costs(environment: Environment) -> list[list[float]]:
    """The CPU time of long streams, minus that of the same run with a single delta."""

    def cpu(side: Side) -> list[float]:
        return [environment.one_shot(side, name, environment.new_run(), "streams").cpu_ms for name in STREAMS]

    medians = interleaved(environment.rounds * 2, ours=lambda: cpu("ours"), floor=lambda: cpu("floor"))
    pairs = ((1, 0), (3, 2), (5, 4))
    return [
        [medians[side][long] - medians[side][short] for long, short in pairs] for side in ("ours", "floor")
    ]


def agents(environment: Environment) -> list[Row]:
    """One agent of 200 steps, and fifty of 20 steps at the same time."""
    return [
        _steps_per_second(environment, 1, 200, goal=1.2),
        _steps_per_second(environment, 50, 20, goal=2.5),
    ]


def _steps_per_second(environment: Environment, count: int, steps: int, goal: float) -> Row:
    def once(side: Side) -> list[float]:
        runs = [environment.new_run() for _ in range(count)]
        return [count * (steps + 1) / environment.in_process(side, f"calls-{steps}-echo", runs, "agents")]

    rounds = max(3, environment.rounds // 2)
    medians = interleaved(rounds, ours=lambda: once("ours"), floor=lambda: once("floor"))
    name = f"steps per second, {count} agent{'s' if count > 1 else ''}"
    return ratio_row(name, medians["ours"][0], medians["floor"][0], "/s", "≥", goal)
