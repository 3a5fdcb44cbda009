"""Measures of start-up: `ostler --help`, a one-shot prompt, a long session, and a first run without a key."""

from __future__ import annotations

import json

from bench.child import BenchError, measure
from bench.environment import OSTLER, PYTHON, Environment, Side
from bench.table import Row, interleaved, limit_row, ratio_row, skipped_row

HEAVY = ("asyncio", "httpx2", "msgspec", "rich")
LOADED = f"import json, sys, ostler; print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
CALLS = 2000
FIND_SERVERS = (
    "from time import perf_counter;"
    "from ostler.models.local_servers import find_local_servers;"
    "from ostler.models.providers import PROVIDERS;"
    "begin = perf_counter(); find_local_servers(PROVIDERS.values());"
    "print(perf_counter() - begin)"
)


def help_text(environment: Environment) -> list[Row]:
    """`ostler --help` against bare Python, and what `import ostler` loads."""
    env = {"PATH": "/usr/bin:/bin", "OSTLER_HOME": str(environment.home("help"))}
    medians = interleaved(
        environment.rounds * 3,
        ours=lambda: [measure([OSTLER, "--help"], env, environment.work).wall_ms],
        bare=lambda: [measure([PYTHON, "-I", "-c", "pass"], env, environment.work).wall_ms],
    )
    loaded = json.loads(measure([PYTHON, "-c", LOADED], env, environment.work, keep_output=True).output)
    name = f"`import ostler` loads none of {', '.join(HEAVY)}"
    return [
        ratio_row("`ostler --help` / bare Python", medians["ours"][0], medians["bare"][0], "ms", "≤", 3),
        limit_row(name + (f" (loaded: {', '.join(loaded)})" if loaded else ""), len(loaded), "loaded", 0),
    ]


def one_shot(environment: Environment) -> list[Row]:
    """A one-shot prompt: to its request, from the last byte of the answer, as a whole, and its memory."""
    rows = _one_shot(environment, secure=False)
    if environment.bundle is None:
        return [*rows, skipped_row("a one-shot over https", "openssl is not installed")]
    return rows + _one_shot(environment, secure=True)


def _one_shot(environment: Environment, *, secure: bool) -> list[Row]:
    def once(side: Side) -> list[float]:
        run = environment.new_run()
        finished = environment.one_shot(side, "text-1", run, "start", secure=secure)
        requests = environment.requests(run)
        if len(requests) != 1:
            raise BenchError(f"a one-shot prompt made {len(requests)} requests, not 1")
        to_request = requests[0].first_byte - finished.started / 1e6
        to_exit = finished.ended / 1e6 - requests[0].last_byte
        return [to_request, to_exit, finished.wall_ms, finished.peak_mib]

    medians = interleaved(
        environment.rounds * 3,
        ours=lambda: once("ours"),
        floor=lambda: once("floor"),
        bare=lambda: once("bare"),
    )
    ours, floor, bare = medians["ours"], medians["floor"], medians["bare"]
    scheme = "https" if secure else "http"
    return [
        ratio_row(f"cold start to the first request, {scheme}", ours[0], floor[0], "ms", "≤", 0.6),
        ratio_row(f"last byte of the answer to exit, {scheme}", ours[1], floor[1], "ms", "≤", 1),
        ratio_row(
            f"a whole one-shot / the loop on bare asyncio, {scheme}", ours[2], bare[2], "ms", "≤", 1.25
        ),
        limit_row(f"peak memory of a one-shot, {scheme}", ours[3], "MiB", 45),
    ]


def resume(environment: Environment) -> list[Row]:
    """The next prompt in a session of 2,000 tool calls, against one in an empty session."""
    environment.one_shot("ours", f"calls-{CALLS}-bash", environment.new_run(), "long", cwd="resume")
    environment.one_shot("ours", "text-1", environment.new_run(), "empty", cwd="resume")

    def once(home: str) -> list[float]:
        run = environment.new_run()
        finished = environment.one_shot("ours", "text-1", run, home, options=["--continue"], cwd="resume")
        return [environment.requests(run)[0].first_byte - finished.started / 1e6, finished.peak_mib]

    medians = interleaved(max(environment.rounds, 21), long=lambda: once("long"), empty=lambda: once("empty"))
    long, empty = medians["long"], medians["empty"]
    name = f"next prompt in a session of {CALLS:,} calls"
    return [
        limit_row(f"{name}, to the request", long[0], "ms", 50, empty[0]),
        limit_row(f"{name}, peak memory", long[1], "MiB", 10, empty[1]),
    ]


def probe(environment: Environment) -> list[Row]:
    """The search for local model servers when none runs, without Python's start-up; and `ostler doctor`."""

    def find_servers() -> list[float]:
        command = [PYTHON, "-c", FIND_SERVERS]
        finished = measure(command, {"PATH": "/usr/bin:/bin"}, environment.work, keep_output=True)
        return [float(finished.output) * 1000]

    def doctor() -> list[float]:
        variables = environment.variables("doctor") | {"ANTHROPIC_API_KEY": "invalid"}  # fails without a key
        return [measure([PYTHON, "-m", "ostler", "doctor"], variables, environment.work).wall_ms]

    medians = interleaved(environment.rounds, servers=find_servers, doctor=doctor)
    return [
        limit_row("search for local model servers, none running", medians["servers"][0], "ms", 500),
        limit_row("`ostler doctor`, the whole command", medians["doctor"][0], "ms", 1000),
    ]
