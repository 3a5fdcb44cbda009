"""Calls of idempotent tools with the same arguments, in one step: one of them runs, all have its result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.hooks import Ask, Hook, PlannedCall
from ostler.models.scripted import Call
from ostler.schema import events
from ostler.schema.events import QuestionAsked
from ostler.schema.outcomes import Question
from tests.support.running import run


@pytest.mark.parametrize("needs_permission", [(), ("first",), ("second",), ("first", "second")])
async def test_the_same_call_runs_once_whichever_needed_permission(needs_permission: tuple[str]) -> None:
    ran_now: list[int] = []

    @tool(parallel=True, idempotent="run")
    async def look(number: int) -> str:
        ran_now.append(number)
        for _ in range(20):
            await asyncio.sleep(0)
        return f"seen {number}"

    def guard(call: PlannedCall) -> Ask | None:
        return Ask(Question("May it?", "permission")) if call.call in needs_permission else None

    async def yes(asked: QuestionAsked) -> Any:
        return "yes"

    calls = [Call("look", {"number": 1}, id="first"), Call("look", {"number": 1}, id="second")]
    ran = await run([calls, "done"], tools=[look], hooks=[Hook("before_tool", guard)], asker=yes)
    assert ran.status == "completed"
    assert ran_now == [1] and ran.results() == ["seen 1", "seen 1"]
    assert [bool(result.repeats) for result in ran.all(events.ToolResultFact)] == [False, True]
