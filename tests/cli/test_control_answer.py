"""`ostler answer`: another process answers a question and continues the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ostler.testkit.vendors import Answer, call, turn
from tests.cli.test_prompt_continue import messages_of
from tests.support.command import PATIENCE, Ostler, finish, use
from tests.support.fixtures import InProcess, Serve
from tests.support.open_runs import (
    ASKING,
    GATED,
    TOUCH,
    facts,
    gated_run,
    parent_and_child,
    read_to_end,
    waiting_run,
)

PROGRAM = Path(__file__).with_name("leaving_questions.py")


def open_questions(ostler: Ostler, *sessions: str) -> list[str]:
    """Sessions whose runs wait for answers of these kinds; a program left them in the command's store."""
    ostler.home.mkdir(exist_ok=True)
    command = [sys.executable, PROGRAM, ostler.store, ostler.work, *sessions]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=PATIENCE
    ).stdout.split()


def answers(ostler: Ostler, session: str) -> list[tuple[str, Any]]:
    return [
        (fact["outcome"], fact.get("answer"))
        for fact in facts(ostler, session)
        if fact["type"] == "question_answered"
    ]


@pytest.mark.parametrize(
    ("words", "result", "made"),
    [(("yes",), None, True), (("Y",), None, True), (("no",), "call_refused", False)],
    ids=["yes", "y", "no"],
)
def test_a_permission_is_answered_and_the_run_continues(
    ostler: Ostler, serve: Serve, words: tuple[str, ...], result: str | None, made: bool
) -> None:
    vendor = serve(turn(TOUCH), turn("That was it."))
    session = waiting_run(ostler, vendor)
    ran = ostler("answer", session, *words, *use(vendor), "--permissions", "edit", "--json")
    assert ran.code == (0 if made else 4)
    assert (ran.types[0], ran.types[-1]) == ("run_started", "run_ended")
    assert [one.get("failed") for one in ran.all("tool_result")] == [result]
    assert (ostler.work / "made").exists() == made


def test_a_scope_that_the_question_offers_is_remembered(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(TOUCH), turn("Made."))
    session = waiting_run(ostler, vendor)
    wrong = ostler("answer", session, "always")
    assert (wrong.code, wrong.err) == (
        2,
        "ostler: 'always' is not an answer; the answers are: yes, session, project, user, no\n",
    )
    ran = ostler("answer", *use(vendor), *ASKING, session, "user")
    assert (ran.code, ran.out) == (0, "Made.\n")
    assert "bash(=touch made)" in ostler("permissions").out


def test_the_model_receives_the_reason_of_a_decline(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(TOUCH), turn("Then not."))
    session = waiting_run(ostler, vendor)
    ran = ostler("answer", session, "--decline", *use(vendor), "not", "on", "Sundays")
    assert (ran.code, ran.out) == (4, "Then not.\n")
    assert messages_of(vendor.requests[1].json)[-1][1] == "[error] not on Sundays"


WRONG = (
    ("choice", "green", "'green' is not an answer; the answers are: Red, Blue"),
    ("form", "{", "the answer must be JSON"),
    ("form", '{"port": "x"}', "the answer does not match the form: 'port' is not of type integer"),
    ("secret", "hunter2", "a secret must not be an argument"),
    ("text", "", "there is no answer to: Why?"),
)


def test_an_answer_must_fit_its_question(ostler: Ostler, in_process: InProcess) -> None:
    sessions = open_questions(ostler, *[kind for kind, _, _ in WRONG])
    for session, (_, wrong, complaint) in zip(sessions, WRONG, strict=True):
        code, out, err = in_process("answer", session, wrong)
        assert (code, out) == (2, "") and complaint in err and err.count("\n") == 1
        assert answers(ostler, session) == []


def test_record_only_does_not_continue_the_run(ostler: Ostler) -> None:
    choice, form, text, secret = open_questions(ostler, "choice", "form", "text", "secret")
    for session, words, answer in (
        (choice, ("blue",), "Blue"),
        (form, ('{"port":', "80}"), {"port": 80}),
        (text, ("because", "of", "it"), "because of it"),
    ):
        ran = ostler("answer", session, "--record-only", *words)
        assert (ran.code, ran.err) == (0, "ostler: the answer is recorded\n")
        assert answers(ostler, session) == [("answered", answer)]
    again = ostler("answer", text, "and", "because")
    assert again.code == 2 and f"session {text} has no open question" in again.err
    assert ostler("answer", secret, "--record-only", "--decline").code == 0
    assert answers(ostler, secret) == [("declined", None)]


def test_a_piped_secret_is_not_stored(ostler: Ostler, serve: Serve) -> None:
    (session,) = open_questions(ostler, "secret")
    vendor = serve(turn("Thank you."))
    ran = ostler("answer", session, *use(vendor), piped=b"hunter2")
    assert (ran.code, ran.out) == (0, "Thank you.\n")
    assert answers(ostler, session) == [("answered", None)]
    assert "hunter2" not in str(vendor.requests[0].json)


def test_an_answer_may_be_piped_in(ostler: Ostler) -> None:
    (session,) = open_questions(ostler, "form")
    ran = ostler("answer", session, "--record-only", "--json", piped=b'{"port": 81}\n')
    assert ran.code == 0 and ran.lines[0]["done"]
    assert answers(ostler, session) == [("answered", {"port": 81})]


def test_one_of_several_questions_is_named(ostler: Ostler, in_process: InProcess) -> None:
    (session,) = open_questions(ostler, "text,choice")
    ids = [fact["id"] for fact in facts(ostler, session) if fact["type"] == "question_asked"]
    code, _, vague = in_process("answer", session, "so")
    assert code == 2 and vague.startswith("ostler: choose one with --question: ")
    assert all(one in vague for one in ids)
    code, _, wrong = in_process("answer", session, "--question", "q_nowhere", "so")
    assert code == 2 and "the question q_nowhere is not open; open: " in wrong
    assert ostler("answer", session, "--question", ids[0], "--record-only", "so").code == 0
    assert ostler("answer", session, "--record-only", "red").code == 0
    assert answers(ostler, session) == [("answered", "so"), ("answered", "Red")]


def test_a_childs_question_is_answered_through_its_parent(ostler: Ostler, serve: Serve) -> None:
    vendor, parent, child = parent_and_child(ostler, serve)
    ran = ostler("answer", parent, "yes", *use(vendor), *ASKING)
    assert (ran.code, ran.out) == (0, "All is done.\n")
    assert (ostler.work / "made").exists()
    assert [facts(ostler, one)[-1]["status"] for one in (parent, child)] == ["completed", "completed"]
    assert ostler("sessions", "check").code == 0


def test_a_childs_question_is_answered_by_the_childs_id(ostler: Ostler, serve: Serve) -> None:
    vendor, parent, child = parent_and_child(ostler, serve)
    recorded = ostler("answer", child, "yes", "--record-only")
    assert recorded.code == 0
    ran = ostler("resume", child, *use(vendor), *ASKING)
    assert (ran.code, ran.out) == (0, "All is done.\n")
    assert ran.err == f"ostler: session {child} is a subagent of session {parent}: continuing that one\n"


def test_yes_also_grants_permissions_of_children(ostler: Ostler, serve: Serve) -> None:
    vendor, parent, _ = parent_and_child(ostler, serve)
    ran = ostler("-p", *use(vendor), "--continue", "--yes")
    assert (ran.code, ran.out) == (0, "All is done.\n")
    assert facts(ostler, parent)[-1]["status"] == "completed"


def test_an_answer_continues_a_grandchild_and_its_parents(ostler: Ostler, serve: Serve) -> None:
    def answer(request: dict[str, Any]) -> Answer:
        messages = [one for one in request["messages"] if one["role"] != "system"]
        task, has_result = messages[0]["content"], messages[-1]["role"] == "tool"
        if has_result:
            return turn(f"{task} done")
        deeper = {"a": "b", "b": "c"}
        return turn(call("delegate", {"task": deeper[task]}) if task in deeper else TOUCH)

    ostler.configure('allow = ["delegate"]')
    vendor = serve(by=answer)
    waits = ostler("-p", *use(vendor), *ASKING, "a")
    assert waits.code == 6 and "waiting for an answer (subagent): Allow bash: touch made" in waits.err
    (parent, *_) = ostler("runs", "--json").lines
    ran = ostler("answer", parent["session"], "yes", *use(vendor), *ASKING)
    assert (ran.code, ran.out) == (0, "a done\n")
    assert [row["status"] for row in ostler("runs", "--all", "--json").lines] == ["completed"] * 3
    assert ostler("sessions", "check").code == 0


def test_a_run_of_another_process_has_nothing_to_answer(ostler: Ostler, serve: Serve) -> None:
    with gated_run(ostler, serve(turn(GATED), turn("Done."))) as gated:
        ran = ostler("answer", gated.session, "yes")
        assert ran.code == 2 and "has no open question" in ran.err
        gated.open()
        assert finish(gated.process).code == 0


def test_a_question_of_another_process_is_answered_there(ostler: Ostler) -> None:
    ostler.home.mkdir()
    command = [sys.executable, PROGRAM, ostler.store, ostler.work, "--stay", "choice"]
    asking = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert asking.stdout is not None
        session = asking.stdout.readline().decode().strip()
        wrong = ostler("answer", session, "green")
        assert wrong.code == 2
        ran = ostler("answer", session, "blue")
        assert (ran.code, ran.err) == (0, "ostler: the answer is recorded\n")
        ended = read_to_end(asking)
    finally:
        asking.kill()
    assert ended.code == 0 and "Blue" in ended.out
    assert answers(ostler, session) == [("answered", "Blue")]
