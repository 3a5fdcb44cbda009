"""Children: runs in sessions of their own, under another run's call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ostler.app.stores import newest_session
from ostler.core.children import ChildRequest, ExecutionPolicy, HistoryPolicy, child_session
from ostler.core.function_tool import tool
from ostler.core.hooks import Ask, Hook, PlannedCall, Refuse
from ostler.core.model import ModelRequest
from ostler.core.processes import current_process
from ostler.core.tool import ToolContext
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import CallRefused
from ostler.schema.events import ChildEvent, Limits, RunEnded, RunWaiting
from ostler.schema.messages import as_content
from ostler.schema.outcomes import NeedUser, Question
from ostler.schema.usage import Usage
from ostler.sessions.agents import AgentSpec, DelegateTool
from ostler.sessions.run_tree import is_stuck
from ostler.sessions.session import delete_session, open_session
from ostler.store.memory import MemoryStore
from tests.support.running import Ran, run, started

DELEGATE = DelegateTool({})


def by_task(**answers: Any) -> ScriptedModel:
    """Answers by what the conversation begins with; each task has a script of its own."""
    scripts = {task: iter(script) for task, script in answers.items()}

    def answer(request: ModelRequest) -> Any:
        return next(scripts[request.transcript[0].text])

    return ScriptedModel([answer] * 200)


async def child_facts(ran: Ran, number: int = 1, call: int = 0) -> list[Any]:
    called = ran.all(events.ToolCalled)[call]
    session = child_session(ran.session.id, called.call, number)
    return await ran.session.journal.store.read(session)


async def test_a_child_works_in_its_own_session_and_its_answer_is_the_result() -> None:
    model = by_task(go=[Call("delegate", {"task": "count"}), "the child says 3"], count=["3"])
    ran = await run(model, tools=[DELEGATE])
    assert ran.status == "completed"
    assert ran.results() == ["3"]
    facts = await child_facts(ran)
    first, started_ = facts[0].event, next(fact.event for fact in facts if fact.type == "run_started")
    assert (first.child_of, first.call) == (ran.session.id, ran.all(events.ToolCalled)[0].call)
    run_id = ran.facts[0].run
    assert (started_.root, started_.parent_run, started_.depth) == (run_id, run_id, 1)
    assert ran.types.index("child_started") < ran.types.index("child_ended") < ran.types.index("tool_result")


async def test_a_childs_events_are_live_under_its_parents_call() -> None:
    model = by_task(go=[Call("delegate", {"task": "count"}), "done"], count=["three"])
    ran = await run(model, tools=[DELEGATE])
    seen = ran.all(ChildEvent)
    assert seen and {event.call for event in seen} == {ran.all(events.ToolCalled)[0].call}
    assert any(isinstance(event.event, events.TextDelta) for event in seen)
    assert not any(fact.type == "child_event" for fact in ran.facts)


async def test_the_cost_of_children_is_separate_and_counted_once() -> None:
    def priced(text: str = "", *calls: Call) -> Turn:
        return Turn(text, calls, usage=Usage(input_tokens=10, output_tokens=5, cost=0.25))

    model = by_task(
        go=[priced("", Call("delegate", {"task": "a"}), Call("delegate", {"task": "b"})), priced("done")],
        a=[priced("", Call("delegate", {"task": "c"})), priced("a is done")],
        b=[priced("b is done")],
        c=[priced("c is done")],
    )
    ran = await run(model, tools=[DELEGATE])
    assert isinstance(ran.quiet, RunEnded)
    assert ran.quiet.own.usage.cost == 0.5
    assert ran.quiet.children.usage.cost == 1.0
    assert (ran.quiet.children.runs, ran.quiet.children.steps) == (3, 4)


async def test_a_cancelled_run_cancels_its_children() -> None:
    waiting = asyncio.Event()

    @tool
    async def forever() -> str:
        waiting.set()
        await asyncio.get_running_loop().create_future()
        return ""

    model = by_task(go=[Call("delegate", {"task": "wait"})], wait=[Call("forever")])
    ran = await started(model, tools=[DELEGATE, forever])
    running = asyncio.ensure_future(ran.session.prompt(as_content("go")))
    await asyncio.wait_for(waiting.wait(), 60)
    ran.session.cancel("enough")
    ended = await asyncio.wait_for(running, 60)
    assert isinstance(ended, RunEnded) and ended.status == "cancelled"
    facts = await child_facts(ran)
    assert facts[-1].event.status == "cancelled"
    assert ran.all(events.ChildEnded)[0].status == "cancelled"
    assert ended.children.steps == 1


async def test_guards_of_the_parent_apply_to_children() -> None:
    def guard(call: PlannedCall) -> Refuse | None:
        return Refuse("not that") if call.name == "danger" else None

    @tool
    async def danger() -> str:
        return "done"

    model = by_task(go=[Call("delegate", {"task": "try"}), "ok"], **{"try": [Call("danger"), "refused"]})
    ran = await run(model, tools=[DELEGATE, danger], hooks=[Hook("before_tool", guard, guard=True)])
    assert ran.status == "completed"
    facts = await child_facts(ran)
    assert [fact.event.failed for fact in facts if fact.type == "tool_result"] == ["call_refused"]


async def test_remembered_permissions_of_a_parent_apply_to_a_child() -> None:
    seen: list[tuple[tuple[str, str], ...]] = []

    async def look(call: PlannedCall) -> None:
        seen.append(call.remembered)

    @tool
    async def touch() -> str:
        return "done"

    model = by_task(go=[Call("delegate", {"task": "do"}), "ok"], do=[Call("touch"), "ok"])
    ran = await started(model, tools=[DELEGATE, touch], permission_hook=Hook("before_tool", look, guard=True))
    rule = events.PermissionRemembered("touch", "allow", "session", ran.session.id)
    ran.session.journal.record(rule)
    await ran.session.prompt(as_content("go"))
    assert seen == [(("touch", "allow"),)] * 2


async def test_a_childs_question_pauses_both_runs_until_its_answer() -> None:
    def guard(call: PlannedCall) -> Ask | None:
        return Ask(Question("May I?", "permission")) if call.name == "touch" else None

    @tool
    async def touch() -> str:
        return "touched"

    model = by_task(go=[Call("delegate", {"task": "do"}), "all done"], do=[Call("touch"), "child done"])
    store = MemoryStore()
    hooks = [Hook("before_tool", guard)]
    ran = await run(model, tools=[DELEGATE, touch], hooks=hooks, store=store, wait_for_answers=True)
    assert isinstance(ran.quiet, RunWaiting) and ran.quiet.reason == "pending"
    child_id = ran.all(events.ChildStarted)[0].child
    assert await ran.session.advance() == ran.quiet  # nothing has moved
    length = ran.session.state.last_seq
    await ran.session.advance()
    assert ran.session.state.last_seq == length

    child = await open_session(store, child_id, ran.session.harness)
    (question,) = child.state.questions
    ended = await child.answer(question, "yes")
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    await child.close()

    parent_end = await ran.session.advance()
    assert isinstance(parent_end, RunEnded) and parent_end.status == "completed"
    assert ran.results() == ["child done"]
    assert parent_end.children.runs == 1


async def test_the_judges_result_is_the_childs_result() -> None:
    @tool
    async def submit(verdict: str) -> Any:
        return verdict

    @tool
    async def ask_a_child(context: ToolContext) -> str:
        policy = ExecutionPolicy(judge="submit", tools=())
        result = await context.run_child(ChildRequest(as_content("judge"), execution=policy))
        return f"{result.status}: {result.text}"

    model = by_task(
        go=[Call("ask_a_child"), "ok"], judge=[Call("submit", {"verdict": "guilty"}), "that was it"]
    )
    ran = await run(model, tools=[ask_a_child, submit])
    assert ran.results() == ["completed: guilty"]
    offered = [tool_.name for tool_ in ran.model.requests[1].tools]
    assert offered == ["submit"]


async def test_a_child_that_is_stopped_returns_its_partial_answer() -> None:
    model = by_task(
        go=[Call("delegate", {"task": "long"}), "ok"],
        long=[Turn("the first half", (Call("delegate", {"task": "x"}),)), "never"],
        x=["x"],
    )

    class Short(DelegateTool):
        def request(self, delegation: Any) -> ChildRequest:
            return ChildRequest(
                as_content(delegation.task), execution=ExecutionPolicy(limits=Limits(steps=1))
            )

    ran = await run(model, tools=[Short({})])
    assert ran.status == "completed"
    (result,) = ran.results()
    assert "limit of 1 steps" in result and "the first half" in result


@pytest.mark.parametrize("runs", [0, 1, 2, 3])
async def test_the_history_policy_decides_what_a_child_inherits(runs: int) -> None:
    @tool
    async def ask_a_child(context: ToolContext) -> str:
        request = ChildRequest(as_content("child"), history=HistoryPolicy(runs))
        return (await context.run_child(request)).text

    ran = await started(["one", "two", Call("ask_a_child"), "child answers", "three"], tools=[ask_a_child])
    for prompt in ("first", "second", "third"):
        ran.quiet = await ran.session.prompt(as_content(prompt))
    assert ran.status == "completed"
    texts = [message.text for message in ran.model.requests[3].transcript]
    conversation = ["first", "one", "second", "two", "third"]
    assert texts == [*conversation[{0: 5, 1: 4, 2: 2, 3: 0}[runs] :], "child"]


async def test_no_more_children_than_allowed_work_at_the_same_time() -> None:
    at_once, most = 0, 0
    full = asyncio.Event()

    @tool
    async def work() -> str:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        if at_once == 3:
            full.set()
        await asyncio.wait_for(full.wait(), 60)
        for _ in range(10):
            await asyncio.sleep(0)
        at_once -= 1
        return "ok"

    calls = [Call("delegate", {"task": "work"}) for _ in range(8)]

    def answer(request: ModelRequest) -> Any:
        if request.transcript[0].text == "go":
            return calls if len(request.transcript) == 1 else "done"
        return Call("work") if len(request.transcript) == 1 else "ok"

    ran = await run(ScriptedModel([answer] * 50), tools=[DELEGATE, work], children_together=3)
    assert ran.status == "completed" and most == 3


async def test_a_named_agent_gets_its_own_prompt_model_and_tools() -> None:
    agent = AgentSpec(
        name="critic",
        description="finds faults",
        model="scripted/critic",
        tools=("look",),
        system="You are a critic.",
        scope="user",
        source="critic.md",
    )

    @tool
    async def look() -> str:
        return ""

    critic = ScriptedModel(["bad"], name="scripted/critic")
    ran = await run(
        [Call("delegate", {"task": "judge this", "agent": "critic"}), "ok"],
        tools=[DelegateTool({"critic": agent}), look],
        make_model=lambda name: critic,
        make_system=lambda instead: f"{instead or 'You lead.'}\n\nmind the rules",
    )
    assert ran.results() == ["bad"]
    (request,) = critic.requests
    assert request.system.startswith("You are a critic.") and "mind the rules" in request.system
    assert [offer.name for offer in request.tools] == ["look"]
    assert ran.all(events.ChildStarted)[0].agent == "critic"


async def test_delegating_to_an_unknown_agent_is_refused() -> None:
    ran = await run([Call("delegate", {"task": "x", "agent": "nobody"}), "ok"], tools=[DELEGATE])
    assert "nobody" in ran.results()[0]


async def test_a_child_of_a_tool_that_cannot_have_children_is_refused() -> None:
    @tool
    async def ask_a_child(context: ToolContext) -> str:
        context.children = None  # type: ignore[attr-defined]
        try:
            await context.run_child(ChildRequest(as_content("x")))
        except CallRefused as refused:
            return refused.message
        return ""

    ran = await run([Call("ask_a_child"), "ok"], tools=[ask_a_child])
    assert ran.results() == ["No child can be run here."]


async def test_deleting_a_session_deletes_its_childrens() -> None:
    store = MemoryStore()
    model = by_task(
        go=[Call("delegate", {"task": "a"}), "done"], a=[Call("delegate", {"task": "b"}), "ok"], b=["ok"]
    )
    ran = await run(model, tools=[DELEGATE], store=store)
    await ran.session.close()
    assert len(await store.sessions()) == 3
    await delete_session(store, ran.session.id)
    assert await store.sessions() == []


async def test_a_waiting_child_whose_session_was_deleted_starts_again() -> None:
    @tool
    async def choose() -> object:
        return NeedUser(Question("Which?"))

    model = by_task(go=[Call("delegate", {"task": "do"}), "all done"], do=[Call("choose"), "child done"])
    store = MemoryStore()
    ran = await run(model, tools=[DELEGATE, choose], store=store, wait_for_answers=True)
    assert isinstance(ran.quiet, RunWaiting) and await is_stuck(store, ran.session.state)
    await store.delete(ran.all(events.ChildStarted)[0].child, current_process())
    assert not await is_stuck(store, ran.session.state)
    assert isinstance(await ran.session.advance(), RunEnded)
    assert ran.results() == ["child done"]


async def test_the_newest_session_of_a_directory_is_never_a_childs() -> None:
    store = MemoryStore()
    calls = [Call("delegate", {"task": "a"}) for _ in range(9)]

    def answer(request: ModelRequest) -> Any:
        is_first = request.transcript[0].text == "go" and len(request.transcript) == 1
        return calls if is_first else "ok"

    model = ScriptedModel([answer] * 20)
    ran = await run(model, tools=[DELEGATE], store=store)
    for one in await store.sessions():
        if one.child_of:
            await open_session(store, one.id, ran.session.harness)
    assert await newest_session(store, ran.session.harness.cwd) == ran.session.id
    assert await newest_session(store, Path("/nowhere")) == ""


async def test_a_child_has_a_context_of_its_own_and_its_parents_services() -> None:
    contexts: list[ToolContext] = []

    @tool
    async def touch(context: ToolContext) -> str:
        contexts.append(context)
        context.memory["who"] = context.run
        context.tags["who"] = "the child"
        return "touched"

    @tool
    async def ask_a_child(context: ToolContext) -> str:
        context.memory["who"] = context.run
        before = (context.session, context.run, context.call, context.depth, dict(context.tags))
        await context.run_child(ChildRequest(as_content("child")))
        after = (context.session, context.run, context.call, context.depth, dict(context.tags))
        contexts.append(context)
        return "unchanged" if before == after and context.memory["who"] == context.run else "changed"

    ran = await run(
        [Call("ask_a_child"), Call("touch"), "child done", "ok"],
        tools=[ask_a_child, touch],
        services={"database": "the database"},
        tags={"customer": 7},
    )
    assert ran.results() == ["unchanged"]
    child, parent = contexts
    assert (child.depth, child.parent_run, child.root_run) == (parent.depth + 1, parent.run, parent.run)
    assert child.services == parent.services
    assert {child.session, child.run, child.call}.isdisjoint({parent.session, parent.run, parent.call})
    assert child.session == child_session(parent.session, parent.call, 1)
