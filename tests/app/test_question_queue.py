"""The answers to a question, and how typed text is parsed as one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ostler.app.question_queue import DECLINED, QuestionQueue, answer_options, parse_answer
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
