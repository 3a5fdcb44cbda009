"""The todo tool records the model's list as facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ostler.models.scripted import Call
from ostler.schema import events
from ostler.schema.outcomes import Failed, Ok
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool
from ostler.tools.todo import todo
from tests.support.running import run


async def test_the_list_is_replaced_and_returned(tmp_path: Path) -> None:
    context = FakeToolContext(tmp_path)
    items: list[dict[str, Any]] = [{"text": "look", "status": "done"}, {"text": "mend", "status": "active"}]
    outcome = await run_tool(todo, {"items": items}, context)
    assert result_text(outcome) == "[x] 1 look\n[>] 2 mend"
    assert isinstance(outcome, Ok) and outcome.summary == "1 of 2 done"
    assert result_text(await run_tool(todo, {}, context)) == result_text(outcome)


async def test_items_keep_their_ids(tmp_path: Path) -> None:
    context = FakeToolContext(tmp_path)
    await run_tool(todo, {"items": [{"text": "new"}, {"text": "old", "id": "1"}]}, context)
    assert [(item.id, item.text) for item in context.todo] == [("2", "new"), ("1", "old")]


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ([{"text": "a", "id": "1"}, {"text": "b", "id": "1"}], "two items have the id '1'"),
        ([{"text": ""}], "items[0].text"),
        ([{"text": "a", "status": "maybe"}], "items[0].status"),
    ],
)
async def test_an_invalid_list_is_refused(tmp_path: Path, items: Any, why: str) -> None:
    outcome = await run_tool(todo, {"items": items}, FakeToolContext(tmp_path))
    assert isinstance(outcome, Failed) and outcome.kind == "invalid_arguments" and why in result_text(outcome)


async def test_a_list_is_recorded_as_a_fact() -> None:
    ran = await run([Call("todo", {"items": [{"text": "work"}]}), "ok"], tools=[todo])
    (updated,) = ran.all(events.TodoUpdated)
    assert [item.text for item in updated.items] == ["work"]
