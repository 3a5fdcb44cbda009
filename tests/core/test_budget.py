"""Budgets: over a run and all of its children, warned of once, and never overrun by much."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ostler.core.call_context import CallContext
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.model import ModelRequest
from ostler.core.tool import ToolContext
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import StoreError
from ostler.schema.events import Limits, RunEnded, Warned
from ostler.schema.messages import as_content
from ostler.schema.outcomes import NeedUser, Question
from ostler.schema.usage import Usage
from ostler.sessions.agents import DelegateTool
from ostler.sessions.session import open_session
from ostler.store.invariants import violations
from ostler.store.memory import MemoryStore
from tests.support.running import Ran, run, started
from tests.system.dying_store import DyingStore

PRICED = Usage(input_tokens=80, output_tokens=20, cost=0.1)


@tool
async def again(n: int = 0) -> str:
    return str(n)


def _turns(usage: Usage = PRICED) -> list[Turn]:
    return [Turn(calls=(Call("again", {"n": n}),), usage=usage) for n in range(100)]


def _warnings(ran: Ran) -> list[str]:
    return [warned.details["limit"] for warned in ran.all(Warned) if warned.about == "limit"]


@pytest.mark.parametrize(
    ("limits", "steps", "reason"),
    [
        (Limits(steps=5), 5, "5 steps"),
        (Limits(tokens=1000), 10, "1000 tokens"),
        (Limits(cost=1.0), 10, "$1"),
    ],
)
async def test_a_run_ends_at_its_limit_with_the_reason(limits: Limits, steps: int, reason: str) -> None:
    ran = await run(_turns(), tools=[again], limits=limits)
    assert isinstance(ran.quiet, RunEnded)
    assert (ran.quiet.status, ran.quiet.own.steps) == ("limit", steps)
    assert reason in ran.quiet.reason
    assert len(_warnings(ran)) == 1


async def test_a_reservation_counts_against_the_limit() -> None:
    ran = await run(_turns(), tools=[again], limits=Limits(cost=0.95))
    assert isinstance(ran.quiet, RunEnded)
    assert ran.quiet.status == "limit" and ran.quiet.own.steps == 9


async def test_the_time_limit_ends_a_run_in_the_middle_of_a_call() -> None:
    @tool
    async def forever() -> str:
        await asyncio.get_running_loop().create_future()
        return ""

    ran = await run([Call("forever")], tools=[forever], limits=Limits(seconds=0.05))
    assert isinstance(ran.quiet, RunEnded)
    assert ran.quiet.status == "limit" and "0.05 seconds" in ran.quiet.reason
    assert _warnings(ran) == ["seconds"]


async def test_a_cost_limit_ends_a_run_whose_prices_are_unknown() -> None:
    ran = await run(_turns(Usage(input_tokens=5)), tools=[again], limits=Limits(cost=1.0))
    assert isinstance(ran.quiet, RunEnded)
    assert ran.quiet.status == "limit" and "prices are unknown" in ran.quiet.reason


def tree(depth: int, width: int) -> ScriptedModel:
    """Each agent hands its work to so many others, down to a depth."""

    def answer(request: ModelRequest) -> Any:
        level = int(request.transcript[0].text)
        if len(request.transcript) > 1 or level >= depth:
            return Turn("done", usage=PRICED)
        calls = tuple(Call("delegate", {"task": str(level + 1)}) for _ in range(width))
        return Turn(calls=calls, usage=PRICED)

    return ScriptedModel([answer] * 2000)


async def test_a_tree_of_a_hundred_children_stays_within_its_budget() -> None:
    ran = await run(
        tree(1, 100), "0", tools=[DelegateTool({})], limits=Limits(cost=5.0), children_together=10
    )
    assert isinstance(ran.quiet, RunEnded)
    total = (ran.quiet.own + ran.quiet.children).usage.cost
    assert total is not None and 4.5 <= total <= 5.0 + 11 * 0.1
    assert ran.quiet.status == "limit"
    ends = [ended.status for ended in ran.all(events.ChildEnded)]
    assert len(ends) == 100 and set(ends) == {"completed", "limit"}
    assert _warnings(ran) == ["cost"]


async def test_depth_and_number_of_children_are_limited_over_the_tree() -> None:
    ran = await run(tree(9, 1), "0", tools=[DelegateTool({})], limits=Limits(depth=3))
    assert isinstance(ran.quiet, RunEnded)
    assert ran.quiet.status == "completed" and ran.quiet.children.runs == 4  # the fourth was not let begin
    ran = await run(tree(3, 3), "0", tools=[DelegateTool({})], limits=Limits(children=10))
    assert isinstance(ran.quiet, RunEnded)
    assert ran.quiet.status == "completed" and 10 <= ran.quiet.children.steps <= 20
    assert _warnings(ran) == ["children"]
    ran = await run(tree(1, 5), "0", tools=[DelegateTool({})], limits=Limits(children=2))
    ends = [ended.status for ended in ran.all(events.ChildEnded)]
    assert ran.status == "completed" and sorted(ends) == ["completed"] * 2 + ["limit"] * 3


async def test_steps_are_counted_over_the_tree() -> None:
    ran = await run(tree(2, 2), "0", tools=[DelegateTool({})], limits=Limits(steps=6))
    assert isinstance(ran.quiet, RunEnded)
    assert ran.quiet.status == "limit"
    assert (ran.quiet.own + ran.quiet.children).steps <= 6


# --- other vendors' agents ----------------------------------------------------------------------------------


@tool
async def spend(context: ToolContext, cost: float | None = 0.8) -> str:
    """As another vendor's agent does that tells what it used."""
    assert isinstance(context, CallContext)
    context.record_use("ses_agent", Usage(input_tokens=9, cost=cost))
    return "spent"


def by_a_child(cost: float | None = 0.8, usage: Usage = PRICED) -> ScriptedModel:
    """Each step of the root has a child that has an agent spend something."""

    def answer(request: ModelRequest) -> Any:
        if request.transcript[0].text != "spend it":
            return Turn(calls=(Call("delegate", {"task": "spend it"}),), usage=PRICED)
        if len(request.transcript) == 1:
            return Turn(calls=(Call("spend", {"cost": cost}),), usage=usage)
        return Turn("done", usage=usage)

    return ScriptedModel([answer] * 100)


async def test_usage_of_another_vendors_agent_counts_after_its_child_has_ended() -> None:
    ran = await run(by_a_child(), tools=[DelegateTool({}), spend], limits=Limits(cost=2.0))
    assert isinstance(ran.quiet, RunEnded)
    assert ran.quiet.status == "limit"
    assert [ended.status for ended in ran.all(events.ChildEnded)] == ["completed", "limit"]
    assert ran.quiet.children.usage.cost == pytest.approx(3 * 0.1 + 2 * 0.8)
    assert ran.quiet.children.usage.total_tokens == 3 * 100 + 2 * 9


async def test_an_agent_without_prices_does_not_disable_a_cost_limit() -> None:
    tools = [DelegateTool({}), spend]
    ran = await run(by_a_child(cost=None), tools=tools, limits=Limits(cost=0.95))
    assert isinstance(ran.quiet, RunEnded)
    assert ran.quiet.reason == "the limit of $0.95 was reached: $0.9 is used"
    assert ran.quiet.children.usage.cost is None, "a part of it is unknown"
    assert ran.quiet.own.steps == 3 and ran.quiet.children.known_cost == pytest.approx(0.6)


async def test_an_agent_without_prices_does_not_hide_a_model_without_prices() -> None:
    child = Call("delegate", {"task": "cheap"})
    turns = [
        Turn(calls=(Call("spend", {"cost": None}), child), usage=PRICED),
        Turn("done", usage=Usage(input_tokens=5)),
    ]
    ran = await run(turns, tools=[DelegateTool({}), spend], limits=Limits(cost=1.0))
    assert isinstance(ran.quiet, RunEnded)
    assert ran.quiet.status == "limit" and "prices are unknown" in ran.quiet.reason


async def test_usage_that_an_agent_reported_before_a_crash_counts_after_recovery() -> None:
    store = DyingStore(lambda fact: fact.type == "child_used")
    turns = [Turn(calls=(Call("spend"),), usage=PRICED)] * 9
    ran = await started(turns, tools=[spend], limits=Limits(cost=0.85), store=store)
    with pytest.raises(StoreError):
        await ran.session.prompt(as_content("go"))
    store.revive()
    session = await open_session(store, ran.session.id, ran.session.harness)
    ended = await session.advance()
    assert isinstance(ended, RunEnded)
    assert (ended.status, ended.own.steps, ended.children.usage.cost) == ("limit", 1, 0.8)
    assert violations(await store.read(session.id)) == []


async def test_usage_that_an_agent_reports_after_its_run_is_ignored() -> None:
    contexts: list[CallContext] = []

    @tool
    async def leave(context: ToolContext) -> str:
        assert isinstance(context, CallContext)
        contexts.append(context)
        return "left"

    def late(request: ModelRequest) -> str:
        contexts[0].record_use("ses_agent", PRICED)
        return "done"

    ran = await run([Call("leave"), "done", late], tools=[leave])
    contexts[0].record_use("ses_agent", PRICED)
    await ran.session.prompt(as_content("go on"))
    assert ran.model.requests[2:] and "child_used" not in ran.types


# --- going on -----------------------------------------------------------------------------------------------


async def test_a_run_keeps_its_limits_when_another_process_continues_it() -> None:
    @tool
    async def ask() -> NeedUser:
        return NeedUser(Question("Well?"))

    store = MemoryStore()
    ran = await run([Call("ask")], tools=[ask], limits=Limits(steps=2), store=store, wait_for_answers=True)
    await ran.session.close()
    (asked,) = ran.all(events.QuestionAsked)
    harness = Harness(ScriptedModel(_turns()))
    harness.set_tools([again, ask])
    session = await open_session(store, ran.session.id, harness)
    ended = await session.answer(asked.id, "yes")
    assert isinstance(ended, RunEnded)
    assert (ended.status, ended.own.steps) == ("limit", 2)


async def test_waiting_for_an_answer_does_not_count_as_time() -> None:
    @tool
    async def ask(context: ToolContext) -> str:
        return str(await context.ask(Question("Well?")))

    async def answer_later(asked: events.QuestionAsked) -> str:
        await asyncio.sleep(0.3)
        return "at last"

    ran = await run([Call("ask"), "ok"], tools=[ask], asker=answer_later, limits=Limits(seconds=0.25))
    assert ran.status == "completed" and ran.results() == ["at last"]
