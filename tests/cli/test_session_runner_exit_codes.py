"""Every exit code of a run, with the line that goes with it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ostler.core.processes import SESSION_VARIABLE
from ostler.testkit.vendors import Refusal, Trouble, call, say, turn
from tests.support.command import Ostler, finish, use, wait_until
from tests.support.fixtures import Configure, Serve


def test_exit_code_0_for_a_completed_run(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", *use(serve(turn("Hello."))), "hello")
    assert (ran.code, ran.out, ran.err) == (0, "Hello.\n", "")


def test_exit_code_1_for_a_failed_run(ostler: Ostler, serve: Serve) -> None:
    ran = ostler("-p", *use(serve(Refusal(400, "no such thing"))), "hello")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("ostler: failed: ") and "no such thing" in ran.err and ran.err.count("\n") == 1


def test_exit_code_3_without_a_model_stores_no_session(ostler: Ostler, configure: Configure) -> None:
    ran = ostler("-p", "hello")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == (
        "ostler: no model can answer: set ANTHROPIC_API_KEY or OPENAI_API_KEY, start a local server such as "
        "Ollama, or try --model demo; see `ostler doctor`\n"
    )
    keyless = ostler("-p", "--model", "anthropic/claude-x", "hello")
    assert keyless.code == 3
    assert keyless.err == (
        "ostler: anthropic needs a key: set ANTHROPIC_API_KEY, run `ostler key set anthropic`, "
        "or name another model\n"
    )
    assert not ostler.store.exists()


def test_exit_code_4_for_a_denied_call(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(call("bash", {"command": "ls"})), turn("I could not."))
    ran = ostler("-p", *use(vendor), "list the files")
    assert (ran.code, ran.out) == (4, "I could not.\n")
    assert (
        ran.err.startswith("ostler: refused: bash: permissions are read-only: ") and ran.err.count("\n") == 1
    )
    declined = ostler("-p", *use(serve(turn("I will not.", stop="refusal"))), "do harm")
    assert (declined.code, declined.err) == (4, "ostler: refused: the model refused to answer\n")


def test_exit_code_5_for_a_limit(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(by=lambda request: turn(call("ls", {"path": "." + "/." * len(request["messages"])})))
    ran = ostler("-p", *use(vendor), "--max-steps", "2", "go")
    assert (ran.code, ran.err) == (
        5,
        "ostler: 2 of 2 steps are used\nostler: limit: the limit of 2 steps was reached\n",
    )
    assert len(vendor.requests) == 2


def test_exit_code_6_for_a_waiting_run(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(call("bash", {"command": "touch made"})))
    options = ("--permissions", "ask", "--on-question", "wait")
    ran = ostler("-p", *use(vendor), *options, "make a file")
    (session,) = ostler("sessions", "--json").lines
    assert (ran.code, ran.out, session["status"]) == (6, "", "waiting")
    assert ran.err == (
        "ostler: waiting for an answer: Allow bash: touch made "
        "[session/project/user remembers bash(=touch made); "
        "session+/project+/user+ remembers bash+(touch made)]\n"
        f"ostler: the run waits in session {session['id']}; "
        f"`ostler answer {session['id']} yes` continues it\n"
    )
    assert not (ostler.work / "made").exists()


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGINT, 130, "ostler: cancelled\n"),
        (signal.SIGTERM, 143, "ostler: cancelled: terminated\n"),
        (signal.SIGHUP, 143, "ostler: cancelled: terminated\n"),
    ],
)
def test_a_signal_cancels_the_run(
    ostler: Ostler, serve: Serve, number: signal.Signals, code: int, line: str
) -> None:
    vendor = serve(turn(say("so ", "far"), trouble=Trouble("silence", after=3)))
    process = ostler.start("-p", *use(vendor), "hello")
    wait_until(lambda: vendor.requests)
    process.send_signal(number)
    ran = finish(process)
    assert (ran.code, ran.err) == (code, line)
    (session,) = ostler("sessions", "--json").lines
    assert session["status"] == "cancelled"


def test_the_command_prints_the_text_of_a_cancelled_run(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(say("so ", "far"), trouble=Trouble("silence", after=3)))
    process = ostler.start("-p", "--json", *use(vendor), "hello")
    assert process.stdout is not None
    while b'"far"' not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert ran.code == 130
    (message,) = ran.all("assistant_message")
    assert (message["content"], message["stop_reason"]) == ([{"type": "text", "text": "so far"}], "cancelled")
    wait_until(vendor.abandoned.is_set)


def test_a_signal_ends_the_running_tool_and_its_processes(ostler: Ostler, serve: Serve) -> None:
    command = "echo begun > begun; sleep 300 & sleep 300"
    vendor = serve(turn(call("bash", {"command": command}, id="call_of_the_signal_test")))
    process = ostler.start("-p", "--yes", "--json", *use(vendor), "wait")
    wait_until((ostler.work / "begun").exists)
    process.send_signal(signal.SIGTERM)
    ran = finish(process)
    assert ran.code == 143
    (result,) = ran.all("tool_result")
    assert result["failed"] == "tool_cancelled"
    assert ran.types[-2:] == ["step_ended", "run_ended"]
    assert not processes_of(result["session"])


def processes_of(session: str) -> list[Path]:
    leftovers = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{SESSION_VARIABLE}={session}".encode() in environment.read_bytes().split(b"\0"):
                leftovers.append(environment)
        except OSError:
            continue  # it ended, or is somebody else's
    return leftovers
