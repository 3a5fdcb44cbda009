"""Measures of terminal agents: one at rest, fifty on one server, and one that screams."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from bench.processes import BenchError
from bench.room import OSTLER, Room
from bench.rows import Row, limit_row, ratio_row

AGENT = [sys.executable, "-S", "-E", str(Path(__file__).with_name("typing_agent.py"))]
MANY = 50
PATIENCE = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


def driven(room: Room) -> list[Row]:
    return [*_one_at_rest(room), *_screaming(room), *_many(room)]


class Serving:
    """`ostler serve`, with an agent or without. Open it with `with`."""

    def __init__(self, room: Room, home: str, agent: list[str]) -> None:
        command = [OSTLER, "serve", "--port", "0", *(["--", *agent] if agent else [])]
        env = room.env(home)
        self._process = subprocess.Popen(
            command,
            env=env,
            cwd=room.work,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.port = int(self._said(rb"listening at http://127\.0\.0\.1:(\d+)/")[1])
        made = subprocess.run(
            [OSTLER, "token", "new", "bench"],
            env=env,
            cwd=room.work,
            capture_output=True,
            check=True,
            text=True,
        )
        found = re.search(r"ost_\w+|\b[\w-]{30,}\b", made.stdout)
        self._token = found[0] if found else ""
        self._connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _said(self, pattern: bytes) -> re.Match[bytes]:
        assert self._process.stderr is not None
        until, said = time.monotonic() + PATIENCE, b""
        while time.monotonic() < until:
            if select.select([self._process.stderr], [], [], 1.0)[0]:
                said += os.read(self._process.stderr.fileno(), 65536)
            if found := re.search(pattern, said):
                return found
            if self._process.poll() is not None:
                break
        raise BenchError(f"the server did not listen: {said.decode(errors='replace')[-500:]}")

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None)

    def post(self, path: str, body: Any) -> Any:
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        self._connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status >= 300:
            raise BenchError(f"{method} {path}: {answer.status} {said[:300]!r}")
        return json.loads(said)

    def cpu_share(self, seconds: float) -> float:
        """Of one core, in percent, while nobody asks for anything."""
        before = self._ticks()
        time.sleep(seconds)
        return (self._ticks() - before) / _TICKS / seconds * 100

    def _ticks(self) -> int:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def resident_mib(self) -> float:
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


def _until(holds: Callable[[], bool], what: str) -> float:
    """Seconds until that was so, looked at ten times a second."""
    begin = time.monotonic()
    while not holds():
        if time.monotonic() > begin + PATIENCE:
            raise BenchError(f"not within {PATIENCE:g} s: {what}")
        time.sleep(0.1)
    return time.monotonic() - begin


def _one_at_rest(room: Room) -> list[Row]:
    seconds = 30 if room.rounds >= 5 else 10
    with Serving(room, "driven", AGENT) as serving:
        _until(lambda: serving.get("/status")["status"] == "stable", "the agent is ready")
        time.sleep(5)
        return [
            limit_row("a terminal agent at rest, CPU of its server", serving.cpu_share(seconds), "%", 0.5)
        ]


def _screaming(room: Room) -> list[Row]:
    """How long the API takes to answer while an agent prints as fast as it can."""
    with Serving(room, "screaming", AGENT) as serving:
        _until(lambda: serving.get("/status")["status"] == "stable", "the agent is ready")

        def answers(until: Callable[[int], bool]) -> list[float]:
            taken: list[float] = []
            while not until(len(taken)):
                begin = time.perf_counter()
                serving.get("/status")
                taken.append((time.perf_counter() - begin) * 1000)
                time.sleep(0.001)
            return taken

        idle = answers(lambda count: count >= 3000)
        busy: list[float] = []
        for _ in range(10):
            serving.post("/message", {"type": "raw", "content": "scream\r"})
            end = time.monotonic() + 0.4  # about as long as it takes
            busy += answers(lambda count, end=end: time.monotonic() > end)  # type: ignore[misc]
            _until(lambda: serving.get("/status")["status"] == "stable", "it has screamed enough")
    name = "GET /status while an agent prints 10 MB / while it rests, p99"
    return [ratio_row(name, _p99(busy), _p99(idle), "ms", "≤", 5)]


def _p99(taken: list[float]) -> float:
    return sorted(taken)[len(taken) * 99 // 100]


def _many(room: Room) -> list[Row]:
    with Serving(room, "many", []) as serving:
        empty = serving.resident_mib()
        sessions = [
            serving.post(
                "/api/v1/sessions", {"cwd": str(room.work), "agent": {"command": AGENT, "type": "custom"}}
            )
            for _ in range(MANY)
        ]
        ids = [one["id"] for one in sessions]
        _until(lambda: _all_wait(serving), "all agents are ready")

        def asked(which: list[str]) -> float:
            for one in which:
                prompt = {"type": "prompt", "content": [{"type": "text", "text": "Say it again."}]}
                serving.post(f"/api/v1/sessions/{one}/requests", prompt)
            waiting = [*which]

            def all_have_answered() -> bool:
                waiting[:] = [one for one in waiting if not _has_answered(serving, one)]
                return not waiting

            return _until(all_have_answered, "all have answered")

        alone = asked(ids[:1])
        together = asked(ids[1:])
        time.sleep(5)
        share = serving.cpu_share(10)
        each = (serving.resident_mib() - empty) / MANY
    return [
        ratio_row(f"{MANY - 1} agents asked at once / one, to the last answer", together, alone, "s", "≤", 2),
        limit_row(f"{MANY} agents at rest on one server, CPU", share, "%", 5),
        limit_row("memory of each of them in the server", each, "MiB", 8),
    ]


def _all_wait(serving: Serving) -> bool:
    rows = serving.get(f"/api/v1/sessions?limit={MANY}")["sessions"]
    return sum(row["agent"]["status"] == "stable" for row in rows) == MANY


def _has_answered(serving: Serving, session: str) -> bool:
    facts = serving.get(f"/api/v1/sessions/{session}/events?after=0")["facts"]
    return any(fact["type"] == "run_ended" for fact in facts)
