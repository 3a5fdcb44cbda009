"""A real `ostler serve … -- AGENT` in a process of its own, and a client of agentapi's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, Signals
from typing import Any

import httpx2

from ostler.server.tokens import TokenStore
from tests.support.command import PATIENCE, Ostler, Ran
from tests.support.paths import ROOT
from tests.support.process_end import has_ended

PYTHON = (sys.executable, "-S", "-E")
SCRIPTED = str(Path(__file__).with_name("scripted_agent.py"))

GREETING = {"says": "Hello! I am ready."}
BASIC = [GREETING, {"expects": "This is a test message.", "says": "Echo: This is a test message."}]


class ServedAgent:
    def __init__(self, ostler: Ostler, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._home = ostler.home
        self.said = ""
        assert process.stderr is not None
        while not (found := re.search(r"open (http://\S+?/)(\S*) in a browser", self.said)):
            line = process.stderr.readline().decode()
            assert line, f"it ended: {self.said}"
            self.said += line
        self.url, self.query = found[1], found[2]
        session = re.search(r"in session (\S+)", self.said)
        assert session
        self.session = session[1]
        self.http = httpx2.Client(base_url=self.url, timeout=PATIENCE)

    @property
    def status(self) -> str:
        return str(self.http.get("/status").json()["status"])

    @property
    def messages(self) -> list[tuple[str, str]]:
        listed = self.http.get("/messages").json()["messages"]
        assert [one["id"] for one in listed] == list(range(len(listed)))
        return [(one["role"], one["content"].strip()) for one in listed]

    def send(self, text: str) -> httpx2.Response:
        return self.http.post("/message", json={"content": text, "type": "user"})

    def say(self, text: str) -> None:
        answer = self.send(text)
        assert answer.status_code == 200, answer.text

    def until_stable(self) -> None:
        self.until(lambda: self.status == "stable")

    def until(self, holds: Callable[[], object]) -> None:
        """Looks each time that the stream of events says something has changed."""
        with self.http.stream("GET", "/events") as stream:
            deadline = time.monotonic() + PATIENCE
            for line in stream.iter_lines():
                if line.startswith("data:") and holds():
                    return
                assert time.monotonic() < deadline, f"{self.status}, {self.messages}"
        raise AssertionError("the stream ended")

    def errors(self) -> list[dict[str, Any]]:
        """Those that a new subscriber is told of; asked for once the agent is ready."""
        found, name = [], ""
        with self.http.stream("GET", "/events") as stream:
            for line in stream.iter_lines():
                name = line.removeprefix("event: ") if line.startswith("event: ") else name
                if line.startswith("data: ") and name == "agent_error":
                    found.append(json.loads(line[6:]))
                    return found
        return found

    def api(self, path: str) -> Any:
        token = TokenStore(self._home / "tokens.json").new(f"test {time.monotonic_ns()}", "all")
        answer = self.http.get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def signal(self, number: Signals) -> None:
        self.process.send_signal(number)

    def end(self, by: Signals = SIGINT) -> Ran:
        self.signal(by)
        return self.wait()

    def wait(self) -> Ran:
        out, err = self.process.communicate(timeout=PATIENCE)
        return Ran(self.process.returncode, (out or b"").decode(), err.decode())


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "tests.agents.serving.quick_ostler", *arguments]


def environment(ostler: Ostler, variables: dict[str, str]) -> dict[str, str]:
    inherited = ostler.environment(variables)
    kept = {name: value for name, value in inherited.items() if not name.startswith("AGENTAPI_")}
    return {**kept, "PYTHONPATH": str(ROOT), **variables}


@contextmanager
def serving_agent(
    ostler: Ostler,
    *options: str,
    agent: tuple[str, ...],
    piped: bytes | None = None,
    stdin: int = subprocess.DEVNULL,
    said_as: str = "serve",
    through: tuple[str, ...] = (),
    **variables: str,
) -> Iterator[ServedAgent]:
    process = subprocess.Popen(
        [*through, *command(said_as, "--port", "0", *options, "--", *agent)],
        cwd=ostler.work,
        env=environment(ostler, variables),
        stdin=subprocess.PIPE if piped is not None else stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if piped is not None:
        assert process.stdin is not None
        process.stdin.write(piped)
        process.stdin.close()
        process.stdin = None
    try:
        served = ServedAgent(ostler, process)
        with served.http:
            yield served
    finally:
        process.kill()
        process.communicate()


def scripted(ostler: Ostler, turns: list[dict[str, Any]]) -> tuple[str, ...]:
    path = ostler.work / "script.json"
    path.write_text(json.dumps(turns))
    return (*PYTHON, SCRIPTED, str(path))


def is_gone(pid: int) -> bool:
    """Within the bound."""
    return has_ended(pid, PATIENCE)
