"""Measures of the server: followers of one run and of many sessions, a stalled follower, the exit.

The followers are a separate process. The reference is a bare ASGI application under the same uvicorn.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from bench.child import BenchError, Child, measure
from bench.environment import Environment, program
from bench.table import Row, interleaved, limit_row, ratio_row

FEW, MANY = 50, 1000
SESSIONS, DELTAS, EACH = 100, 20, 2
_numbers = count(1)


def server(environment: Environment) -> list[Row]:
    return [
        *_one_session(environment, FEW, 400, 0.005),
        *_one_session(environment, MANY, 40, 0.02),
        *_many_sessions(environment),
        *_stalled_follower(environment),
        *_owner_socket(environment),
    ]


def _ours(environment: Environment, sessions: int) -> tuple[Child, Path]:
    folder = environment.home(f"server-{next(_numbers)}")
    command = [*program("sessions", "served"), str(folder), str(sessions)]
    return Child(command, environment.variables("server"), environment.work), folder


def _followers(environment: Environment) -> Child:
    return Child(program("followers"), environment.variables("bare"), environment.work)


def _checked(result: Any) -> Any:
    if result["problem"]:
        raise BenchError(f"a follower missed a fact: {result['problem']}")
    return result


def _path(session: str) -> str:
    return f"/api/v1/sessions/{session}/events"


def _one_session(environment: Environment, followers: int, batches: int, pause: float) -> list[Row]:
    """CPU microseconds of one delivery: one frame to one follower."""
    facts_every = 20
    with ExitStack() as stack:
        ours, folder = _ours(environment, 1)
        stack.enter_context(ours)
        port, token, (session,) = ours.ready
        readers = stack.enter_context(_followers(environment))
        readers.ask("follow", port=port, token=token, paths=[_path(session)] * followers)
        publish = {"batches": batches, "facts_every": facts_every, "pause": pause}
        first = ours.ask("publish", **publish)
        _checked(readers.ask("until", seq=first["seq"]))
        command = [*program("bare", "asgi"), str(folder / "frames")]
        bare = stack.enter_context(Child(command, environment.variables("bare"), environment.work))
        bare_readers = stack.enter_context(_followers(environment))
        bare_readers.ask("follow", port=bare.ready, token="", paths=["/"] * followers)

        def once(child: Child, clients: Child, arguments: dict[str, Any]) -> list[float]:
            before = child.ask("cpu")
            published = child.ask("publish", **arguments)
            frames = 0
            while frames < batches * followers:
                last = published["seq"] if isinstance(published, dict) else 0
                result = clients.ask("until", seq=last)
                frames += (_checked(result) if last else result)["frames"]
            if frames != batches * followers:
                raise BenchError(f"{frames} frames arrived, {batches * followers} were sent")
            return [(child.ask("cpu") - before) * 1e6 / frames]

        medians = interleaved(
            environment.rounds,
            ours=lambda: once(ours, readers, publish),
            bare=lambda: once(bare, bare_readers, {"pause": pause}),
        )
        name = f"1 run to {followers:,} followers, CPU per delivery / bare ASGI"
        rows = [ratio_row(name, medians["ours"][0], medians["bare"][0], "µs", "≤", 1.5)]
        if followers == MANY:
            rows.append(limit_row(f"memory with {followers:,} followers", ours.resident_mib(), "MiB", 120))
            name = f"SIGTERM to exit with {followers:,} open streams"
            rows.append(limit_row(name, ours.terminate() * 1000, "ms", 500))
        return rows


def _many_sessions(environment: Environment) -> list[Row]:
    seconds = 60 if environment.rounds >= 5 else 15
    ours, _ = _ours(environment, SESSIONS)
    with ours, _followers(environment) as readers:
        port, token, sessions = ours.ready
        paths = [_path(session) for session in sessions for _ in range(EACH)]
        readers.ask("follow", port=port, token=token, paths=paths)

        def publish(seconds: float) -> tuple[list[int], float]:
            cpu = ours.ask("cpu")
            published = ours.ask("publish_all", seconds=seconds, deltas=DELTAS)
            delays = _checked(readers.ask("until", seq=published["seq"]))["delays_ns"]
            return delays, (ours.ask("cpu") - cpu) / published["seconds"]

        publish(seconds / 3)
        before = ours.resident_mib()
        delays, cpu_share = publish(seconds)
        after = ours.resident_mib()
        expected = SESSIONS * EACH * int(seconds)
        if len(delays) != expected:
            raise BenchError(f"{len(delays)} facts arrived, {expected} were sent")
    p99 = sorted(delays)[len(delays) * 99 // 100] / 1e6
    name = f"{SESSIONS} sessions × ({DELTAS} deltas + 1 fact)/s, {EACH} followers each"
    return [
        limit_row(f"{name}, {seconds} s: fact to client, p99", p99, "ms", 50),
        limit_row(f"{name}: CPU", cpu_share * 100, "%", 100),
        limit_row(f"{name}: memory after {seconds} s more", after, "MiB", 10, before),
    ]


def _stalled_follower(environment: Environment) -> list[Row]:
    """The cost of a follower that reads nothing, and whether it gets all facts afterwards."""
    seconds = 30 if environment.rounds >= 5 else 6
    batches = {"batches": seconds * 200, "facts_every": 20, "pause": 0.005, "times": 40}
    ours, _ = _ours(environment, 1)
    with ours, _followers(environment) as readers:
        port, token, (session,) = ours.ready
        readers.ask("follow", port=port, token=token, paths=[_path(session)])

        def cost() -> tuple[float, int]:
            before = ours.ask("cpu")
            published = ours.ask("publish", **batches)
            _checked(readers.ask("until", seq=published["seq"]))
            return ours.ask("cpu") - before, published["seq"]

        cost()
        alone, _ = cost()
        before = ours.resident_mib()
        readers.ask("stall", port=port, token=token, path=_path(session))
        stalled, seq = cost()
        after = ours.resident_mib()
        _checked(readers.ask("resume", seq=seq))
    name = f"a run of {seconds} s with a follower that reads nothing"
    return [
        ratio_row(f"{name} / without it, CPU", stalled * 1000, alone * 1000, "ms", "≤", 1.15),
        limit_row(f"{name}: memory", after, "MiB", 10, before),
    ]


def _owner_socket(environment: Environment) -> list[Row]:
    """Every run has one, for followers in other processes."""
    command = [*program("owner_socket"), str(environment.home("owner") / "ostler.db")]
    finished = measure(command, environment.variables("owner"), environment.work, keep_output=True)
    without, with_socket, opened = json.loads(finished.output)
    return [
        limit_row("10,000 deltas with a session socket and no follower, CPU", with_socket, "ms", 10, without),
        limit_row("opening and closing the session socket, CPU", opened, "ms", 2),
    ]
