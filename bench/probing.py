"""The measures of looking for local servers where there are none, and of the report about it."""

from __future__ import annotations

from bench.processes import measure
from bench.room import PYTHON, Room
from bench.rows import Row, interleaved, limit_row

LOOK = (
    "from time import perf_counter;"
    "from ostler.models.local_servers import find_local_servers;"
    "from ostler.models.providers import PROVIDERS;"
    "begin = perf_counter(); find_local_servers(PROVIDERS.values());"
    "print(perf_counter() - begin)"
)


def probe(room: Room) -> list[Row]:
    """From the question to the answer that nobody is there, apart from starting Python."""

    def once() -> list[float]:
        finished = measure([PYTHON, "-c", LOOK], {"PATH": "/usr/bin:/bin"}, room.work, keep_output=True)
        return [float(finished.output) * 1000]

    def doctor() -> list[float]:
        environment = room.env("doctor") | {"ANTHROPIC_API_KEY": "key-for-nobody"}  # without one it fails
        return [measure([PYTHON, "-m", "ostler", "doctor"], environment, room.work).wall_ms]

    medians = interleaved(room.rounds, servers=once, doctor=doctor)
    return [
        limit_row("finding local servers with none there", medians["servers"][0], "ms", 500),
        limit_row("`ostler doctor`, the whole command", medians["doctor"][0], "ms", 1000),
    ]
