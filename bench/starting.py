"""Measures of starting and ending: `ostler --help`, and a one-shot prompt."""

from __future__ import annotations

import json

from bench.processes import BenchError, measure
from bench.room import OSTLER, PYTHON, Room, Side
from bench.rows import Row, interleaved, limit_row, ratio_row, skipped_row

HEAVY = ("asyncio", "httpx2", "msgspec", "rich")
LOADED = f"import json, sys, ostler; print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"


def help_text(room: Room) -> list[Row]:
    """`ostler --help` against bare Python, and what `import ostler` loads."""
    env = {"PATH": "/usr/bin:/bin", "OSTLER_HOME": str(room.home("help"))}
    medians = interleaved(
        room.rounds * 3,
        ours=lambda: [measure([OSTLER, "--help"], env, room.work).wall_ms],
        bare=lambda: [measure([PYTHON, "-I", "-c", "pass"], env, room.work).wall_ms],
    )
    loaded = json.loads(measure([PYTHON, "-c", LOADED], env, room.work, keep_output=True).output)
    name = f"`import ostler` loads none of {', '.join(HEAVY)}"
    return [
        ratio_row("`ostler --help` / bare Python", medians["ours"][0], medians["bare"][0], "ms", "≤", 3),
        limit_row(name + (f" (loaded: {', '.join(loaded)})" if loaded else ""), len(loaded), "loaded", 0),
    ]


def cold_start(room: Room) -> list[Row]:
    """A one-shot prompt: to its first request, its memory, and from the answer's last byte to the end."""
    rows = _one_shot(room, secure=False)
    if room.bundle is None:
        return [*rows, skipped_row("cold start over https", "openssl is not installed")]
    return rows + _one_shot(room, secure=True)


def _one_shot(room: Room, *, secure: bool) -> list[Row]:
    def once(side: Side) -> list[float]:
        run = room.new_run()
        finished = room.one_shot(side, "text-1", run, "start", secure=secure)
        times = room.records(run)
        if len(times) != 1:
            raise BenchError(f"a one-shot prompt made {len(times)} requests, not 1")
        to_request = times[0].first_byte - finished.started / 1e6
        to_end = finished.ended / 1e6 - times[0].last_byte
        return [to_request, to_end, finished.peak_mib, finished.cpu_ms]

    medians = interleaved(room.rounds * 3, ours=lambda: once("ours"), floor=lambda: once("floor"))
    ours, floor = medians["ours"], medians["floor"]
    scheme = "https" if secure else "http"
    return [
        ratio_row(f"cold start to the first request, {scheme}", ours[0], floor[0], "ms", "≤", 0.9),
        ratio_row(f"last byte to the end of the process, {scheme}", ours[1], floor[1], "ms", "≤", 1),
        limit_row(f"peak memory of a one-shot, {scheme}", ours[2], "MiB", 45),
    ]
