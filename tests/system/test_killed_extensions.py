"""Processes with extensions that are killed: their state is stored, their questions are withdrawn."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ostler.testkit.vendors import call, turn
from tests.cli.test_prompt_extensions import write
from tests.support.command import Ostler, finish, use, wait_until
from tests.support.fixtures import Serve

COUNTER = """
    import json
    from ostler.schema.events import ToolCalled

    def setup(ostler):
        @ostler.on(ToolCalled)
        async def count(event, context):
            for n in range(event.arguments["timeout"]):
                await context.emit("tick", n + 1)

        @ostler.on("tick")
        def tick(n, context):
            context.state[f"at {n}"] = "x" * 1000
            context.state["n"] = n

        @ostler.command("kept")
        def kept(arguments, context):
            return json.dumps(dict(context.state))
"""


def lines_until(
    process: subprocess.Popen[bytes], fits: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    assert process.stdout is not None
    lines: list[dict[str, Any]] = []
    for line in process.stdout:
        lines.append(json.loads(line))
        if fits(lines[-1]):
            return lines
    raise AssertionError(f"it ended before that: {process.communicate()}")


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def stored_state(ostler: Ostler) -> dict[str, Any]:
    ran = ostler("-p", "--model", "demo", "--continue", "/kept")
    assert ran.code == 0, ran.err
    state: dict[str, Any] = json.loads(ran.out)
    return state


@pytest.mark.parametrize(("writes", "seen"), [(1, 1), (300, 1), (300, 100), (300, 270)])
def test_extension_state_survives_a_kill_complete(
    ostler: Ostler, serve: Serve, writes: int, seen: int
) -> None:
    write(ostler.home / "extensions" / "counter.py", COUNTER)
    vendor = serve(turn(call("bash", {"command": "sleep 600", "timeout": writes})))
    process = ostler.start("-p", "--json", "--yes", *use(vendor), "go")
    lines_until(process, lambda line: line["type"] == "extension_state" and line["value"] == seen)
    kill(process)
    state = stored_state(ostler)
    number = state.pop("n")
    assert number >= seen, "published values are stored"
    assert sorted(state) == sorted(f"at {n + 1}" for n in range(number)), "both values of a handler, or none"
    assert {len(one) for one in state.values()} == {1000}


ASKING = """
    from ostler.schema.events import RunEnded

    def setup(ostler):
        @ostler.on(RunEnded)
        async def ask(ended, context):
            if context.state.get("asked"):
                return
            context.state["asked"] = True
            answer = await context.ui.confirm("Once more?")
            if answer.value:
                await context.send("once more")
"""


def test_a_question_of_a_killed_process_cannot_be_answered(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("done"))
    write(ostler.home / "extensions" / "asking.py", ASKING)
    process = ostler.start("-p", "--json", "--on-question", "wait", *use(vendor), "go")
    asked = lines_until(process, lambda line: line["type"] == "question_asked")[-1]
    kill(process)
    answered = ostler("answer", asked["session"], "yes")
    assert (answered.code, answered.err) == (
        2,
        f"ostler: session {asked['session']} has no open question; `ostler runs` shows which runs wait\n",
    )


def test_the_process_waits_for_a_question_at_the_end_of_the_last_run(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("first"), turn("second"))
    write(ostler.home / "extensions" / "asking.py", ASKING)
    hurried = """
import ostler.extensions.event_channel, ostler.main
ostler.extensions.event_channel.CATCH_UP_SECONDS = 0.01
ostler.main.main()
"""
    # Not in this process, whose children must not answer for it.
    running = subprocess.Popen(
        [sys.executable, "-c", hurried, "-p", "--on-question", "wait", *use(vendor), "go"],
        cwd=ostler.work,
        env=ostler.environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until(lambda: ostler("answer", "ses", "yes").code == 0)
    ended = finish(running)
    assert (ended.code, ended.out) == (0, "first\nsecond\n"), ended.err
