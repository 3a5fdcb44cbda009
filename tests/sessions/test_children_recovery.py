"""Children when something goes wrong: crashes, people in other processes, calls that end before them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ostler.core.children import ChildRequest, HistoryPolicy, child_session
from ostler.core.function_tool import tool
from ostler.core.hooks import Ask, Hook, PlannedCall
from ostler.core.journal import World
from ostler.core.model import ModelRequest
from ostler.core.tool import ToolContext
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import StoreError
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content, text_of
from ostler.schema.outcomes import NeedUser, Pending, Question, ok
from ostler.schema.requests import Answer, Cancel, FinishCall, Pause, Prompt
from ostler.sessions.agents import DelegateTool
from ostler.sessions.children import ChildRuns
from ostler.sessions.session import RunOutcome, open_session
from ostler.sessions.submit import submit_now
from ostler.store.invariants import tree_violations
from ostler.store.memory import MemoryStore
from tests.support.running import Ran, run, started
from tests.system.dying_store import DyingStore

DELEGATE = DelegateTool({})
PATIENCE = 60


def by_task(**answers: Any) -> ScriptedModel:
    """Answers by the first prompt; each task has a script of its own, and says `done` beyond it."""
    scripts = {task: iter(script) for task, script in answers.items()}

    def answer(request: ModelRequest) -> Any:
        asked = [message.text for message in request.transcript if message.role == "user"]
        task = next(text for text in reversed(asked) if text in scripts)
        return next(scripts[task], "done")

    return ScriptedModel([answer] * 100)


@tool
async def inquire() -> NeedUser:
    """Needs a person."""
    return NeedUser(Question("Which?"))


@tool(parallel=True)
async def order() -> Pending:
    """Finishes later."""
    return Pending("order 7")


@tool
async def outsource(context: ToolContext, task: str) -> str:
    """Has a child, which it cannot find again."""
    result = await context.run_child(ChildRequest(as_content(task)))
    return f"{result.status}: {result.text}"


async def cut(store: DyingStore, model: ScriptedModel, *tools: Any) -> Ran:
    """A prompt whose process dies at the store's moment; the store is ready for the next one."""
    ran = await started(model, tools=tools, store=store, wait_for_answers=True)
    with pytest.raises(StoreError):
        await ran.session.prompt(as_content("go"))
    store.revive()
    return ran


async def taken_over(ran: Ran) -> RunOutcome:
    """What comes of the session in the next process."""
    session = await open_session(ran.session.journal.store, ran.session.id, ran.session.harness)
    quiet = await asyncio.wait_for(session.advance(), PATIENCE)
    await session.close()
    return quiet


async def logs(store: MemoryStore) -> dict[str, list[Fact]]:
    return {one.id: await store.read(one.id) for one in await store.sessions()}


async def all_of(ran: Ran, kind: type[Any], session: str = "") -> list[Any]:
    facts = await ran.session.journal.store.read(session or ran.session.id)
    return [fact.event for fact in facts if isinstance(fact.event, kind)]


def in_a_child(kind: str) -> Callable[[Fact], bool]:
    seen: set[str] = set()

    def is_reached(fact: Fact) -> bool:
        if isinstance(fact.event, events.SessionStarted) and fact.event.child_of:
            seen.add(fact.session)
        return fact.session in seen and fact.type == kind

    return is_reached


@pytest.mark.parametrize("kind", ["session_started", "run_started", "assistant_message", "run_ended"])
async def test_an_interrupted_child_is_continued_and_not_started_twice(kind: str) -> None:
    store = DyingStore(in_a_child(kind))
    model = by_task(go=[Call("delegate", {"task": "count"})], count=["three"])
    ran = await cut(store, model, DELEGATE)
    ended = await taken_over(ran)
    assert isinstance(ended, RunEnded) and ended.status == "completed" and ended.children.runs == 1
    assert len(store.children()) == 1
    (result,) = await all_of(ran, events.ToolResultFact)
    assert text_of(result.content) in ("three", "done")
    assert tree_violations(await logs(store)) == []


async def test_a_child_that_cannot_be_reattached_ends_with_its_call() -> None:
    store = DyingStore(in_a_child("assistant_message"))
    model = by_task(go=[Call("outsource", {"task": "ask"})], ask=[Call("inquire")])
    ran = await cut(store, model, outsource, inquire)
    ended = await taken_over(ran)
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    (result,) = await all_of(ran, events.ToolResultFact)
    assert result.failed == "tool_interrupted"
    (told,) = await all_of(ran, events.ChildEnded)
    assert told.status == "cancelled"
    assert tree_violations(await logs(store)) == []


async def test_a_tool_that_cannot_reattach_fails_when_its_child_waits() -> None:
    model = by_task(go=[Call("outsource", {"task": "ask"})], ask=[Call("inquire")])
    ran = await run(model, tools=[outsource, inquire], wait_for_answers=True)
    assert ran.status == "completed"
    assert "outsource cannot continue it later" in ran.results()[0]
    assert [told.status for told in ran.all(events.ChildEnded)] == ["cancelled"]


async def test_finishing_a_call_ends_its_child_and_the_others_wait() -> None:
    store = MemoryStore()
    model = by_task(go=[[Call("delegate", {"task": "ask"}), Call("order")]], ask=[Call("inquire")])
    ran = await run(model, tools=[DELEGATE, inquire, order], store=store, wait_for_answers=True)
    first, second = (called.call for called in ran.all(events.ToolCalled))
    await store.submit(ran.session.id, FinishCall(id="f1", call=first, outcome=ok("enough")))
    waiting = await asyncio.wait_for(ran.session.advance(), PATIENCE)
    assert isinstance(waiting, RunWaiting) and waiting.calls == (second,)
    assert [told.status for told in ran.all(events.ChildEnded)] == ["cancelled"]
    assert tree_violations(await logs(store)) == []


async def test_a_finish_request_for_an_idle_run_is_handled_by_the_next_process() -> None:
    store = MemoryStore()
    ran = await run([Call("order"), "done"], tools=[order], store=store)
    (called,) = ran.all(events.ToolCalled)
    await ran.session.close()
    finish = FinishCall(id="f1", call=called.call, outcome=ok("delivered"))
    assert not await submit_now(store, ran.session.id, finish, World())
    ended = await taken_over(ran)
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    (result,) = await all_of(ran, events.ToolResultFact)
    assert text_of(result.content) == "delivered"


async def test_a_reattached_call_needs_no_second_permission() -> None:
    asked: list[str] = []

    def guard(call: PlannedCall) -> Ask | None:
        asked.append(call.name)
        return Ask(Question("May it?", "permission")) if call.name == "delegate" else None

    store = MemoryStore()
    model = by_task(go=[Call("delegate", {"task": "ask"})], ask=[Call("inquire")])
    ran = await started(
        model,
        tools=[DELEGATE, inquire],
        hooks=[Hook("before_tool", guard)],
        store=store,
        wait_for_answers=True,
    )
    await ran.session.prompt(as_content("go"))
    (question,) = ran.session.state.questions
    assert isinstance(await ran.session.answer(question, "yes"), RunWaiting)
    (child,) = [one.id for one in await store.sessions() if one.child_of]
    await answer_everything(store, child)
    ended = await asyncio.wait_for(ran.session.advance(), PATIENCE)
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    assert asked == ["delegate", "inquire"]
    assert len(ran.all(events.QuestionAsked)) == 1


async def answer_everything(store: MemoryStore, session: str) -> None:
    """Puts answers into its inbox, and does not take them up."""
    for fact in await store.read(session):
        if isinstance(fact.event, events.QuestionAsked):
            await store.submit(session, Answer(id=f"a-{fact.event.id}", question=fact.event.id, answer="yes"))


async def test_an_unhandled_answer_is_found_at_any_depth() -> None:
    store = MemoryStore()
    model = by_task(
        go=[Call("delegate", {"task": "middle"})],
        middle=[Call("delegate", {"task": "ask"})],
        ask=[Call("inquire")],
    )
    ran = await run(model, tools=[DELEGATE, inquire], store=store, wait_for_answers=True)
    assert isinstance(ran.quiet, RunWaiting)
    assert await ran.session.advance() == ran.quiet
    for one in await store.sessions():
        await answer_everything(store, one.id)
    ended = await asyncio.wait_for(ran.session.advance(), PATIENCE)
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    assert (ended.children.runs, ended.children.tool_calls) == (2, 2)
    assert tree_violations(await logs(store)) == []


@pytest.mark.parametrize("kind", ["session_started", "run_ended"])
async def test_prompts_in_a_childs_inbox_do_not_change_its_result(kind: str) -> None:
    store = DyingStore(in_a_child(kind))
    model = by_task(go=[Call("delegate", {"task": "count"})], count=["three"], hello=["hello yourself"])
    ran = await cut(store, model, DELEGATE)
    (child,) = store.children()
    await store.submit(child, Prompt(id="p1", content=as_content("hello")))
    assert isinstance(await taken_over(ran), RunEnded)
    (result,) = await all_of(ran, events.ToolResultFact)
    assert text_of(result.content) == "three"
    assert [request.id for request in await store.pending(child)] == ["p1"]


async def test_inherited_history_survives_a_crash_before_the_first_step() -> None:
    @tool(reattaches=True)
    async def consult(context: ToolContext) -> str:
        request = ChildRequest(as_content("count"), history=HistoryPolicy(1))
        return (await context.run_child(request)).text

    store = DyingStore(in_a_child("session_started"))
    ran = await cut(store, by_task(go=[Call("consult")], count=["three"]), consult)
    assert isinstance(await taken_over(ran), RunEnded)
    told = [message.text for message in ran.model.requests[1].transcript]
    assert told == ["go", "count"]


async def test_children_are_numbered_by_request_not_by_start() -> None:
    @tool
    async def compare(context: ToolContext) -> str:
        first, second = (context.run_child(ChildRequest(as_content(task))) for task in ("one", "two"))
        late = asyncio.ensure_future(second)
        await asyncio.sleep(0)
        return f"{(await first).text} {(await late).text}"

    ran = await run(by_task(go=[Call("compare")], one=["1"], two=["2"]), tools=[compare])
    assert ran.results() == ["1 2"]
    (called,) = ran.all(events.ToolCalled)
    numbered = {child_session(ran.session.id, called.call, n): task for n, task in ((1, "one"), (2, "two"))}
    assert {told.child: told.task for told in ran.all(events.ChildStarted)} == numbered


async def test_a_child_whose_end_is_recorded_does_not_start() -> None:
    store = DyingStore(lambda fact: fact.type == "child_started")
    ran = await cut(store, by_task(go=[Call("delegate", {"task": "count"})]), DELEGATE)
    store.revive(at=lambda fact: fact.type == "child_ended")
    session = await open_session(store, ran.session.id, ran.session.harness)
    session.journal.record(events.ChildEnded(*(await child_named(ran)), "cancelled", reason="too late"))
    with pytest.raises(StoreError):
        await session.advance()
    store.revive()
    ended = await taken_over(ran)
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    assert store.children() == []
    (result,) = await all_of(ran, events.ToolResultFact)
    assert "too late" in text_of(result.content)


async def child_named(ran: Ran) -> tuple[str, str]:
    (begun,) = await all_of(ran, events.ChildStarted)
    return begun.call, begun.child


async def test_a_cancelled_parent_waits_for_the_process_that_drives_its_child() -> None:
    store = MemoryStore()
    model = by_task(go=[Call("delegate", {"task": "ask"})], ask=[Call("inquire")])
    ran = await run(model, tools=[DELEGATE, inquire], store=store, wait_for_answers=True)
    (child,) = [one.id for one in await store.sessions() if one.child_of]
    holder = await open_session(store, child, ran.session.harness)
    await store.submit(ran.session.id, Cancel(id="c1"))
    ending = asyncio.ensure_future(ran.session.advance())
    await asyncio.wait_for(store.arrivals(child, 0), PATIENCE)
    assert not ending.done()
    own_end = await holder.advance()
    await holder.close()
    ended = await asyncio.wait_for(ending, PATIENCE)
    assert isinstance(ended, RunEnded) and ended.status == "cancelled"
    assert isinstance(own_end, RunEnded) and own_end.status == "cancelled"
    assert ended.children.steps == own_end.own.steps == 1
    assert tree_violations(await logs(store)) == []


async def test_the_use_of_interrupted_children_is_counted() -> None:
    turn = Turn(calls=(Call("delegate", {"task": "ask"}),))
    model = by_task(go=[Call("delegate", {"task": "middle"})], middle=[turn], ask=[Call("inquire")])
    store = MemoryStore()
    ran = await run(model, tools=[DELEGATE, inquire], store=store, wait_for_answers=True)
    (middle,) = [one.id for one in await store.sessions() if one.child_of == ran.session.id]
    children = ChildRuns(store, World(), 1)
    peeked = await children.status(middle)
    assert (peeked.waits, peeked.used.steps, peeked.used.tokens, peeked.used.children) == (True, 2, 30, 1)
    for one in await store.sessions():
        await answer_everything(store, one.id)
    await ran.session.advance()
    assert (await children.status(middle)).used.steps == 4


class PausingStore(MemoryStore):
    """Somebody pauses a session in the moment when its child is looked at."""

    to_pause = ""
    looks = 0

    async def read_opening(self, session: str) -> list[Fact]:
        self.looks -= session != self.to_pause
        if self.to_pause and self.looks == 0 and await self.submit(self.to_pause, Pause(id="p1")):
            for _ in range(50):  # whoever reads the inbox has its turns
                await asyncio.sleep(0)
        return await super().read_opening(session)


@pytest.mark.parametrize(("look", "has_moved"), [(1, False), (2, False), (3, False), (2, True)])
async def test_a_pause_during_the_check_of_children_takes_effect(look: int, has_moved: bool) -> None:
    store = PausingStore()
    model = by_task(go=[Call("delegate", {"task": "ask"})], ask=[Call("inquire")])
    ran = await run(model, tools=[DELEGATE, inquire], store=store, wait_for_answers=True)
    (child,) = [one.id for one in await store.sessions() if one.child_of]
    if has_moved:
        await answer_everything(store, child)
    store.to_pause, store.looks = ran.session.id, look
    paused = await asyncio.wait_for(ran.session.advance(), PATIENCE)
    assert isinstance(paused, RunWaiting) and (paused.reason, paused.request) == ("paused", "p1")
    ended = await asyncio.wait_for(ran.session.resume(), PATIENCE)
    assert isinstance(ended, RunEnded) == has_moved
