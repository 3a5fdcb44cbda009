"""Invariants between sessions and their children: each holds for real logs, and can be broken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ostler.core.call_context import CallContext
from ostler.core.function_tool import tool
from ostler.core.model import ModelRequest
from ostler.core.store import Store
from ostler.core.tool import ToolContext
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.usage import Usage
from ostler.sessions.agents import DelegateTool
from ostler.store.invariants import TREE_INVARIANTS, broken_tree_invariants, tree_violations
from ostler.store.memory import MemoryStore
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_maintenance import check
from tests.support.running import run

Logs = dict[str, list[Fact]]


async def a_tree(store: Store) -> Logs:
    """A parent with two children, a grandchild, and another vendor's agent, by their prompts."""

    @tool
    async def ask_agent(context: ToolContext) -> str:
        assert isinstance(context, CallContext)
        context.record_use("ses_agent", Usage(5, cost=0.25))
        return "asked"

    def answer(request: ModelRequest) -> Turn:
        first = request.transcript[0].text
        tasks = {"root": ("middle", "leaf"), "middle": ("leaf",)}.get(first, ())
        if len(request.transcript) > 1:
            tasks = ()
        calls = tuple(Call("delegate", {"task": task}) for task in tasks)
        if calls and first == "middle":
            calls = (*calls, Call("ask_agent"))
        return Turn("" if calls else "done", calls, usage=Usage(7, 3, cost=0.1))

    await run(ScriptedModel([answer] * 9), "root", tools=[DelegateTool({}), ask_agent], store=store)
    return {one.id: await store.read(one.id) for one in await store.sessions()}


def task_of(facts: list[Fact]) -> str:
    message = next(fact.event for fact in facts if isinstance(fact.event, events.UserMessage))
    return message.content[0].text  # type: ignore[union-attr]


def changed(logs: Logs, task: str, kind: type[Any], /, **fields: Any) -> Logs:
    """The same logs with another event in the first place of that kind."""
    session = next(one for one, facts in logs.items() if task_of(facts) == task)
    facts = list(logs[session])
    place = next(number for number, fact in enumerate(facts) if isinstance(fact.event, kind))
    fact = facts[place]
    event: Any = msgspec.structs.replace(fact.event, **fields)  # type: ignore[type-var]
    facts[place] = Fact.of(event, seq=fact.seq, session=session, run=fact.run, time_ms=fact.time_ms)
    return {**logs, session: facts}


def without(logs: Logs, task: str, kind: str) -> Logs:
    session = next(one for one, facts in logs.items() if task_of(facts) == task)
    return {**logs, session: [fact for fact in logs[session] if fact.type != kind]}


BREAKING: dict[str, list[Callable[[Logs], Logs]]] = {
    "T1": [
        lambda logs: changed(logs, "middle", events.SessionStarted, call="call_other"),
        lambda logs: without(logs, "root", "child_started"),
    ],
    "T2": [
        lambda logs: changed(logs, "root", events.ChildEnded, status="cancelled"),
        lambda logs: without(logs, "middle", "run_ended"),
        lambda logs: changed(logs, "middle", events.ChildEnded, own=events.Totals(steps=7)),
    ],
    "T3": [
        lambda logs: changed(logs, "root", events.RunEnded, children=events.Totals(runs=2)),
        lambda logs: changed(logs, "middle", events.RunEnded, own=events.Totals(steps=1)),
        lambda logs: changed(logs, "middle", events.ChildUsed, usage=Usage(5, cost=0.5)),
        lambda logs: without(logs, "middle", "child_used"),
    ],
    "T4": [lambda logs: without(logs, "middle", "run_ended")],
    "T5": [
        lambda logs: changed(logs, "middle", events.RunStarted, depth=2),
        lambda logs: changed(logs, "middle", events.RunStarted, root="run_other"),
        lambda logs: changed(logs, "middle", events.RunStarted, parent_run="run_other"),
    ],
    "T6": [lambda logs: {one: facts + facts for one, facts in logs.items()}],
}


def test_invariants_have_fixed_numbers_and_a_test_that_breaks_each() -> None:
    assert [one.number for one in TREE_INVARIANTS] == [f"T{number}" for number in range(1, 7)]
    assert list(BREAKING) == [one.number for one in TREE_INVARIANTS]
    assert all(one.sentence.endswith(".") for one in TREE_INVARIANTS)


@pytest.mark.parametrize(
    ("number", "way"), [(number, way) for number, ways in BREAKING.items() for way in range(len(ways))]
)
async def test_logs_that_break_a_tree_invariant_are_reported(number: str, way: int) -> None:
    logs = await a_tree(MemoryStore())
    assert len(logs) == 4 and tree_violations(logs) == []
    problems = list(broken_tree_invariants(BREAKING[number][way](logs)))
    assert number in {violation.number for violation in problems}, problems


async def test_a_deleted_child_breaks_no_invariant() -> None:
    logs = await a_tree(MemoryStore())
    for session in logs:
        assert tree_violations({one: facts for one, facts in logs.items() if one != session}) == []


async def test_the_check_of_a_store_includes_trees(tmp_path: Path) -> None:
    path = tmp_path / "ostler.db"
    store = SqliteStore(path)
    logs = await a_tree(store)
    assert await asyncio.to_thread(check, path) == []
    (middle,) = [one for one, facts in logs.items() if task_of(facts) == "middle"]
    first = logs[middle][0].event
    assert isinstance(first, events.SessionStarted)
    other = Fact.of(
        msgspec.structs.replace(first, call="call_9"), seq=1, session="ses_stray", run="", time_ms=1
    )
    await store.import_session([other])
    await store.close()
    problems = await asyncio.to_thread(check, path)
    assert [(one.number, one.session) for one in problems] == [("T1", "ses_stray")]
    assert await asyncio.to_thread(check, path, ["ses_stray"]) == problems
    assert await asyncio.to_thread(check, path, [middle]) == []
    assert await asyncio.to_thread(check, path, [first.child_of]) == problems
