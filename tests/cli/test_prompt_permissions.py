"""Permissions of a headless run: read-only by default."""

from __future__ import annotations

from typing import Any

import pytest

from ostler.testkit.vendors import Answer, call, turn
from tests.support.command import Ostler, Ran, use
from tests.support.fixtures import Serve

WRITE = call("write", {"path": "made.txt", "content": "by ostler\n"})
BASH = call("bash", {"command": "echo run | tee ran.txt"})


def both(request: dict[str, Any]) -> Answer:
    """Asks to write a file and to run a command, and then ends."""
    return turn("Done.") if request["messages"][-1]["role"] == "tool" else turn(WRITE, BASH)


def outcomes(ran: Ran) -> dict[str, str | None]:
    return {result["name"]: result.get("failed") for result in ran.all("tool_result")}


@pytest.mark.parametrize(
    ("options", "code", "writes", "runs"),
    [
        ((), 4, False, False),
        (("--permissions", "read-only"), 4, False, False),
        (("--permissions", "ask"), 4, False, False),
        (("--permissions", "edit"), 4, True, False),
        (("--permissions", "full"), 0, True, True),
        (("--yes",), 0, True, True),
    ],
    ids=["by default", "read-only", "ask, with nobody there", "edit", "full", "yes"],
)
def test_a_profile_decides_what_runs(
    ostler: Ostler, serve: Serve, options: tuple[str, ...], code: int, writes: bool, runs: bool
) -> None:
    ran = ostler("-p", "--json", *use(serve(by=both)), *options, "do both")
    assert ran.code == code
    refused = "call_refused"
    assert outcomes(ran) == {"write": None if writes else refused, "bash": None if runs else refused}
    assert (ostler.work / "made.txt").exists() == writes
    assert (ostler.work / "ran.txt").exists() == runs
    for result in ran.all("tool_result"):
        if result.get("failed"):
            assert "permissions are " in result["content"][0]["text"]
    assert ran.lines[-1]["own"].get("refused_calls", 0) == (not writes) + (not runs)


def test_a_denial_says_how_to_allow_more(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", *use(serve(by=both)), "do both")
    assert ran.out == "Done.\n"
    for line, tool in zip(ran.err.splitlines(), ("write", "bash"), strict=True):
        assert line.startswith(f"ostler: refused: {tool}: permissions are read-only")
        assert "--yes" in line


def test_read_only_tools_need_no_permission(ostler: Ostler, serve: Serve) -> None:
    (ostler.work / "a.txt").write_text("text")
    looking = turn(
        call("read", {"path": "a.txt"}),
        call("ls", {}),
        call("find", {"pattern": "*.txt"}),
        call("grep", {"pattern": "text"}),
    )
    ran = ostler("-p", "--json", *use(serve(looking, turn("seen"))), "look")
    assert ran.code == 0
    assert outcomes(ran) == {"read": None, "ls": None, "find": None, "grep": None}


def test_only_the_named_tools_are_offered(ostler: Ostler, serve: Serve) -> None:
    for options, names in (
        (("--tools", "read, ls"), ["ls", "read"]),
        (("--no-tools",), []),
        (("--tools", ""), []),
    ):
        vendor = serve(turn("ok"))
        assert ostler("-p", *use(vendor), *options, "hello").code == 0
        offered = [one["function"]["name"] for one in vendor.requests[0].json.get("tools", [])]
        assert offered == names


def test_with_on_question_wait_a_new_prompt_is_queued(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(BASH))
    options = ("--permissions", "edit", "--on-question", "wait")
    ran = ostler("-p", "--json", *use(vendor), *options, "run it")
    assert ran.code == 6
    assert ran.types[-2:] == ["question_asked", "run_waiting"]
    question, waiting = ran.lines[-2:]
    assert waiting["questions"] == [question["id"]]
    assert question["question"]["choices"] == ["yes", "session", "project", "user", "no"]
    again = ostler("-p", *use(vendor), "--continue", "and then?")
    assert again.code == 6
    assert "waiting for an answer: Allow bash: echo run | tee ran.txt" in again.err
    assert f"the prompt is queued in session {question['session']}" in again.err
    assert f"`ostler answer {question['session']} yes`" in again.err
    lines = ostler("-p", "--json", *use(vendor), "--continue", "and then?")
    assert (lines.code, lines.facts) == (6, ran.facts)
    assert len(vendor.requests) == 1
    assert not (ostler.work / "ran.txt").exists()


def test_yes_grants_the_permission_that_a_run_waits_for(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(BASH), turn("It ran."), turn("And then this."))
    ostler("-p", *use(vendor), "--permissions", "edit", "--on-question", "wait", "run it")
    ran = ostler("-p", "--json", *use(vendor), "--continue", "--yes", "and then?")
    assert ran.code == 0
    assert (ran.types[0], ran.all("question_answered")[0]["answer"]) == ("run_started", "yes")
    assert len(ran.all("run_started")) == 2
    assert [line["status"] for line in ran.all("run_ended")] == ["completed", "completed"]
    assert (ostler.work / "ran.txt").read_text() == "run\n"
    assert vendor.requests[2].json["messages"][-1]["content"] == "and then?"


def test_a_fork_of_a_waiting_session_can_run(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(BASH), turn("Without it, then."))
    ran = ostler("-p", "--json", *use(vendor), "--permissions", "edit", "--on-question", "wait", "run it")
    copy = ostler("sessions", "fork", ran.lines[-1]["session"]).out.strip()
    after = ostler("-p", *use(vendor), "--session", copy, "do not run it")
    assert (after.code, after.out) == (0, "Without it, then.\n")
