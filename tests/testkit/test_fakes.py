from __future__ import annotations

from pathlib import Path

import pytest

from ostler.core.function_tool import tool
from ostler.core.tool import ToolContext
from ostler.schema.errors import CallRefused, NotFound
from ostler.schema.outcomes import Failed, NeedUser, Ok, Question
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool


@tool
async def greet(name: str, *, context: ToolContext) -> str:
    """Greets a person."""
    context.output(f"greeting {name}\n")
    if not name:
        raise CallRefused("nobody to greet")
    title = await context.ask(Question("Which title?"))
    return f"hello {title} {name}"


async def test_run_tool_validates_runs_and_stores_like_a_session(tmp_path: Path) -> None:
    context = FakeToolContext(tmp_path, answers=["Dr"])
    outcome = await run_tool(greet, {"name": "Ada"}, context)
    assert isinstance(outcome, Ok)
    assert result_text(outcome) == "hello Dr Ada"
    assert context.output_text == "greeting Ada\n"
    assert context.questions == [Question("Which title?")]
    assert [result.name for result in context.session_results] == ["greet"]


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({}, "invalid_arguments", "name"),
        ({"name": 1}, "invalid_arguments", "name"),
        ({"name": ""}, "call_refused", "nobody to greet"),
        ({"name": "Ada"}, "call_refused", "nobody can answer here"),
    ],
)
async def test_run_tool_returns_failures_as_outcomes(
    tmp_path: Path, arguments: dict[str, object], kind: str, text: str
) -> None:
    outcome = await run_tool(greet, arguments, FakeToolContext(tmp_path))
    assert isinstance(outcome, Failed)
    assert outcome.kind == kind
    assert text in result_text(outcome)


async def test_run_tool_returns_an_exception_as_a_failure_with_its_name(tmp_path: Path) -> None:
    @tool
    def divide(a: int, b: int) -> float:
        """Divides."""
        return a / b

    outcome = await run_tool(divide, {"a": 1, "b": 0}, FakeToolContext(tmp_path))
    assert result_text(outcome) == "ZeroDivisionError: division by zero"


async def test_run_tool_stores_no_result_for_an_open_call(tmp_path: Path) -> None:
    @tool
    def deploy() -> NeedUser:
        """Deploys."""
        return NeedUser(Question("Really?"))

    context = FakeToolContext(tmp_path)
    assert isinstance(await run_tool(deploy, {}, context), NeedUser)
    assert context.session_results == []


async def test_a_reopened_context_has_results_and_blobs_but_no_memory(tmp_path: Path) -> None:
    context = FakeToolContext(tmp_path, answers=["Dr"])
    context.memory["open"] = True
    await run_tool(greet, {"name": "Ada"}, context)
    later = context.reopened()
    assert (later.session, later.memory) == (context.session, {})
    assert [result.call async for result in later.results()] == [context.call]
    assert await later.read_blob(f"out_{context.call}", 9, 3) == b"Ada"
    with pytest.raises(NotFound):
        await later.read_blob("out_of_nothing")
