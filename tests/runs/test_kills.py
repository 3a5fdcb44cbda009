"""`kill -9` of a real process, at every boundary of a step: no fact and no effect is lost or repeated."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ostler.kernel.processes import SESSION_VARIABLE
from ostler.log.invariants import violations
from ostler.log.sqlite import SqliteStore
from ostler.testkit.vendors import FakeVendor, call, turn
from ostler.vocabulary.facts import Fact

STEPS = 4
RECORD = 'echo "$OSTLER_CALL" >> effects; sleep 0.02'


def answer(request: dict[str, Any]) -> Any:
    """Calls bash in four steps, twice in one of them; then, or when told to go on, it ends."""
    messages = request["messages"]
    if messages[-1]["role"] == "user" and messages[-1]["content"] == "go on":
        return turn("I went on.")
    done = sum(message["role"] == "assistant" for message in messages)
    if done == STEPS:
        return turn("All done.")
    parts = [call("bash", {"command": f"{RECORD} # step {done}, {number}"}) for number in range(1 + done % 2)]
    return turn(f"Step {done}. ", *parts)


class Home:
    """A place of its own for one test: a store, a working directory, and a vendor to talk to."""

    def __init__(self, folder: Path, vendor: FakeVendor) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.state = folder / "state"
        self._vendor = vendor

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        model = ("--model", "openai/fake", "--base-url", self._vendor.chat_url, "--api-key", "k")
        return subprocess.Popen(
            [sys.executable, "-m", "ostler", "-p", "--json", "--yes", *model, *arguments],
            cwd=self.work,
            env={**os.environ, "OSTLER_HOME": str(self.state)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str) -> list[dict[str, Any]]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err.decode()
        return [json.loads(line) for line in out.splitlines()]

    def facts(self) -> list[Fact]:
        async def read() -> list[Fact]:
            store = SqliteStore(self.state / "ostler.db")
            try:
                sessions = await store.sessions()
                return await store.read(sessions[0].id) if sessions else []
            finally:
                await store.close()

        return asyncio.run(read())

    def effects(self) -> Counter[str]:
        file = self.work / "effects"
        return Counter(file.read_text().split() if file.exists() else ())


def processes_of(session: str) -> list[str]:
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = environment.read_bytes().split(b"\0")
        except OSError:
            continue
        if f"{SESSION_VARIABLE}={session}".encode() in variables:
            found.append(environment.parent.name)
    return found


def kill_at_line(process: subprocess.Popen[bytes], line: int) -> int:
    """Kills the process as soon as it has printed so many lines; returns how many it had printed."""
    assert process.stdout is not None
    seen = 0
    for seen, _ in enumerate(process.stdout, 1):
        if seen == line:
            process.send_signal(signal.SIGKILL)
            break
    process.communicate(timeout=60)
    return seen


def check_after_kill(home: Home) -> None:
    lines = home.run("--continue", "go on")
    assert lines[0]["type"] == "run_started"
    assert (lines[-1]["type"], lines[-1]["status"]) == ("run_ended", "completed")
    facts = home.facts()
    assert violations(facts) == []
    effects = home.effects()
    assert all(times == 1 for times in effects.values()), effects
    calls = {fact.event.call for fact in facts if fact.type == "tool_called"}  # type: ignore[union-attr]
    assert set(effects) <= calls
    for fact in facts:
        if fact.type == "tool_result" and fact.event.failed is None:  # type: ignore[union-attr]
            assert effects[fact.event.call] == 1  # type: ignore[union-attr]
    assert processes_of(facts[0].session) == []


def kill_and_continue(folder: Path, seed: int) -> None:
    random = Random(seed)
    with FakeVendor(answer) as vendor:
        home = Home(folder, vendor)
        kill_at_line(home.start("do", "the", "work"), random.randint(1, 75))
        check_after_kill(home)


@pytest.mark.parametrize("seed", range(20))
def test_a_killed_run_loses_nothing_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    kill_and_continue(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_many_killed_runs_lose_nothing_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    kill_and_continue(tmp_path, seed)


def test_the_command_of_a_killed_run_is_ended_by_the_next_one(tmp_path: Path) -> None:
    def script(request: dict[str, Any]) -> Any:
        if request["messages"][-1]["role"] == "user" and request["messages"][-1]["content"] == "go on":
            return turn("I went on.")
        return turn(call("bash", {"command": "echo begun; sleep 600 & sleep 600"}))

    with FakeVendor(script) as vendor:
        home = Home(tmp_path, vendor)
        process = home.start("sleep")
        assert process.stdout is not None
        session = ""
        for line in process.stdout:
            event = json.loads(line)
            if event["type"] == "tool_output":
                break
            session = event.get("session", session)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert processes_of(session) != []
        listed = subprocess.run(
            [sys.executable, "-m", "ostler", "sessions"],
            env={**os.environ, "OSTLER_HOME": str(home.state)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert " cut " in listed.stdout
        lines = home.run("--continue", "go on")
        assert lines[-1]["status"] == "completed"
        assert processes_of(session) == []
        result = next(fact.event for fact in home.facts() if fact.type == "tool_result")
        assert result.failed == "tool_interrupted"  # type: ignore[union-attr]
