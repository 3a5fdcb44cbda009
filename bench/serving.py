"""Measures of the server: one run and many followers, many sessions, a follower that does not read, the end.

The followers are a process of their own. The floor is a bare ASGI application under the same uvicorn.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from bench.processes import BenchError, measure
from bench.room import Room, call_module
from bench.rows import Row, interleaved, limit_row, ratio_row
from bench.talking import Child

FEW, MANY = 50, 1000
SESSIONS, DELTAS, EACH = 100, 20, 2
_numbers = count(1)


def server(room: Room) -> list[Row]:
    return [
        *_fan_out(room, FEW, 400, 0.005),
        *_fan_out(room, MANY, 40, 0.02),
        *_many(room),
        *_stalled(room),
        *_owner_socket(room),
    ]


def _ours(room: Room, sessions: int) -> tuple[Child, Path]:
    folder = room.home(f"server-{next(_numbers)}")
    command = [*call_module("bench.served_sessions"), str(folder), str(sessions)]
    return Child(command, room.env("server"), room.work), folder


def _clients(room: Room) -> Child:
    return Child(call_module("bench.followers"), room.env("bare"), room.work)


def _checked(said: Any) -> Any:
    if said["problem"]:
        raise BenchError(f"a follower missed something: {said['problem']}")
    return said


def _path(session: str) -> str:
    return f"/api/v1/sessions/{session}/events"


def _fan_out(room: Room, followers: int, batches: int, pause: float) -> list[Row]:
    """Microseconds of the processor that one delivery takes: one frame to one follower."""
    facts_every = 20
    with ExitStack() as stack:
        ours, folder = _ours(room, 1)
        stack.enter_context(ours)
        port, token, (session,) = ours.ready
        readers = stack.enter_context(_clients(room))
        readers.ask("follow", port=port, token=token, paths=[_path(session)] * followers)
        publish = {"batches": batches, "facts_every": facts_every, "pause": pause}
        first = ours.ask("publish", **publish)
        _checked(readers.ask("until", seq=first["seq"]))
        floor = stack.enter_context(
            Child([*call_module("bench.bare_asgi"), str(folder / "frames")], room.env("bare"), room.work)
        )
        bare_readers = stack.enter_context(_clients(room))
        bare_readers.ask("follow", port=floor.ready, token="", paths=["/"] * followers)

        def measured(child: Child, clients: Child, more: dict[str, Any]) -> list[float]:
            before = child.ask("cpu")
            said = child.ask("publish", **more)
            seen = 0
            while seen < batches * followers:
                last = said["seq"] if isinstance(said, dict) else 0
                taken = clients.ask("until", seq=last)
                seen += (_checked(taken) if last else taken)["frames"]
            if seen != batches * followers:
                raise BenchError(f"{seen} frames came, and {batches * followers} were sent")
            return [(child.ask("cpu") - before) * 1e6 / seen]

        medians = interleaved(
            room.rounds,
            ours=lambda: measured(ours, readers, publish),
            bare=lambda: measured(floor, bare_readers, {"pause": pause}),
        )
        name = f"1 run to {followers:,} followers, CPU for a delivery / bare ASGI"
        rows = [ratio_row(name, medians["ours"][0], medians["bare"][0], "µs", "≤", 1.5)]
        if followers == MANY:
            rows.append(limit_row(f"memory with {followers:,} followers", ours.resident_mib(), "MiB", 120))
            name = f"SIGTERM with {followers:,} open streams to the end of the process"
            rows.append(limit_row(name, ours.end() * 1000, "ms", 500))
        return rows


def _many(room: Room) -> list[Row]:
    seconds = 60 if room.rounds >= 5 else 15
    ours, _ = _ours(room, SESSIONS)
    with ours, _clients(room) as readers:
        port, token, sessions = ours.ready
        paths = [_path(session) for session in sessions for _ in range(EACH)]
        readers.ask("follow", port=port, token=token, paths=paths)

        def act(seconds: float) -> tuple[list[int], float]:
            cpu = ours.ask("cpu")
            said = ours.ask("together", seconds=seconds, deltas=DELTAS)
            late = _checked(readers.ask("until", seq=said["seq"]))["late_ns"]
            return late, (ours.ask("cpu") - cpu) / said["seconds"]

        act(seconds / 3)
        warm = ours.resident_mib()
        late, busy = act(seconds)
        after = ours.resident_mib()
        expected = SESSIONS * EACH * int(seconds)
        if len(late) != expected:
            raise BenchError(f"{len(late)} facts came, and {expected} were due")
    p99 = sorted(late)[len(late) * 99 // 100] / 1e6
    what = f"{SESSIONS} sessions × ({DELTAS} deltas + 1 fact)/s, {EACH} followers each"
    return [
        limit_row(f"{what}, {seconds} s: fact to client, p99", p99, "ms", 50),
        limit_row(f"{what}: processor taken", busy * 100, "%", 100),
        limit_row(f"{what}: memory after {seconds} s more", after, "MiB", 10, warm),
    ]


def _stalled(room: Room) -> list[Row]:
    """What a follower that reads nothing costs the run, and whether it gets everything afterwards."""
    seconds = 30 if room.rounds >= 5 else 6
    batches = {"batches": seconds * 200, "facts_every": 20, "pause": 0.005, "times": 40}
    ours, _ = _ours(room, 1)
    with ours, _clients(room) as readers:
        port, token, (session,) = ours.ready
        readers.ask("follow", port=port, token=token, paths=[_path(session)])

        def cost() -> tuple[float, int]:
            before = ours.ask("cpu")
            said = ours.ask("publish", **batches)
            _checked(readers.ask("until", seq=said["seq"]))
            return ours.ask("cpu") - before, said["seq"]

        cost()
        alone, _ = cost()
        before = ours.resident_mib()
        readers.ask("stall", port=port, token=token, path=_path(session))
        beside, seq = cost()
        after = ours.resident_mib()
        _checked(readers.ask("resume", seq=seq))
    what = f"a run of {seconds} s with a follower that reads nothing"
    return [
        ratio_row(f"{what} / without it, CPU", beside * 1000, alone * 1000, "ms", "≤", 1.15),
        limit_row(f"{what}: memory", after, "MiB", 10, before),
    ]


def _owner_socket(room: Room) -> list[Row]:
    """Every run has one, for whoever might want to see it from another process."""
    command = [*call_module("bench.owner_socket"), str(room.home("owner") / "ostler.db")]
    finished = measure(command, room.env("owner"), room.work, keep_output=True)
    without, with_it, opened = json.loads(finished.output)
    return [
        limit_row("10,000 deltas that nobody follows from elsewhere, CPU", with_it, "ms", 10, without),
        limit_row("the socket for those who might, opened and closed, CPU", opened, "ms", 2),
    ]
