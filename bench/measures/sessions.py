"""Measures of many sessions in one process: their steps, their memory when idle, and a shared cost limit."""

from __future__ import annotations

import json
from typing import Any

from bench.child import measure
from bench.environment import Environment, program
from bench.table import Row, interleaved, limit_row, ratio_row

RUNS = 200
SESSIONS = 1000
CHILDREN = 100


def runs(environment: Environment) -> list[Row]:
    """Scripted runs of 10 steps, all at once against one after the other."""

    def once(mode: str) -> list[float]:
        return [_run(environment, program("supervised"), mode, _new_file(environment), RUNS)]

    medians = interleaved(
        max(3, environment.rounds // 2), together=lambda: once("together"), alone=lambda: once("alone")
    )
    together, alone = medians["together"][0], medians["alone"][0]
    name = f"steps per CPU second, {RUNS} runs at once / one at a time"
    return [ratio_row(name, together, alone, "/s", "≥", 0.7)]


def idle(environment: Environment) -> list[Row]:
    """The memory of a process that follows 1,000 idle sessions, minus that of one that follows none."""
    existing = _new_file(environment)
    command = program("sessions", "idle")
    _run(environment, command, "supervisor", existing, SESSIONS)

    def once(source: str, file: str, count: int) -> list[float]:
        return [_run(environment, command, source, file, count) / 1000]

    medians = interleaved(
        max(2, environment.rounds // 2),
        none=lambda: once("file", existing, 0),
        followed=lambda: once("file", existing, SESSIONS),
        driven=lambda: once("supervisor", _new_file(environment), SESSIONS),
    )
    each = {side: (medians[side][0] - medians["none"][0]) / SESSIONS for side in ("followed", "driven")}
    return [
        limit_row("memory of an idle session with a follower", each["followed"], "kB", 50),
        limit_row("memory of an idle session with a follower, after its runs", each["driven"], "kB", 50),
    ]


def tree(environment: Environment) -> list[Row]:
    """The model calls that a tree of runs makes beyond its cost limit, against those in progress at once."""
    rows = []
    for together, limit in ((8, 250), (CHILDREN, 50)):
        trees = [
            _run(environment, program("budgeted_tree"), _new_file(environment), CHILDREN, together, limit)
            for _ in range(max(2, environment.rounds // 2))
        ]
        calls, parallel = max(trees)
        name = f"model calls beyond a limit of {limit}, {CHILDREN} children, {together} at a time"
        rows.append(ratio_row(name, max(0, calls - limit), parallel, "calls", "≤", 1))
    return rows


def _new_file(environment: Environment) -> str:
    return str(environment.work / f"{environment.new_run()}.db")


def _run(environment: Environment, command: list[str], *arguments: str | int) -> Any:
    """The JSON that a program prints."""
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    finished = measure([*command, *map(str, arguments)], env, environment.work, keep_output=True)
    return json.loads(finished.output)
