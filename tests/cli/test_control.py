"""`ostler steer|cancel|pause|resume|release` on runs of other processes, and on runs without one."""

from __future__ import annotations

import json

import pytest

from ostler.testkit.vendors import Refusal, call, turn
from tests.cli.test_prompt_continue import messages_of
from tests.support.command import Ostler, finish, use, wait_until
from tests.support.fixtures import InProcess, Serve
from tests.support.open_runs import (
    ASKING,
    GATED,
    SILENCE,
    TOUCH,
    cut_run,
    facts,
    gated_run,
    only_session,
    parent_and_child,
    waiting_run,
)

COMMANDS = (("steer", "left"), ("cancel",), ("pause",), ("release",), ("answer", "yes"), ("resume",))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_missing_session_is_one_line(
    ostler: Ostler, in_process: InProcess, command: tuple[str, ...]
) -> None:
    name, *words = command
    for options in ((), ("--json",)):
        none = in_process(name, *options, "ses_nowhere", *words)
        assert none == (2, "", "ostler: there are no sessions yet; `ostler -p PROMPT…` starts one\n")
    assert not ostler.store.exists()
    in_process("-p", "--model", "demo", "hello")
    code, _, wrong = in_process(name, "ses_nowhere", *words)
    assert code == 2 and wrong.startswith("ostler: no session 'ses_nowhere'")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_an_impossible_command_is_refused_with_a_hint(
    in_process: InProcess, command: tuple[str, ...]
) -> None:
    in_process("-p", "--model", "demo", "hello")
    _, listed, _ = in_process("sessions", "--json")
    session = json.loads(listed)["id"]
    before = in_process("sessions", "show", session, "--json")
    name, *words = command
    code, out, err = in_process(name, session, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert session in err or "give a prompt after -p" in err
    assert in_process("sessions", "show", session, "--json") == before


def test_a_run_of_another_process_is_steered(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(GATED), turn("As you say."))
    with gated_run(ostler, vendor) as gated:
        ran = ostler("steer", gated.session, "no,", "to", "the", "left")
        assert (ran.code, ran.out) == (0, "")
        assert f"process {gated.process.pid} on " in ran.err and "before its next step" in ran.err
        gated.open()
        assert finish(gated.process).code == 0
    assert messages_of(vendor.requests[1].json)[-1] == ("user", "no, to the left")


def test_a_steer_for_a_cut_run_arrives_when_it_is_resumed(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(SILENCE, turn("I went left."), turn("Done."))
    session = cut_run(ostler, vendor)
    ran = ostler("steer", session, "left")
    assert ran.code == 0 and "no process runs it now; the model gets the message after" in ran.err
    assert ostler("resume", session, *use(vendor)).out == "Done.\n"
    assert messages_of(vendor.requests[2].json)[-1] == ("user", "left")


def test_a_run_of_another_process_is_cancelled(ostler: Ostler, serve: Serve) -> None:
    with gated_run(ostler, serve(turn(GATED))) as gated:
        wrong = ostler("cancel", gated.session, "--call", "call_nowhere")
        assert (wrong.code, wrong.err) == (2, "ostler: the call call_nowhere is not running\n")
        ran = ostler("cancel", gated.session)
        assert (ran.code, ran.err) == (0, f"ostler: the run was cancelled in session {gated.session}\n")
        ended = finish(gated.process)
        assert (ended.code, ended.err) == (130, "ostler: cancelled: cancelled by cli\n")


def test_one_call_of_another_process_is_cancelled_and_its_run_continues(ostler: Ostler, serve: Serve) -> None:
    with gated_run(ostler, serve(turn(GATED), turn("Without it, then."))) as gated:
        (called,) = [one for one in facts(ostler, gated.session) if one["type"] == "tool_called"]
        assert ostler("cancel", gated.session, "--call", called["call"]).code == 0
        assert finish(gated.process).out == "Without it, then.\n"


def test_a_waiting_or_cut_run_is_cancelled_without_a_model(ostler: Ostler, serve: Serve) -> None:
    waiting = waiting_run(ostler, serve(turn(TOUCH)))
    ran = ostler("cancel", waiting, "--json")
    assert ran.code == 0 and ran.lines[0]["done"] and ran.lines[0]["session"] == waiting
    ended = facts(ostler, waiting)[-1]
    assert (ended["type"], ended["status"], ended["request"]) == (
        "run_ended",
        "cancelled",
        ran.lines[0]["request"],
    )
    ostler("sessions", "delete", "--yes", waiting)
    cut = cut_run(ostler, serve(SILENCE))
    assert ostler("cancel", cut).code == 0
    assert facts(ostler, cut)[-1]["status"] == "cancelled"
    assert ostler("sessions", "check").code == 0
    assert not (ostler.work / "made").exists()


def test_children_end_with_their_parent(ostler: Ostler, serve: Serve) -> None:
    _, parent, child = parent_and_child(ostler, serve)
    assert ostler("cancel", parent).code == 0
    assert [facts(ostler, one)[-1]["status"] for one in (parent, child)] == ["cancelled", "cancelled"]
    assert ostler("sessions", "check").code == 0


def test_a_child_is_not_deleted_while_its_parent_waits_for_it(ostler: Ostler, serve: Serve) -> None:
    _, parent, child = parent_and_child(ostler, serve)
    refused = ostler("sessions", "delete", "--yes", child)
    assert refused.code == 2 and f"is a child of session {parent}, whose run is open" in refused.err
    ostler("cancel", parent)
    assert ostler("sessions", "delete", "--yes", child).out == f"deleted {child}\n"


def test_a_parent_continues_after_its_child_was_cancelled(ostler: Ostler, serve: Serve) -> None:
    vendor, parent, child = parent_and_child(ostler, serve)
    ran = ostler("cancel", child)
    assert ran.code == 0 and f"`ostler resume {parent}` continues there" in ran.err
    resumed = ostler("resume", parent, *use(vendor))
    assert (resumed.code, resumed.out) == (0, "All is done.\n")


def test_a_paused_run_is_resumed_by_another_process(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(GATED), turn("Rested."))
    with gated_run(ostler, vendor, "--json") as gated:
        ran = ostler("pause", gated.session, "--json")
        assert ran.code == 0 and not ran.lines[0]["done"]
        assert ran.lines[0]["holder"]["pid"] == gated.process.pid
        gated.open()
        paused = finish(gated.process)
    assert (paused.code, paused.types[-1]) == (6, "run_waiting") and paused.lines[-1]["reason"] == "paused"
    assert paused.err == f"ostler: paused; `ostler resume {gated.session}` continues\n"
    assert "paused" in ostler("runs").out
    twice = ostler("pause", gated.session)
    assert (twice.code, twice.err) == (2, "ostler: the run is paused already\n")
    resumed = ostler("resume", gated.session, *use(vendor), "--yes")
    assert (resumed.code, resumed.out, resumed.err) == (0, "Rested.\n", "")


def test_a_waiting_run_can_be_paused_and_stays_paused_after_an_answer(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(TOUCH), turn("Made."))
    session = waiting_run(ostler, vendor)
    assert ostler("pause", session).err == f"ostler: paused; `ostler resume {session}` continues\n"
    answered = ostler("answer", session, "yes", *use(vendor))
    assert (answered.code, answered.err) == (6, f"ostler: paused; `ostler resume {session}` continues\n")
    resumed = ostler("resume", session, *use(vendor), "--permissions", "edit")
    assert (resumed.code, resumed.out) == (0, "Made.\n")
    assert (ostler.work / "made").exists()


def test_a_cut_run_cannot_be_paused_and_resumes_in_its_directory(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(SILENCE, turn(call("ls", {})), turn("There."))
    session = cut_run(ostler, vendor, "--max-steps", "9")
    (ostler.work / "here.txt").write_text("")
    ran = ostler("pause", session)
    assert ran.code == 2 and f"`ostler resume {session}` continues it" in ran.err
    elsewhere = ostler.work / "below"
    elsewhere.mkdir()
    resumed = ostler("resume", session, *use(vendor), cwd=elsewhere)
    assert (resumed.code, resumed.out) == (0, "There.\n")
    assert resumed.err.startswith(f"ostler: working in {ostler.work}, the directory of the session\n")
    assert "here.txt" in messages_of(vendor.requests[2].json)[-1][1]


def test_a_resumed_run_keeps_its_limits(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(SILENCE, turn(call("ls", {})))
    session = cut_run(ostler, vendor, "--max-steps", "1")
    assert ostler("resume", session, *use(vendor)).code == 5


def test_a_run_does_not_take_its_permissions_from_the_log(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(SILENCE, turn(TOUCH), turn("Made."))
    session = cut_run(ostler, vendor, "--yes")
    resumed = ostler("resume", session, *use(vendor))
    assert resumed.code == 6
    assert "the run started with --permissions full; unless you repeat that, it asks" in resumed.err
    assert not (ostler.work / "made").exists()
    assert ostler("resume", session).code == 6  # it waits for an answer, and no model is needed to say so
    assert ostler("answer", session, "yes", *use(vendor)).out == "Made.\n"


def test_a_failed_run_continues_from_its_messages(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(Refusal(400, "no"), turn("Now it works."))
    assert ostler("-p", *use(vendor), "hello").code == 1
    assert ostler("resume", only_session(ostler), *use(vendor)).out == "Now it works.\n"
    assert messages_of(vendor.requests[1].json) == [("user", "hello")]


def test_a_run_that_another_process_holds_is_not_resumed(ostler: Ostler, serve: Serve) -> None:
    with gated_run(ostler, serve(turn(GATED))) as gated:
        ran = ostler("resume", gated.session, "--model", "demo")
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert f"is held by process {gated.process.pid} on " in ran.err
        assert f"`ostler follow {gated.session}`" in ran.err


def test_a_prompt_for_a_waiting_run_is_queued(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(TOUCH), turn("Made."), turn("And then this."))
    session = waiting_run(ostler, vendor)
    waits = ostler("-p", *use(vendor), "--session", session, "and then?")
    assert waits.code == 6
    answered = ostler("answer", session, "yes", *use(vendor))
    assert (answered.code, answered.out) == (0, "Made.\nAnd then this.\n")
    assert messages_of(vendor.requests[2].json)[-1] == ("user", "and then?")


def test_held_prompts_are_released_one_after_the_other(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(TOUCH), turn("One."), turn("Two."))
    session = waiting_run(ostler, vendor)
    for prompt in ("first", "second"):
        ostler("-p", *use(vendor), "--session", session, prompt)
    open_run = ostler("release", session)
    assert (open_run.code, open_run.err) == (
        0,
        "ostler: 2 prompts will run when the open run has ended\n",
    )
    assert f"2 prompts held, because the run did not complete; `ostler release {session}`" in (
        ostler("cancel", session).err
    )
    ran = ostler("release", session, *use(vendor))
    assert (ran.code, ran.out) == (0, "One.\nTwo.\n")
    assert [messages_of(one.json)[-1] for one in vendor.requests[1:]] == [
        ("user", "first"),
        ("user", "second"),
    ]


@pytest.mark.parametrize("as_lines", [(), ("--json",)])
def test_a_limit_reports_held_prompts(ostler: Ostler, serve: Serve, as_lines: tuple[str, ...]) -> None:
    vendor = serve(turn(TOUCH))
    ran = ostler("-p", "--json", *use(vendor), *ASKING, "--max-steps", "1", "make it")
    session = str(ran.facts[0]["session"])
    ostler("-p", *use(vendor), "--session", session, "later")
    ended = ostler("answer", session, "yes", *use(vendor), "--permissions", "edit", *as_lines)
    assert ended.code == 5 and "1 prompt held, because the run did not complete" in ended.err


def test_held_prompts_are_dropped_without_a_model(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(TOUCH))
    session = waiting_run(ostler, vendor)
    ostler("-p", *use(vendor), "--session", session, "later")
    ostler("cancel", session)
    ran = ostler("release", session, "--drop")
    assert (ran.code, ran.err) == (0, "ostler: 1 prompt dropped\n")
    assert ostler("release", session, "--drop").err == f"ostler: session {session} has no queued prompts\n"


def test_a_queued_prompt_runs_after_the_answer(ostler: Ostler, serve: Serve) -> None:
    """`--continue` without a prompt shows the question, and `--yes` gives the permission."""
    vendor = serve(turn(TOUCH), turn("Made."))
    session = waiting_run(ostler, vendor)
    result = ostler("-p", *use(vendor), "--continue", "--permissions", "edit")
    assert result.code == 6 and f"`ostler answer {session} yes` continues it" in result.err
    assert ostler("-p", *use(vendor), "--continue", "--yes").out == "Made.\n"


def test_a_cut_session_is_taken_over_while_a_request_waits(ostler: Ostler, serve: Serve) -> None:
    """What was said to a process that dies is found by whoever takes its session over."""
    vendor = serve(turn(GATED), turn("As you say."))
    with gated_run(ostler, vendor) as gated:
        ostler("steer", gated.session, "left")
        gated.process.kill()
        gated.process.wait()
        wait_until(lambda: ostler("runs", "--json").lines[0]["status"] == "cut")
    ran = ostler("resume", gated.session, *use(vendor), *ASKING)
    assert (ran.code, ran.out) == (0, "As you say.\n")
    assert messages_of(vendor.requests[1].json)[-1] == ("user", "left")
