"""Whether an answer fits a question, and who may give it, is decided once, for every front end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.process_tree import INSIDE_VARIABLE
from ostler.core.questions import answer_problem
from ostler.models.scripted import Call
from ostler.permissions.guard import permission_hook
from ostler.schema.events import QuestionAsked
from ostler.schema.outcomes import Question
from ostler.store.sqlite import SqliteStore
from tests.support.running import run

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


async def test_the_front_end_of_a_run_that_an_agent_started_cannot_allow_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(kind="execute")
    def launch() -> str:
        "Must not run."
        return "launched"

    async def yes(asked: QuestionAsked) -> str:
        return "yes"

    store = SqliteStore(tmp_path / "ostler.db")
    guard = permission_hook("ask", tmp_path)
    for inside, result in ((store.id, "was started by an agent"), ("store_of_another", "launched")):
        monkeypatch.setenv(INSIDE_VARIABLE, inside)
        script = [Call("launch", {}), "done"]
        ran = await run(script, tools=[launch], store=store, cwd=tmp_path, permission_hook=guard, asker=yes)
        assert result in ran.results()[0]
        await ran.session.close()
    await store.close()
