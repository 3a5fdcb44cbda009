"""Whether an answer fits a question is decided once, for every front end."""

from __future__ import annotations

from typing import Any

import pytest

from ostler.core.questions import answer_problem
from ostler.schema.outcomes import Question

COLOR = Question("Which?", "choice", ("Red", "Blue"))
PORT = {"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}


@pytest.mark.parametrize(
    ("question", "value", "problem"),
    [
        (COLOR, "Red", ""),
        (COLOR, "red", "the answer must be one of: Red, Blue"),
        (Question("Which?", "choice"), "anything", ""),
        (Question("Why?"), "because", ""),
        (Question("May it?", "permission", ("yes", "no")), "perhaps", ""),
        (Question("Where?", "form", form=PORT), {"port": 80}, ""),
        (
            Question("Where?", "form", form=PORT),
            {"port": "x"},
            "the answer does not match the form: 'port' is",
        ),
        (
            Question("Where?", "form", form=PORT, secret=True),
            {"port": "x"},
            "the answer does not match the form",
        ),
    ],
)
def test_an_invalid_answer_is_described(question: Question, value: Any, problem: str) -> None:
    reason = answer_problem(question, value)
    assert reason.startswith(problem) if problem else reason == ""
    assert not question.secret or reason == problem
