"""Measures of many sessions in one process: their steps, their memory at rest, a limit over all of them."""

from __future__ import annotations

import json
from typing import Any

from bench.processes import measure
from bench.room import Room, call_module
from bench.rows import Row, interleaved, limit_row, ratio_row

RUNS = 200
SESSIONS = 1000
CHILDREN = 100


def runs(room: Room) -> list[Row]:
    """Scripted runs of 10 steps, all at once against one after the other."""

    def once(how: str) -> list[float]:
        return [_child(room, "supervised", how, _new_file(room), RUNS)]

    medians = interleaved(
        max(3, room.rounds // 2), together=lambda: once("together"), alone=lambda: once("alone")
    )
    together, alone = medians["together"][0], medians["alone"][0]
    name = f"steps a CPU second, {RUNS} runs at once / one at a time"
    return [ratio_row(name, together, alone, "/s", "≥", 0.7)]


def idle(room: Room) -> list[Row]:
    """What a process occupies with 1,000 idle sessions that are followed, less what it does with none."""
    filled = _new_file(room)
    _child(room, "idle_sessions", "supervisor", filled, SESSIONS)

    def once(source: str, file: str, count: int) -> list[float]:
        return [_child(room, "idle_sessions", source, file, count) / 1000]

    medians = interleaved(
        max(2, room.rounds // 2),
        none=lambda: once("file", filled, 0),
        followed=lambda: once("file", filled, SESSIONS),
        driven=lambda: once("supervisor", _new_file(room), SESSIONS),
    )
    each = {side: (medians[side][0] - medians["none"][0]) / SESSIONS for side in ("followed", "driven")}
    return [
        limit_row("memory of an idle session that is followed", each["followed"], "kB", 50),
        limit_row("the same after its runs in this process", each["driven"], "kB", 50),
    ]


def tree(room: Room) -> list[Row]:
    """How many model calls a tree goes beyond its limit of cost, against those under way at once."""
    rows = []
    for together, limit in ((8, 250), (CHILDREN, 50)):
        trees = [
            _child(room, "budgeted_tree", _new_file(room), CHILDREN, together, limit)
            for _ in range(max(2, room.rounds // 2))
        ]
        made, under_way = max(trees)
        name = f"model calls beyond a limit of {limit}, {CHILDREN} children, {together} at a time"
        rows.append(ratio_row(name, max(0, made - limit), under_way, "calls", "≤", 1))
    return rows


def _new_file(room: Room) -> str:
    return str(room.work / f"{room.new_run()}.db")


def _child(room: Room, module: str, *arguments: str | int) -> Any:
    """What a module of ours printed, in a process of its own."""
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    command = [*call_module(f"bench.{module}"), *map(str, arguments)]
    return json.loads(measure(command, env, room.work, keep_output=True).output)
