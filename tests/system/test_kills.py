"""`kill -9` of a real process, at every boundary of a step: no fact and no effect is lost or repeated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ostler.schema.facts import Fact
from ostler.store.invariants import violations
from ostler.testkit.vendors import FakeVendor, call, turn
from tests.support.real_run import PATIENCE, Home, processes_of, statuses
from tests.support.seeds import random_for

STEPS = 4
RECORD = 'echo "$OSTLER_CALL" >> effects; echo recorded; sleep 0.02'


class Boundary(NamedTuple):
    """Right after the process has printed an event of this type for the `number`th time in a step.

    Step 0 is what comes before the first.
    """

    step: int
    type: str
    number: int = 1

    @property
    def is_before_the_end(self) -> bool:
        """Whether the model still has to speak after it, so that the run cannot have ended by itself."""
        return self.step <= STEPS or self.type in ("step_started", "model_called")


BOUNDARIES = [
    Boundary(0, "run_started"),
    Boundary(0, "user_message"),
    Boundary(1, "step_started"),
    Boundary(1, "model_called"),
    Boundary(1, "text_delta"),
    Boundary(1, "tool_input_delta"),
    Boundary(1, "tool_called"),
    Boundary(1, "tool_result"),
    Boundary(2, "usage"),
    Boundary(2, "tool_started"),
    Boundary(2, "tool_output"),
    Boundary(2, "tool_result", 1),
    Boundary(2, "tool_started", 2),
    Boundary(2, "tool_result", 2),
    Boundary(3, "assistant_message"),
    Boundary(3, "step_ended"),
    Boundary(4, "tool_input_delta", 6),
    Boundary(4, "tool_called", 2),
    Boundary(4, "tool_output", 2),
    Boundary(4, "step_ended"),
    Boundary(5, "model_called"),
    Boundary(5, "text_delta"),
    Boundary(5, "usage"),
    Boundary(5, "step_ended"),
    Boundary(5, "run_ended"),
]


class Script:
    """Calls bash in four steps, twice in every other one; then, or when asked to continue, it ends.

    It says its last words only when it may.
    """

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def __call__(self, request: dict[str, Any]) -> Any:
        messages = request["messages"]
        if messages[-1]["role"] == "user" and messages[-1]["content"] == "go on":
            return turn("I went on.")
        done = sum(message["role"] == "assistant" for message in messages)
        if done == STEPS:
            self.may_end.wait(PATIENCE)
            return turn("All done.")
        commands = [f"{RECORD} # step {done}, {number}" for number in range(1 + done % 2)]
        return turn(f"Step {done}. ", *(call("bash", {"command": command}) for command in commands))


class Undisturbed(NamedTuple):
    lines: int
    seconds: float


def kill(process: subprocess.Popen[bytes]) -> list[bytes]:
    """Returns the printed lines that were not read."""
    process.send_signal(signal.SIGKILL)
    out, _ = process.communicate(timeout=PATIENCE)
    # The last line may be cut: it may not have been printed.
    return [line for line in out.splitlines(keepends=True) if line.endswith(b"\n")]


def kill_at_line(process: subprocess.Popen[bytes], line: int) -> None:
    """Kills the process as soon as it has printed so many lines. How many there are in all varies a
    little with how output and stream arrive: it may have ended before."""
    assert process.stdout is not None
    for seen, _ in enumerate(process.stdout, 1):
        if seen == line:
            kill(process)
            return
    process.communicate(timeout=PATIENCE)


def kill_at(process: subprocess.Popen[bytes], boundary: Boundary) -> list[bytes]:
    """Kills the process at the boundary; returns all lines that it had printed."""
    assert process.stdout is not None
    printed: list[bytes] = []
    step = number = 0
    for line in process.stdout:
        event = json.loads(line)
        printed.append(line)
        step += event["type"] == "step_started"
        number += (step, event["type"]) == (boundary.step, boundary.type)
        if number == boundary.number:
            return printed + kill(process)
    process.communicate(timeout=PATIENCE)
    raise AssertionError(f"it never came to {boundary}: {printed}")


def kill_after(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        kill(process)


def check_after_kill(home: Home) -> list[Fact]:
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
    return facts


@pytest.fixture
def script() -> Iterator[Script]:
    script = Script()
    yield script
    script.may_end.set()


@pytest.fixture
def home(tmp_path: Path, script: Script) -> Iterator[Home]:
    with FakeVendor(script) as vendor:
        yield Home(tmp_path, vendor)
        script.may_end.set()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The length of a run that is not killed."""
    script = Script()
    script.may_end.set()
    with FakeVendor(script) as vendor:
        home = Home(tmp_path_factory.mktemp("undisturbed"), vendor)
        began = time.monotonic()
        lines = home.run("do", "the", "work")
        seconds = time.monotonic() - began
        assert statuses(home.facts()) == ["completed"]
        assert sum(home.effects().values()) == 6
    return Undisturbed(len(lines), seconds)


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=lambda boundary: "-".join(map(str, boundary)))
def test_a_run_killed_at_a_boundary_loses_nothing_and_repeats_nothing(
    home: Home, script: Script, boundary: Boundary
) -> None:
    if not boundary.is_before_the_end:
        script.may_end.set()
    printed = kill_at(home.start("do", "the", "work"), boundary)
    script.may_end.set()
    events = [json.loads(line) for line in printed]
    assert not boundary.is_before_the_end or "run_ended" not in [event["type"] for event in events]
    facts = check_after_kill(home)
    seen = {line.rstrip() for line, event in zip(printed, events, strict=True) if "seq" in event}
    assert seen <= {fact.line() for fact in facts}
    assert [fact.type for fact in facts].count("run_started") == 2
    if boundary.is_before_the_end:
        assert statuses(facts) == ["interrupted", "completed"]


@pytest.mark.parametrize("seed", range(5))
def test_a_run_killed_at_some_moment_loses_nothing_and_repeats_nothing(
    home: Home, script: Script, undisturbed: Undisturbed, seed: int
) -> None:
    """The moments lie between the first fact and the end, also between one fact and the next."""
    process = home.start("do", "the", "work")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["type"] == "run_started"
    kill_after(process, random_for(seed).uniform(0, undisturbed.seconds))
    script.may_end.set()
    assert statuses(check_after_kill(home)) == ["interrupted", "completed"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1080))
def test_runs_killed_after_any_line_lose_nothing_and_repeat_nothing(
    home: Home, script: Script, undisturbed: Undisturbed, seed: int
) -> None:
    script.may_end.set()
    kill_at_line(home.start("do", "the", "work"), random_for(seed).randint(1, undisturbed.lines))
    check_after_kill(home)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2000, 2060))
def test_processes_killed_at_any_moment_lose_nothing_and_repeat_nothing(
    home: Home, script: Script, undisturbed: Undisturbed, seed: int
) -> None:
    """Also while they start, when there may be no session to go on with, or hardly a store."""
    script.may_end.set()
    kill_after(home.start("do", "the", "work"), random_for(seed).uniform(0, undisturbed.seconds))
    if home.facts():
        check_after_kill(home)
    else:
        assert not home.effects()
        assert home.run("go on")[-1]["status"] == "completed"


def test_the_command_of_a_killed_run_is_ended_by_the_next_one(tmp_path: Path) -> None:
    def script(request: dict[str, Any]) -> Any:
        if request["messages"][-1]["role"] == "user" and request["messages"][-1]["content"] == "go on":
            return turn("I went on.")
        # What stays in the command's group dies with the run on Linux; what left it does not.
        return turn(call("bash", {"command": "setsid sh -c 'echo begun; exec sleep 600' & sleep 600"}))

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
        process.communicate(timeout=PATIENCE)
        assert processes_of(session) != []
        listed = subprocess.run(
            [sys.executable, "-m", "ostler", "sessions"],
            env={**os.environ, "OSTLER_HOME": str(home.state)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert " cut " in listed.stdout
        lines = home.run("--continue", "go on")
        assert lines[-1]["status"] == "completed"
        assert processes_of(session) == []
        result = next(fact.event for fact in home.facts() if fact.type == "tool_result")
        assert result.failed == "tool_interrupted"  # type: ignore[union-attr]
