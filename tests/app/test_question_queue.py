"""The answers to a question, and how typed text is parsed as one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ostler.app.question_queue import (
    DECLINED,
    QUIET_SECONDS,
    REMEMBER,
    Attention,
    Declined,
    QuestionQueue,
    answer_options,
    answer_steps,
    dialog_in,
    parse_answer,
)
from ostler.extensions.ui.types import ConfirmDialog, as_data
from ostler.schema.errors import CallRefused, UsageError
from ostler.schema.events import QuestionAsked
from ostler.schema.outcomes import Question

MAY_IT = Question(
    "May it?",
    "permission",
    ("yes", "session", "no"),
    details={"remember": {"session": ["bash(git push)"]}},
)
COLOR = Question("Which?", "choice", ("Red", "Blue"))
LIST = Question("Which?", "form", form={"type": "array", "items": {"enum": ["a", "b"]}})


def test_each_option_has_its_keys_and_its_rules() -> None:
    assert [(one.answer, one.label, one.keys) for one in answer_options(MAY_IT)] == [
        ("yes", "yes, this once", ("1", "y")),
        ("no", "no", ("2", "n")),
        ("session", "yes, and for this session: git push with any arguments", ("3",)),
    ]
    assert [(one.label, one.keys) for one in answer_options(COLOR)] == [("Red", ("1",)), ("Blue", ("2",))]
    many = Question("Which?", "choice", tuple(f"number {one}" for one in range(12)))
    assert [one.keys for one in answer_options(many)][8:] == [("9",), (), (), ()]
    assert answer_options(Question("Why?")) == []


def test_a_wider_offer_is_an_option_of_its_own() -> None:
    scopes = ("session", "user")
    details = {
        "remember": {scope: ["bash(=make test)"] for scope in scopes},
        "remember_wider": {scope: ["bash+(make test)"] for scope in scopes},
    }
    question = Question("May it?", "permission", ("yes", *scopes, "no"), details=details)
    assert [(one.answer, one.label) for one in answer_options(question)][2:] == [
        ("session", "yes, and for this session: exactly: make test"),
        ("user", "yes, and always: exactly: make test"),
        ("session+", "yes, and for this session: make test, also with more operands"),
        ("user+", "yes, and always: make test, also with more operands"),
    ]
    assert parse_answer(question, "Session+") == "session+"
    with pytest.raises(UsageError):
        parse_answer(question, "project+")


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (MAY_IT, "allow", "yes"),
        (MAY_IT, "Session", "session"),
        (COLOR, "blue", "Blue"),
        (LIST, '["a"]', ["a"]),
        (Question("Why?"), "2", "2"),
    ],
)
def test_a_typed_text_is_parsed_as_an_answer(question: Question, text: str, answer: Any) -> None:
    assert parse_answer(question, text) == answer
    assert parse_answer(question, text, numbered=True) == answer


def test_a_number_is_an_answer_only_for_numbered_options() -> None:
    assert parse_answer(COLOR, "2", numbered=True) == "Blue"
    assert parse_answer(MAY_IT, "n", numbered=True) == "no"
    with pytest.raises(UsageError, match="type a number from 1 to 2"):
        parse_answer(COLOR, "3", numbered=True)
    with pytest.raises(UsageError, match="'2' is not an answer; the answers are: Red, Blue"):
        parse_answer(COLOR, "2")


@pytest.mark.parametrize(("text", "problem"), [("{", "must be JSON"), ('["c"]', "does not match the form")])
def test_a_form_is_answered_in_json(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_answer(LIST, text)


async def test_questions_are_asked_one_by_one_and_only_valid_answers_count() -> None:
    queue, calls = QuestionQueue(), []
    queue.opened, queue.closed = lambda: calls.append("opened"), lambda: calls.append("closed")
    first = asyncio.ensure_future(queue.ask(QuestionAsked("q1", COLOR)))
    second = asyncio.ensure_future(queue.ask(QuestionAsked("q2", Question("Why?"))))
    await asyncio.sleep(0)
    assert queue.present is not None and queue.present.id == "q1" and queue.behind == 1
    assert queue.answer("Green") == "the answer must be one of: Red, Blue"
    assert queue.answer("Red") == "" == queue.answer("Blue")
    assert await first == "Red"
    assert queue.present.id == "q2"
    queue.answer(DECLINED)
    with pytest.raises(CallRefused):
        await second
    assert queue.present is None and calls == ["opened", "opened", "closed"]


async def test_the_reason_of_a_refusal_is_passed_on() -> None:
    queue = QuestionQueue()
    asking = asyncio.ensure_future(queue.ask(QuestionAsked("q1", MAY_IT)))
    await asyncio.sleep(0)
    queue.answer(Declined("use rg instead"))
    with pytest.raises(CallRefused, match="use rg instead"):
        await asking


def test_answers_that_are_remembered_are_in_a_second_list() -> None:
    steps = answer_steps(MAY_IT)
    assert [(one.answer, one.keys) for one in steps.first] == [
        ("yes", ("1", "y")),
        ("no", ("2", "n")),
        (REMEMBER, ("3", "r")),
    ]
    assert [(one.answer, one.keys) for one in steps.remembered] == [("session", ("1", "s"))]
    assert [one.keys for one in answer_steps(COLOR).first] == [("1",), ("2",)]
    assert answer_steps(COLOR).remembered == ()
    plain = Question("May it?", "permission", ("yes", "no"))
    assert [one.answer for one in answer_steps(plain).first] == ["yes", "no"]


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def test_keys_are_for_a_question_600_ms_after_it_was_seen() -> None:
    clock = Clock()
    attention = Attention(clock)
    clock.now += 100
    assert not attention.is_on_question(has_draft=False), "nobody has seen it yet"
    attention.seen()
    clock.now += QUIET_SECONDS - 0.01
    attention.seen()  # drawn once more
    assert not attention.is_on_question(has_draft=False)
    clock.now += 0.02
    assert attention.is_on_question(has_draft=False)


def test_keys_are_for_the_line_while_it_holds_a_draft_and_600_ms_longer() -> None:
    clock = Clock()
    attention = Attention(clock)
    attention.seen()
    clock.now += 5
    assert not attention.is_on_question(has_draft=True)
    assert not attention.is_on_question(has_draft=False), "it has just been sent"
    clock.now += QUIET_SECONDS + 0.01
    assert attention.is_on_question(has_draft=False)
    assert not attention.is_on_question(has_draft=False, is_busy=True)


def test_a_key_leads_to_the_question_beside_a_draft_and_back() -> None:
    clock = Clock()
    attention = Attention(clock)
    attention.seen()
    attention.toggle(has_draft=True)
    assert not attention.is_on_question(has_draft=True), "not in the first 600 ms"
    clock.now += QUIET_SECONDS + 0.01
    assert attention.is_on_question(has_draft=True)
    attention.toggle(has_draft=True)
    assert not attention.is_on_question(has_draft=True)
    attention.toggle(has_draft=True)
    assert attention.is_on_question(has_draft=True)


def test_only_an_extension_has_dialogs_which_may_preselect_an_answer() -> None:
    details = as_data(ConfirmDialog(True))
    sure = Question("Sure?", "choice", ("yes", "no"), details=details)
    assert dialog_in(QuestionAsked("q1", sure, asked_by="extension")) == ConfirmDialog(True)
    assert dialog_in(QuestionAsked("q1", sure, asked_by="hook")) is None
    permission = Question("May it?", "permission", ("yes", "no"), details=details)
    assert dialog_in(QuestionAsked("q1", permission, asked_by="extension")) is None
