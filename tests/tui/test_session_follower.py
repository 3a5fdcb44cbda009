"""Open questions and paused runs when their session is opened again: every front end asks and resumes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.testkit.vendors import FakeVendor, Turn, call, turn
from tests.support.command import Ostler, finish, use
from tests.support.fixtures import Open, Serve
from tests.tui.terminal import Terminal
from tests.tui.test_conversation_several_processes import session_of


def touching(*after: str) -> list[Turn]:
    return [turn(call("bash", {"command": "touch made"})), *map(turn, after)]


def waits(ostler: Ostler, vendor: FakeVendor) -> None:
    ran = ostler("-p", *use(vendor), "--permissions", "ask", "--on-question", "wait", "go")
    assert ran.code == 6, ran.err


def is_killed(ostler: Ostler, vendor: FakeVendor, open_tui: Open) -> None:
    terminal = open_tui(vendor, "--permissions", "ask", "go")
    terminal.wait_for_question()
    os.killpg(terminal.process.pid, signal.SIGKILL)
    terminal.process.wait()


def allow(terminal: Terminal) -> None:
    terminal.answer("y")


def allow_in_plain_lines(terminal: Terminal) -> None:
    terminal.wait_for("answer:")
    terminal.type("y\n")


FRONT_ENDS: list[tuple[tuple[str, ...], Callable[[Terminal], None]]] = [
    ((), allow),
    (("--plain",), allow_in_plain_lines),
]


@pytest.mark.parametrize(("arguments", "answer"), FRONT_ENDS)
@pytest.mark.parametrize("how", ["waited", "was killed"])
def test_an_open_question_is_asked_again_and_later_prompts_run(
    open_tui: Open,
    serve: Serve,
    ostler: Ostler,
    arguments: tuple[str, ...],
    answer: Callable[[Terminal], None],
    how: str,
) -> None:
    vendor = serve(*touching("it was run", "and the next one"))
    if how == "waited":
        waits(ostler, vendor)
    else:
        is_killed(ostler, vendor, open_tui)
    terminal = open_tui(vendor, *arguments, "--permissions", "ask", "--session", session_of(ostler))
    terminal.wait_for("touch made")
    answer(terminal)
    terminal.wait_for_ever("it was run")
    assert (ostler.work / "made").exists()
    terminal.wait_for("completed")
    terminal.type("more" + ("\n" if arguments else "\r"))
    terminal.wait_for_ever("and the next one")


def test_an_open_question_is_declined_with_a_reason_and_prompts_that_waited_run(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(*touching("as you wish", "at last"))
    waits(ostler, vendor)
    terminal = open_tui(vendor, "--session", session_of(ostler))
    terminal.wait_for_question()
    terminal.type("\x1b[Zthe next thing")
    terminal.wait_for("> the next thing")
    terminal.press("enter")
    terminal.wait_for("queued: the next thing")
    terminal.answer("not while I look")
    terminal.wait_for_ever("at last")
    assert "not while I look" in str(vendor.requests[1].body)
    assert not (ostler.work / "made").exists()


def test_a_second_terminal_asks_again_when_the_first_one_is_killed(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(*touching("it was run"))
    first = open_tui(vendor, "--permissions", "ask", "go")
    first.wait_for_question()
    second = open_tui(vendor, "--permissions", "ask", "--session", session_of(ostler))
    second.wait_for_question()
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.wait()
    second.answer("y")
    second.wait_for_ever("it was run")
    assert (ostler.work / "made").exists()


def test_an_answer_of_another_process_closes_a_question_that_was_asked_again(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    vendor = serve(*touching("as you wish"))
    waits(ostler, vendor)
    session = session_of(ostler)
    terminal = open_tui(vendor, "--session", session)
    terminal.wait_for_question()
    assert ostler("answer", session, "no").code == 0
    terminal.wait_for_ever("as you wish")
    terminal.wait_for("1. yes, this once", gone=True)
    assert "by cli" in terminal.everything()


def test_a_question_of_a_child_is_asked_again(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    def by(request: dict[str, object]) -> Turn:
        last = request["messages"][-1]  # type: ignore[index]
        if last["role"] == "tool":
            return turn("the whole errand is done")
        if "the errand" in str(last["content"]):
            return turn(call("bash", {"command": "touch made"}))
        return turn(call("delegate", {"task": "the errand"}))

    vendor = serve(by=by)
    waits(ostler, vendor)
    session = next(row["session"] for row in ostler("runs", "--json").lines if not row.get("child_of"))
    terminal = open_tui(vendor, "--permissions", "ask", "--session", session)
    assert "touch made" in terminal.wait_for_question()
    terminal.answer("y")
    terminal.wait_for_ever("the whole errand is done")
    assert (ostler.work / "made").exists()


@pytest.mark.parametrize("arguments", [(), ("--plain",)])
def test_a_run_that_another_process_paused_is_resumed(
    open_tui: Open, serve: Serve, ostler: Ostler, arguments: tuple[str, ...]
) -> None:
    command = "echo it-has-begun; until [ -e go ]; do sleep 0.02; done"
    vendor = serve(turn(call("bash", {"command": command})), turn("the end of it"))
    driving = ostler.start("-p", "go", "--yes", *use(vendor))
    session = session_of(ostler)
    watching = open_tui(vendor, "--session", session)
    watching.wait_for("│ it-has-begun")
    assert ostler("pause", session).code == 0
    (ostler.work / "go").touch()
    assert finish(driving).code == 6
    watching.press("ctrl+c", "ctrl+c")
    watching.wait_for_end()
    terminal = open_tui(vendor, *arguments, "--session", session)
    terminal.wait_for("enter in the empty line resumes it")
    terminal.type("\n" if arguments else "\r")
    terminal.wait_for_ever("the end of it")


DIALOG = """
def setup(ostler):
    @ostler.command("garden")
    async def garden(arguments, context):
        await context.ui.confirm("Shall it rain?", default=True)
"""


def test_a_dialog_whose_process_has_ended_is_withdrawn(
    open_tui: Open, serve: Serve, ostler: Ostler, tmp_path: Path
) -> None:
    extension = tmp_path / "garden.py"
    extension.write_text(DIALOG)
    vendor = serve(turn("first"), turn("second"))
    terminal = open_tui(vendor, "-e", str(extension), "begin")
    terminal.wait_for("completed")
    session = session_of(ostler)
    terminal.type("/garden")
    terminal.wait_for("> /garden")
    terminal.press("enter")
    terminal.wait_for("Shall it rain?")
    os.killpg(terminal.process.pid, signal.SIGKILL)
    terminal.process.wait()
    again = open_tui(vendor, "--session", session)
    again.wait_for_ever("first")
    again.type("go on")
    again.wait_for("> go on")
    again.press("enter")
    again.wait_for_ever("second")
    assert "Shall it rain? → withdrawn" in again.everything()
    facts = ostler("sessions", "show", session, "--json").facts
    assert [one["outcome"] for one in facts if one["type"] == "question_answered"] == ["withdrawn"]
