"""`context.spawn`: children of extensions."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.hooks import Ask, PlannedCall, Refuse, RunPlan
from ostler.core.model import ModelRequest
from ostler.extensions import SubagentEvent, SubagentEvents, SubagentResult
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.host import ExtensionHost
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import Failure, StoreError, UsageError
from ostler.schema.events import RunEnded
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content, text_of
from ostler.schema.outcomes import Pending, Question
from ostler.schema.usage import Limits
from ostler.sessions.agents import AgentSpec, DelegateTool
from ostler.sessions.session import Session, open_session
from ostler.store.invariants import tree_violations, violations
from ostler.store.memory import MemoryStore
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_maintenance import check
from tests.support.extension_session import extension, facts_of, session_with
from tests.system.dying_store import DyingStore

PATIENCE = 60
HANGS = Turn(hangs=True)


def by_task(**answers: Any) -> ScriptedModel:
    """Answers by the last prompt that it has a script for, and says `done` beyond that."""
    scripts = {task: iter(script) for task, script in answers.items()}

    def answer(request: ModelRequest) -> Any:
        asked = [message.text for message in request.transcript if message.role == "user"]
        task = next((text for text in reversed(asked) if text in scripts), "")
        return next(scripts[task], "done") if task else "done"

    return ScriptedModel([answer] * 100)


@tool
def look(path: str) -> str:
    """Looks at a file."""
    return f"contents of {path}"


@tool
def remove(path: str) -> str:
    """Removes a file."""
    return f"removed {path}"


@tool
async def order() -> Pending:
    """Finishes later."""
    return Pending("order 7")


class Spawner:
    """An extension that runs an action of the test once, when the run begins: a hook may run again."""

    def __init__(self, at_start: Callable[[ExtensionContext], Any] | None = None) -> None:
        self._at_start = at_start
        self.done: list[Any] = []

    def __call__(self, ostler: ExtensionAPI) -> None:
        @ostler.before_run
        async def begin(plan: RunPlan, context: ExtensionContext) -> None:
            if self._at_start is not None and not self.done and text_of(plan.prompt) == "go":
                self.done.append(self._at_start(context))


def context_in(host: ExtensionHost, session: Session, name: str = "spawner") -> ExtensionContext:
    return host.sessions[session.id].channels[name].context


async def prompt(session: Session, text: str = "go") -> RunEnded:
    ended = await asyncio.wait_for(session.prompt(as_content(text)), PATIENCE)
    assert isinstance(ended, RunEnded)
    return ended


async def problems(store: Any) -> list[str]:
    logs = {one.id: await store.read(one.id) for one in await store.sessions()}
    return [*tree_violations(logs), *(text for facts in logs.values() for text in violations(facts))]


# --- in a run ---------------------------------------------------------------------------------------


async def test_a_spawned_child_works_in_the_background_and_its_use_counts_as_the_runs() -> None:
    spawner = Spawner(lambda context: context.spawn("count"))
    model = by_task(go=["on it"], count=["three"])
    store = MemoryStore()
    session, _ = await session_with(model, extension("spawner", spawner), store=store)
    ended = await prompt(session)
    (subagent,) = spawner.done
    assert subagent.done
    result = await subagent.wait()
    assert (result.ok, result.text, result.error) == (True, "three", "")
    assert (result.session, result.usage.output_tokens) == (subagent.id, 5)
    assert result.elapsed > 0
    assert (ended.children.runs, ended.children.usage.output_tokens) == (1, 5)
    (started,) = await facts_of(session, "child_started")
    assert (started.child, started.call, started.extension, started.task) == (
        subagent.id,
        "",
        "spawner",
        "count",
    )
    summary = await store.summary(subagent.id)
    assert summary.child_of == session.id
    assert await problems(store) == []
    await session.close()


async def test_a_handler_may_wait_for_a_subagent() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_run
        def plain(plan: RunPlan, context: ExtensionContext) -> None:
            if text_of(plan.prompt) == "go":
                context.state["plain"] = context.wait(context.run_subagent("count")).text

        @ostler.before_run
        async def awaited(plan: RunPlan, context: ExtensionContext) -> None:
            if text_of(plan.prompt) == "go":
                context.state["awaited"] = (await context.run_subagent("count")).text

    model = by_task(go=["done"], count=["three", "four"])
    session, _ = await session_with(model, extension("spawner", setup))
    await prompt(session)
    assert session.state.extension_state == {"spawner": {"plain": "three", "awaited": "four"}}
    await session.close()


async def test_waiting_for_two_subagents_does_not_count_as_handler_time() -> None:
    results: list[Any] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_run(time_limit=0.2)
        async def both(plan: RunPlan, context: ExtensionContext) -> None:
            if text_of(plan.prompt) == "go":
                tasks = [context.run_subagent("quick"), context.run_subagent("slow")]
                results.extend(one.text for one in await asyncio.gather(*tasks))

    model = by_task(quick=["first"], slow=[Turn("at last", pause=0.4)])
    session, _ = await session_with(model, extension("spawner", setup))
    await prompt(session)
    assert results == ["first", "at last"]
    assert not await facts_of(session, "warned")
    await session.close()


async def test_callbacks_get_the_events_of_a_child_in_order() -> None:
    received: list[SubagentEvent] = []
    pieces: list[str] = []
    completed: list[tuple[SubagentResult, str]] = []

    async def on_complete(result: SubagentResult, context: ExtensionContext) -> None:
        completed.append((result, context.session_id))

    def spawn(context: ExtensionContext) -> Any:
        return context.spawn(
            "count", on_event=received.append, on_output=pieces.append, on_complete=on_complete
        )

    first = Turn("Let me see", (Call("look", {"path": "a"}),), reasoning="where?")
    model = by_task(go=["on it"], count=[first, "three of them"])
    session, _ = await session_with(model, extension("spawner", Spawner(spawn)))
    session.harness.set_tools([look])
    ended = await prompt(session)
    assert [event.kind for event in received] == [
        "run_started",
        "reasoning",
        "text",
        "tool_call",
        "tool_started",
        "tool_result",
        "text",
        "run_ended",
    ]
    called, result = received[3], received[5]
    assert (called.tool, called.tool_kind, called.arguments) == ("look", "other", {"path": "a"})
    assert (result.tool, result.text, result.failed) == ("look", "contents of a", False)
    assert "".join(pieces) == "Let me seethree of them"
    assert [(one.text, where) for one, where in completed] == [("three of them", session.id)]
    assert ended.children.tool_calls == 1
    await session.close()


async def test_a_run_waits_for_its_children_and_gets_their_results() -> None:
    async def on_complete(result: SubagentResult, context: ExtensionContext) -> None:
        await context.steer(f"the subagent says: {result.text}")

    spawner = Spawner(lambda context: context.spawn("count", on_complete=on_complete))
    model = by_task(go=["on it", "so it is three"], count=[Turn("three", pause=0.05)])
    session, _ = await session_with(model, extension("spawner", spawner))
    ended = await prompt(session)
    assert (ended.status, ended.own.steps) == ("completed", 2)
    assert [text_of(one.content) for one in await facts_of(session, "user_message")] == [
        "go",
        "the subagent says: three",
    ]
    await session.close()


async def test_a_child_is_cancelled_with_its_run() -> None:
    completed: list[SubagentResult] = []
    spawner = Spawner(lambda context: context.spawn("count", on_complete=completed.append))
    store = MemoryStore()
    session, _ = await session_with(
        by_task(count=[Turn("so far", hangs=True)]), extension("spawner", spawner), store=store
    )
    running = asyncio.ensure_future(prompt(session))
    await wait_for_text(session, "so far")
    session.cancel("enough")
    ended = await running
    assert (ended.status, ended.children.runs) == ("cancelled", 1)
    (result,) = completed
    assert (result.status, result.ok) == ("cancelled", False)
    assert "its run has ended" in result.error
    assert await problems(store) == []
    await session.close()


async def wait_for_text(session: Session, text: str) -> None:
    """Waits until a child has streamed this text."""
    heard = asyncio.Event()
    pieces = [""]

    def see(batch: Any) -> None:
        for one in batch:
            if isinstance(one, events.ChildEvent) and isinstance(one.event, events.TextDelta):
                pieces[0] += one.event.text
        if text in pieces[0]:
            heard.set()

    session.subscribe(see)
    await asyncio.wait_for(heard.wait(), PATIENCE)


async def test_a_killed_child_has_a_result_and_killing_it_again_is_harmless() -> None:
    completed: list[SubagentResult] = []
    spawner = Spawner(lambda context: context.spawn("count", on_complete=completed.append))
    store = MemoryStore()
    session, _ = await session_with(
        by_task(count=[Turn("so far", hangs=True)]), extension("spawner", spawner), store=store
    )
    running = asyncio.ensure_future(prompt(session))
    await wait_for_text(session, "so far")
    (subagent,) = spawner.done
    assert not subagent.done
    subagent.kill()
    subagent.kill()
    ended = await running
    result = await subagent.wait()
    assert (result.status, result.error) == ("cancelled", "it was killed")
    assert completed == [result]
    assert ended.status == "completed"
    subagent.kill()
    assert await subagent.wait() is result
    assert await problems(store) == []
    await session.close()


async def test_a_child_that_is_killed_before_it_starts_has_a_result() -> None:
    def spawn_and_kill(context: ExtensionContext) -> Any:
        subagent = context.spawn("count")
        subagent.kill()
        return subagent

    spawner = Spawner(spawn_and_kill)
    store = MemoryStore()
    session, _ = await session_with(by_task(), extension("spawner", spawner), store=store)
    await prompt(session)
    assert (await spawner.done[0].wait()).error == "it was killed"
    assert await problems(store) == []
    await session.close()


async def test_on_complete_is_also_called_for_a_child_that_failed() -> None:
    completed: list[SubagentResult] = []
    spawner = Spawner(lambda context: context.spawn("count", on_complete=completed.append))
    model = by_task(count=[Turn("some", failure=Failure("invalid_request", "no such thing"))])
    session, _ = await session_with(model, extension("spawner", spawner))
    ended = await prompt(session)
    assert [(one.status, one.error) for one in completed] == [("failed", "no such thing")]
    assert ended.status == "completed"
    await session.close()


async def test_a_child_whose_model_cannot_be_made_any_more_has_failed() -> None:
    created: list[str] = []

    def make_model(name: str) -> Any:
        created.append(name)
        if len(created) > 1:
            raise UsageError("the key was revoked")
        return by_task()

    spawner = Spawner(lambda context: context.spawn("count", model="scripted/other"))
    store = MemoryStore()
    session, _ = await session_with(
        by_task(), extension("spawner", spawner), store=store, make_model=make_model
    )
    await prompt(session)
    result = await spawner.done[0].wait()
    assert (result.status, "the key was revoked" in result.error) == ("failed", True)
    assert [texts.status for texts in await facts_of(session, "child_ended")] == ["failed"]
    assert await problems(store) == []
    await session.close()


async def test_a_failing_callback_is_reported_once_and_the_child_continues() -> None:
    def on_event(event: SubagentEvent) -> None:
        raise ValueError("no")

    spawner = Spawner(lambda context: context.spawn("count", on_event=on_event))
    session, _ = await session_with(by_task(count=["three"]), extension("spawner", spawner))
    await prompt(session)
    assert (await spawner.done[0].wait()).text == "three"
    (warned,) = await facts_of(session, "warned")
    assert "the extension spawner failed in on_event: ValueError: no (test_subagents.py:" in warned.text
    await session.close()


async def test_a_childs_time_is_limited() -> None:
    spawner = Spawner(lambda context: context.spawn("count", time_limit=0.05))
    session, _ = await session_with(by_task(count=[HANGS]), extension("spawner", spawner))
    ended = await prompt(session)
    result = await spawner.done[0].wait()
    assert (result.status, ended.status) == ("limit", "completed")
    assert "0.05" in result.error
    await session.close()


async def test_a_childs_use_counts_against_the_limits_of_the_run() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_run
        async def first(plan: RunPlan, context: ExtensionContext) -> None:
            if text_of(plan.prompt) == "go":
                await context.run_subagent("count", limits=Limits(steps=5))

    model = by_task(go=["done"], count=[Call("look", {"path": "a"}), Call("look", {"path": "b"}), "three"])
    session, _ = await session_with(model, extension("spawner", setup), limits=Limits(steps=2))
    session.harness.set_tools([look])
    ended = await prompt(session)
    (child,) = await facts_of(session, "child_ended")
    assert (child.status, child.own.steps) == ("limit", 2)
    assert (ended.status, ended.own.steps) == ("limit", 0)
    await session.close()


async def test_a_child_has_its_tools_and_the_guards_of_its_parent() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_tool
        def gate(call: PlannedCall) -> Refuse | None:
            return Refuse("never") if call.name == "remove" else None

        @ostler.before_run
        async def first(plan: RunPlan, context: ExtensionContext) -> None:
            if text_of(plan.prompt) == "go":
                options = {"tools": ["remove"], "system": "You are a cleaner.", "model": "scripted/other"}
                result = await context.run_subagent("clean", **options)  # type: ignore[arg-type]
                context.state["result"] = result.text

    model = by_task(go=["done"])
    other = by_task(clean=[Call("remove", {"path": "a"}), "could not"])
    session, _ = await session_with(model, extension("gate", setup), make_model=lambda name: other)
    session.harness.set_tools([look, remove])
    ended = await prompt(session)
    assert session.state.extension_state["gate"]["result"] == "could not"
    assert ended.children.refused_calls == 1
    assert [offer.name for offer in other.requests[0].tools] == ["remove"]
    assert other.requests[0].system == "You are a cleaner."
    assert "never" in str(other.requests[1].transcript[-1])
    await session.close()


async def test_a_child_may_be_one_of_the_named_agents() -> None:
    scout = AgentSpec(
        name="scout",
        description="finds things",
        system="You find things.",
        tools=("look",),
        scope="user",
        source="scout.md",
    )
    spawner = Spawner(lambda context: context.spawn("count", agent="scout"))
    model = by_task(count=["three"])
    session, _ = await session_with(model, extension("spawner", spawner))
    session.harness.set_tools([DelegateTool({"scout": scout}), look, remove])
    await prompt(session)
    (started,) = await facts_of(session, "child_started")
    assert started.agent == "scout"
    (asked,) = [request for request in model.requests if request.transcript[0].text == "count"]
    assert [offer.name for offer in asked.tools] == ["look"]
    assert asked.system.startswith("You find things.")
    await session.close()


async def test_unknown_models_agents_and_tools_are_refused_before_any_work() -> None:
    refused: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_run
        def try_all(plan: RunPlan, context: ExtensionContext) -> None:
            wrong: list[dict[str, Any]] = [{"model": "nobody/x"}, {"tools": ["saw"]}, {"agent": "scout"}]
            for options in wrong:
                try:
                    context.spawn("count", **options)
                except UsageError as error:
                    refused.append(error.message)

    def make_model(name: str) -> Any:
        raise UsageError(f"there is no provider for {name}")

    session, _ = await session_with(by_task(), extension("spawner", setup), make_model=make_model)
    session.harness.set_tools([DelegateTool({})])
    await prompt(session)
    assert refused == [
        "The child cannot have the model nobody/x: there is no provider for nobody/x",
        "there is no tool 'saw' for a child; the tools are: delegate",
        "there is no agent 'scout'; the agents are: none",
    ]
    assert not await facts_of(session, "child_started")
    await session.close()


async def test_a_child_may_continue_an_earlier_one() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_run
        async def twice(plan: RunPlan, context: ExtensionContext) -> None:
            if text_of(plan.prompt) == "go":
                first = await context.run_subagent("count")
                second = await context.run_subagent("add one", session=first.session)
                context.state["second"] = second.text
                context.state["sessions"] = [first.session, second.session]

    model = by_task(go=["done"], count=["three"], **{"add one": ["four"]})
    store = MemoryStore()
    session, _ = await session_with(model, extension("spawner", setup), store=store)
    await prompt(session)
    state = session.state.extension_state["spawner"]
    assert state["second"] == "four"
    assert len(set(state["sessions"])) == 2
    texts = [message.text for message in model.requests[1].transcript]
    assert texts == ["count", "three", "add one"]
    assert await problems(store) == []
    await session.close()


async def test_resuming_an_unknown_session_fails_at_once() -> None:
    completed: list[SubagentResult] = []
    spawner = Spawner(lambda context: context.spawn("on", session="ses_none", on_complete=completed.append))
    session, _ = await session_with(by_task(), extension("spawner", spawner))
    ended = await prompt(session)
    (result,) = completed
    assert (result.ok, result.status) == (False, "failed")
    assert "no session 'ses_none'" in result.error
    assert ended.children.runs == 0
    assert not await facts_of(session, "child_started")
    await session.close()


async def test_a_child_that_waits_for_an_answer_is_ended() -> None:
    spawner = Spawner(lambda context: context.spawn("buy"))
    store = MemoryStore()
    session, _ = await session_with(
        by_task(buy=[Call("order")]), extension("spawner", spawner), store=store, wait_for_answers=True
    )
    session.harness.set_tools([order])
    ended = await prompt(session)
    assert ended.status == "completed"
    assert (await spawner.done[0].wait()).error.startswith("it waited for the user")
    assert await problems(store) == []
    await session.close()


async def test_a_run_does_not_wait_before_its_children_have_ended() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_tool
        def ask(call: PlannedCall) -> Ask | None:
            return Ask(Question("Sure?")) if call.name == "remove" else None

    spawner = Spawner(lambda context: context.spawn("count"))
    store = MemoryStore()
    model = by_task(go=[Call("remove", {"path": "a"})], count=[Turn("three", pause=0.05)])
    session, _ = await session_with(
        model,
        extension("spawner", spawner),
        extension("gate", setup),
        store=store,
        wait_for_answers=True,
    )
    session.harness.set_tools([remove])
    waiting = await asyncio.wait_for(session.prompt(as_content("go")), PATIENCE)
    assert isinstance(waiting, events.RunWaiting)
    assert (await spawner.done[0].wait()).text == "three"
    assert await problems(store) == []
    ended = await asyncio.wait_for(session.answer(waiting.questions[0], "yes"), PATIENCE)
    assert isinstance(ended, RunEnded) and ended.children.runs == 1
    await session.close()


async def test_a_child_may_spawn_a_child() -> None:
    parents: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_run
        async def deeper(plan: RunPlan, context: ExtensionContext) -> None:
            parents.append(context.parent)
            below = {"go": "count", "count": "count apples"}
            if task := below.get(text_of(plan.prompt)):
                await context.run_subagent(task)

    store = MemoryStore()
    session, _ = await session_with(by_task(), extension("spawner", setup), store=store)
    ended = await prompt(session)
    assert ended.children.runs == 2
    sessions = [one.id for one in await store.sessions()]
    started = [fact.event for one in sessions for fact in await store.read(one) if fact.type == "run_started"]
    assert sorted(event.depth for event in started) == [0, 1, 2]
    assert parents[:2] == ["", session.id]
    assert await problems(store) == []
    await session.close()


async def test_a_handler_that_always_spawns_is_stopped_at_some_depth() -> None:
    refused: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_run
        async def always(plan: RunPlan, context: ExtensionContext) -> None:
            try:
                await context.run_subagent("deeper")
            except UsageError as error:
                refused.append(error.message)

    session, _ = await session_with(by_task(), extension("spawner", setup))
    ended = await prompt(session)
    assert ended.children.runs == 8
    assert refused == [
        "subagents were spawned by subagents, 8 deep: `context.parent` tells a handler whether it runs in one"
    ]
    await session.close()


# --- between runs -----------------------------------------------------------------------------------


async def test_a_child_spawned_by_an_idle_session_is_a_root() -> None:
    store = MemoryStore()
    model = by_task(count=["three"], go=["done"])
    session, host = await session_with(model, extension("spawner", Spawner()), store=store)
    context = context_in(host, session)
    result = await asyncio.wait_for(context.run_subagent("count"), PATIENCE)
    assert result.text == "three"
    (run,) = [fact.event for fact in await store.read(result.session) if fact.type == "run_started"]
    assert (run.parent_run, run.root, run.depth) == ("", "", 0)
    assert (await store.summary(result.session)).child_of == session.id
    ended = await prompt(session)
    assert ended.children.runs == 0
    assert [one.status for one in await facts_of(session, "child_ended")] == ["completed"]
    assert await problems(store) == []
    await session.close()


async def test_a_child_of_an_idle_session_is_ended_when_the_session_is_closed() -> None:
    store = MemoryStore()
    completed: list[SubagentResult] = []
    model = by_task(count=[Turn("so far", hangs=True)])
    session, host = await session_with(model, extension("spawner", Spawner()), store=store)
    subagent = context_in(host, session).spawn("count", on_complete=completed.append)
    await wait_for_text(session, "so far")
    await asyncio.wait_for(session.close(), PATIENCE)
    assert [(one.session, one.status) for one in completed] == [(subagent.id, "cancelled")]
    assert await problems(store) == []


async def test_a_child_of_an_idle_session_continues_during_a_run() -> None:
    store = MemoryStore()
    model = by_task(count=[Turn("three", pause=0.05)], go=["done"])
    session, host = await session_with(model, extension("spawner", Spawner()), store=store)
    subagent = context_in(host, session).spawn("count")
    ended = await prompt(session)
    assert ended.children.runs == 0
    assert not subagent.done
    assert (await asyncio.wait_for(subagent.wait(), PATIENCE)).text == "three"
    assert await problems(store) == []
    await session.close()


# --- after a crash ----------------------------------------------------------------------------------


def in_a_child(kind: str) -> Callable[[Fact], bool]:
    received: set[str] = set()

    def is_reached(fact: Fact) -> bool:
        if isinstance(fact.event, events.SessionStarted) and fact.event.child_of:
            received.add(fact.session)
        return fact.session in received and fact.type == kind

    return is_reached


def in_the_parent(kind: str) -> Callable[[Fact], bool]:
    return lambda fact: fact.type == kind


MOMENTS = [
    in_the_parent("child_started"),
    in_a_child("session_started"),
    in_a_child("run_started"),
    in_a_child("assistant_message"),
    in_a_child("run_ended"),
    in_the_parent("child_ended"),
]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_child_whose_process_died_is_ended_and_never_started_again(moment: Any) -> None:
    store = DyingStore(moment)
    spawner = Spawner(lambda context: context.spawn("count"))
    model = by_task(go=[Turn("on it", pause=0.02)], count=["three"])
    session, _ = await session_with(model, extension("spawner", spawner), store=store)
    with pytest.raises(StoreError):
        await prompt(session)
    store.revive()
    asked = len([request for request in model.requests if request.transcript[0].text == "count"])
    opened = await open_session(store, session.id, session.harness)
    ended = await asyncio.wait_for(opened.advance(), PATIENCE)
    assert isinstance(ended, RunEnded) and (ended.status, ended.children.runs) == ("completed", 1)
    assert len(store.children()) <= 1
    assert asked == len([request for request in model.requests if request.transcript[0].text == "count"])
    (texts,) = await facts_of(opened, "child_ended")
    assert texts.status in ("interrupted", "completed")
    assert await problems(store) == []
    await opened.close()


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_child_of_an_idle_session_whose_process_died_is_ended_when_the_session_is_opened(
    moment: Any,
) -> None:
    store = DyingStore(moment)
    model = by_task(count=["three"])
    session, host = await session_with(model, extension("spawner", Spawner()), store=store)
    await asyncio.wait_for(context_in(host, session).run_subagent("count"), PATIENCE)
    store.revive()
    asked = len(model.requests)
    opened = await open_session(store, session.id, session.harness)
    assert not opened.state.spawned
    (texts,) = await facts_of(opened, "child_ended")
    assert texts.status in ("interrupted", "completed")
    assert asked == len(model.requests)
    assert await problems(store) == []
    await opened.close()


PROCESS = """
import asyncio, sys
from pathlib import Path
from ostler.extensions.api import ExtensionAPI
from ostler.store.sqlite import SqliteStore
from ostler.models.scripted import ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.messages import as_content
from tests.support.extension_session import extension, session_with

def setup(ostler):
    @ostler.on(events.ChildEvent)
    def see(event):
        if isinstance(event.event, events.TextDelta):
            print(context.session_id, flush=True)

async def main(path, when):
    global context
    model = ScriptedModel([Turn("so far", hangs=True)] * 2)
    session, host = await session_with(model, extension("spawner", setup), store=SqliteStore(Path(path)))
    context = host.sessions[session.id].channels["spawner"].context
    running = asyncio.ensure_future(session.prompt(as_content("go"))) if when == "run" else None
    while running and session.state.run is None:
        await asyncio.sleep(0)
    await context.run_subagent("count")

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("when", ["run", "rest"])
async def test_kill_9_leaves_no_child_that_is_never_ended(tmp_path: Path, when: str) -> None:
    path = tmp_path / "sessions.db"
    arguments = [sys.executable, "-c", PROCESS, str(path), when]
    process = await asyncio.create_subprocess_exec(*arguments, stdout=subprocess.PIPE)
    assert process.stdout is not None
    name = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().strip()
    process.kill()
    await process.wait()
    store = SqliteStore(path)
    model = by_task()
    session = await open_session(store, name, Harness(model))
    ended = await asyncio.wait_for(session.advance(), PATIENCE)
    assert (ended is None) == (when == "rest")
    (texts,) = await facts_of(session, "child_ended")
    assert (texts.status, texts.reason) == ("interrupted", "the process that ran it ended")
    assert [one.id for one in await store.sessions() if one.child_of] == [texts.child]
    assert all("count" not in str(request.transcript[0]) for request in model.requests)
    assert await problems(store) == []
    await session.close()
    await store.close()
    assert check(path) == []


# --- children of calls ------------------------------------------------------------------------------


async def test_events_of_a_delegated_child_can_be_read_as_subagent_events() -> None:
    received: list[SubagentEvent] = []

    def setup(ostler: ExtensionAPI) -> None:
        reader = SubagentEvents()

        @ostler.on(events.ChildEvent)
        def see(event: events.ChildEvent) -> None:
            if (read := reader.read(event)) is not None:
                received.append(read)

    model = by_task(
        go=[Call("delegate", {"task": "count"}), "done"], count=[Call("look", {"path": "a"}), "3"]
    )
    session, _ = await session_with(model, extension("monitor", setup))
    session.harness.set_tools([DelegateTool({}), look])
    await prompt(session)
    assert [event.kind for event in received] == [
        "run_started",
        "tool_call",
        "tool_started",
        "tool_result",
        "text",
        "run_ended",
    ]
    assert (received[3].tool, received[3].text) == ("look", "contents of a")
    await session.close()
