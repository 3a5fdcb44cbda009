"""Measures of terminal agents under the server: one idle, one that prints a lot, fifty at once."""

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

from bench.child import BenchError, resident_mib
from bench.environment import OSTLER, ROOT, Environment
from bench.table import Row, limit_row, ratio_row

AGENT = [sys.executable, "-S", "-E", str(ROOT / "bench" / "programs" / "typing_agent.py")]
MANY = 50
TIMEOUT_S = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


def drivers(environment: Environment) -> list[Row]:
    return [*_one_idle(environment), *_flooding(environment), *_many(environment)]


class Server:
    """`ostler serve`, with an agent or without. Use it in `with`."""

    def __init__(self, environment: Environment, home: str, agent: list[str]) -> None:
        command = [OSTLER, "serve", "--port", "0", *(["--", *agent] if agent else [])]
        env = environment.variables(home)
        self._process = subprocess.Popen(
            command,
            env=env,
            cwd=environment.work,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.port = int(self._wait_for(rb"listening at http://127\.0\.0\.1:(\d+)/")[1])
        printed = subprocess.run(
            [OSTLER, "token", "new", "bench"],
            env=env,
            cwd=environment.work,
            capture_output=True,
            check=True,
            text=True,
        )
        token = re.search(r"ost_\w+|\b[\w-]{30,}\b", printed.stdout)
        self._token = token[0] if token else ""
        self._connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _wait_for(self, pattern: bytes) -> re.Match[bytes]:
        assert self._process.stderr is not None
        deadline, output = time.monotonic() + TIMEOUT_S, b""
        while time.monotonic() < deadline:
            if select.select([self._process.stderr], [], [], 1.0)[0]:
                output += os.read(self._process.stderr.fileno(), 65536)
            if match := re.search(pattern, output):
                return match
            if self._process.poll() is not None:
                break
        raise BenchError(f"the server did not listen: {output.decode(errors='replace')[-500:]}")

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None)

    def post(self, path: str, body: Any) -> Any:
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        self._connection.request(method, path, json.dumps(body) if body else None, headers)
        response = self._connection.getresponse()
        content = response.read()
        if response.status >= 300:
            raise BenchError(f"{method} {path}: {response.status} {content[:300]!r}")
        return json.loads(content)

    def cpu_share(self, seconds: float) -> float:
        """The percentage of a core that it takes without requests."""
        before = self._ticks()
        time.sleep(seconds)
        return (self._ticks() - before) / _TICKS / seconds * 100

    def _ticks(self) -> int:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def resident_mib(self) -> float:
        return resident_mib(self._process.pid)


def _wait_until(condition: Callable[[], bool], description: str) -> float:
    """Seconds until the condition holds, checked ten times a second."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() > begin + TIMEOUT_S:
            raise BenchError(f"not within {TIMEOUT_S:g} s: {description}")
        time.sleep(0.1)
    return time.monotonic() - begin


def _one_idle(environment: Environment) -> list[Row]:
    seconds = 30 if environment.rounds >= 5 else 10
    with Server(environment, "driven", AGENT) as server:
        _wait_until(lambda: server.get("/status")["status"] == "stable", "the agent is ready")
        time.sleep(5)
        return [limit_row("an idle terminal agent, CPU of its server", server.cpu_share(seconds), "%", 0.5)]


def _flooding(environment: Environment) -> list[Row]:
    """The duration of `GET /status` while an agent prints as fast as it can."""
    with Server(environment, "flooding", AGENT) as server:
        _wait_until(lambda: server.get("/status")["status"] == "stable", "the agent is ready")

        def durations(done: Callable[[int], bool]) -> list[float]:
            times: list[float] = []
            while not done(len(times)):
                begin = time.perf_counter()
                server.get("/status")
                times.append((time.perf_counter() - begin) * 1000)
                time.sleep(0.001)
            return times

        idle = durations(lambda count: count >= 3000)
        busy: list[float] = []
        for _ in range(10):
            server.post("/message", {"type": "raw", "content": "flood\r"})
            end = time.monotonic() + 0.4  # about as long as it takes
            busy += durations(lambda count, end=end: time.monotonic() > end)  # type: ignore[misc]
            _wait_until(lambda: server.get("/status")["status"] == "stable", "the agent is idle again")
    name = "GET /status while an agent prints 10 MB / while it is idle, p99"
    return [ratio_row(name, _p99(busy), _p99(idle), "ms", "≤", 5)]


def _p99(times: list[float]) -> float:
    return sorted(times)[len(times) * 99 // 100]


def _many(environment: Environment) -> list[Row]:
    with Server(environment, "many", []) as server:
        empty = server.resident_mib()
        sessions = [
            server.post(
                "/api/v1/sessions",
                {"cwd": str(environment.work), "agent": {"command": AGENT, "type": "custom"}},
            )
            for _ in range(MANY)
        ]
        ids = [session["id"] for session in sessions]
        _wait_until(lambda: _all_idle(server), "all agents are ready")

        def prompt_all(ids: list[str]) -> float:
            for session in ids:
                prompt = {"type": "prompt", "content": [{"type": "text", "text": "Say it again."}]}
                server.post(f"/api/v1/sessions/{session}/requests", prompt)
            pending = [*ids]

            def all_have_answered() -> bool:
                pending[:] = [session for session in pending if not _has_answered(server, session)]
                return not pending

            return _wait_until(all_have_answered, "all have answered")

        alone = prompt_all(ids[:1])
        together = prompt_all(ids[1:])
        time.sleep(5)
        share = server.cpu_share(10)
        each = (server.resident_mib() - empty) / MANY
    return [
        ratio_row(
            f"{MANY - 1} agents prompted at once / one, to the last answer", together, alone, "s", "≤", 2
        ),
        limit_row(f"{MANY} idle agents on one server, CPU", share, "%", 5),
        limit_row(f"memory of each of {MANY} agents in the server", each, "MiB", 8),
    ]


def _all_idle(server: Server) -> bool:
    rows: list[Any] = server.get(f"/api/v1/sessions?limit={MANY}")["sessions"]
    return len([row for row in rows if row["agent"]["status"] == "stable"]) == MANY


def _has_answered(server: Server, session: str) -> bool:
    facts = server.get(f"/api/v1/sessions/{session}/events?after=0")["facts"]
    return "run_ended" in [fact["type"] for fact in facts]
