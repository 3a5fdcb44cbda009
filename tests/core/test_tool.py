"""The tool contract as the runtime keeps it: contexts, reuse, protocol errors, resumption, display."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ostler.core.call_gate import idempotency_key
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.tool import ToolContext
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events
from ostler.schema.events import RunEnded, RunWaiting, TodoItem
from ostler.schema.messages import as_content, text_of
from ostler.schema.outcomes import Display, Layout, NeedUser, Ok, Pending, Question, ok
from ostler.schema.requests import FinishCall
from ostler.sessions.session import open_session
from ostler.store.memory import MemoryStore
from tests.support.running import Ran, add, run, started


def tool_that_charges(scope: Any) -> tuple[Any, list[str]]:
    """A tool that counts its effects."""
    charged: list[str] = []

    @tool(idempotent=scope, parallel=True)
    async def charge(card: str, amount: int = 1) -> Ok:
        charged.append(card)
        return ok(f"charged {card} {len(charged)}", details={"number": len(charged)})

    return charge, charged


@pytest.mark.parametrize("scope", ["run", "session"])
async def test_an_idempotent_call_runs_once_and_its_result_is_reused(scope: str) -> None:
    charge, charged = tool_that_charges(scope)
    script = [
        Call("charge", {"card": "a", "amount": 2}),
        Call("charge", {"amount": 2, "card": "a"}),
        "done",
        Call("charge", {"card": "a", "amount": 2}),
        "done",
    ]
    ran = await started(script, tools=[charge])
    await ran.session.prompt(as_content("go"))
    await ran.session.prompt(as_content("again"))
    first, second, third = ran.all(events.ToolResultFact)
    assert (text_of(second.content), second.details) == (text_of(first.content), first.details)
    by_seq = {fact.seq: fact.event for fact in ran.facts}
    assert by_seq[second.repeats] is first
    assert [started_.call for started_ in ran.all(events.ToolStarted)].count(second.call) == 0
    if scope == "session":
        assert charged == ["a"] and by_seq[third.repeats] is first
    else:
        assert charged == ["a", "a"] and third.repeats == 0


async def test_results_are_reused_by_another_process() -> None:
    charge, charged = tool_that_charges("session")
    store = MemoryStore()
    ran = await run(
        [Call("charge", {"card": "a"}), "ok", Call("charge", {"card": "a"}), "ok"],
        tools=[charge],
        store=store,
    )
    await ran.session.close()
    again = await open_session(store, ran.session.id, ran.session.harness)
    await again.prompt(as_content("once more"))
    assert charged == ["a"]


async def test_the_same_call_twice_in_one_step_runs_once() -> None:
    charge, charged = tool_that_charges("run")
    ran = await run([[Call("charge", {"card": "a"}), Call("charge", {"card": "a"})], "ok"], tools=[charge])
    assert charged == ["a"] and len(set(ran.results())) == 1


async def test_a_failure_is_not_reused() -> None:
    tries: list[int] = []

    @tool(idempotent="session")
    async def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        return "now"

    ran = await run([Call("flaky"), Call("flaky"), "ok"], tools=[flaky])
    assert ran.results() == ["ValueError: not yet", "now"]


async def test_four_malformed_calls_in_a_row_end_the_run() -> None:
    @tool
    async def add(a: int) -> str:
        return str(a)

    bad = [Call("add", raw="{"), Call("nothing"), Call("add", {"a": "x"}), Call("add", {"b": 1})]
    ran = await run([*bad, "never"], tools=[add])
    assert isinstance(ran.quiet, RunEnded)
    assert ran.quiet.status == "failed" and "4 calls in a row" in ran.quiet.reason
    assert len(ran.model.requests) == 4


async def test_a_valid_call_resets_the_count_of_malformed_calls() -> None:
    @tool
    async def add(a: int) -> str:
        raise ValueError("it failed, but it was understood")

    bad = [Call("add", {"b": n}) for n in range(3)]
    ran = await run([*bad, Call("add", {"a": 1}), *bad, "ok"], tools=[add])
    assert ran.status == "completed"
    batch = [*bad, Call("add", {"b": 9}), Call("add", {"a": 1})]
    assert (await run([batch, "ok"], tools=[add])).status == "completed"


async def test_the_tool_context_describes_the_run() -> None:
    seen: dict[str, Any] = {}

    @tool
    async def look(context: ToolContext) -> str:
        names = (
            "session",
            "run",
            "root_run",
            "parent_run",
            "trace",
            "step",
            "call",
            "attempt",
            "depth",
            "tags",
        )
        seen.update({name: getattr(context, name) for name in names})
        seen["service"] = context.services["database"]
        return "ok"

    ran = await run(
        [Call("look"), "ok"],
        tools=[look],
        tags={"customer": 7},
        trace="order-1",
        services={"database": "the database"},
    )
    run_id = ran.facts[0].run
    assert seen == {
        "session": ran.session.id,
        "run": run_id,
        "root_run": run_id,
        "parent_run": "",
        "trace": "order-1",
        "step": 1,
        "call": ran.all(events.ToolCalled)[0].call,
        "attempt": 1,
        "depth": 0,
        "tags": {"customer": 7},
        "service": "the database",
    }


async def test_only_the_working_history_has_the_facts_of_this_run() -> None:
    histories: list[tuple[list[str], list[str]]] = []

    @tool
    async def first() -> str:
        return "one"

    @tool
    async def second(context: ToolContext) -> str:
        views = (await context.working_history(), await context.persisted_history())
        working, persisted = ([fact.type for fact in view] for view in views)
        histories.append((working, persisted))
        return "two"

    ran = await started(["hello", [Call("first"), Call("second")], "ok"], tools=[first, second])
    await ran.session.prompt(as_content("hi"))
    await ran.session.prompt(as_content("go"))
    ((working, persisted),) = histories
    assert working.count("tool_result") == 1 and working.count("run_started") == 2
    assert persisted.count("tool_result") == 0 and persisted[-1] == "run_ended"


async def test_citations_are_numbered_across_calls() -> None:
    offsets: list[int] = []

    @tool
    async def search(n: int, context: ToolContext) -> Ok:
        offsets.append(context.citation_offset)
        return ok("found", details={"citations": [{"url": f"{i}"} for i in range(n)]})

    script = [Call("search", {"n": 3}), Call("search", {"n": 2}), Call("search", {"n": 1}), "ok"]
    ran = await started([*script, Call("search", {"n": 1}), "ok"], tools=[search])
    await ran.session.prompt(as_content("go"))
    await ran.session.prompt(as_content("again"))
    assert offsets == [0, 3, 5, 0]


async def test_a_todo_list_is_a_fact_and_navigation_restores_it() -> None:
    @tool
    async def plan(text: str, context: ToolContext) -> str:
        before = len(context.todo)
        await context.update_todo([*context.todo, TodoItem(str(before + 1), text)])
        return str(len(context.todo))

    ran = await run([Call("plan", {"text": "a"}), Call("plan", {"text": "b"}), "ok"], tools=[plan])
    assert ran.results() == ["1", "2"]
    assert [[item.text for item in updated.items] for updated in ran.all(events.TodoUpdated)] == [
        ["a"],
        ["a", "b"],
    ]
    assert [item.text for item in ran.session.state.todo["main"]] == ["a", "b"]


@pytest.mark.parametrize(("strategy", "result"), [("result", "blue"), ("again", "painted blue after red")])
async def test_the_outcome_decides_what_an_answer_does(strategy: Any, result: str) -> None:
    @tool
    async def paint(context: ToolContext) -> Any:
        if context.answer is not None:
            return f"painted {context.answer} after {context.state}"
        question = Question("Which colour?", "choice", ("red", "blue"), questionnaire="colours-1")
        return NeedUser(question, state="red", resume=strategy)

    ran = await run([Call("paint"), "ok"], tools=[paint], wait_for_answers=True)
    assert isinstance(ran.quiet, RunWaiting)
    (asked,) = ran.all(events.QuestionAsked)
    assert asked.question.questionnaire == "colours-1"
    await ran.session.answer(asked.id, "blue")
    assert ran.results() == [result]


async def test_a_pending_call_is_finished_after_a_restart() -> None:
    @tool
    async def later() -> Pending:
        return Pending("job-7", "the build runs")

    store = MemoryStore()
    ran = await run([Call("later"), "built"], tools=[later], store=store)
    assert isinstance(ran.quiet, RunWaiting) and ran.quiet.reason == "pending"
    await ran.session.close()
    call = ran.all(events.ToolDeferred)[0].call
    await store.submit(ran.session.id, FinishCall(id="r1", call=call, outcome=ok("built in 3 minutes")))
    session = await open_session(store, ran.session.id, ran.session.harness)
    ended = await session.advance()
    assert isinstance(ended, RunEnded) and ended.status == "completed"


async def test_calls_have_the_display_of_their_tool() -> None:
    display = Display("table", "Find {what} in {where}", "search", Layout(border=False))

    @tool(display=display)
    async def find_it(what: str) -> str:
        return ""

    ran = await run([Call("find_it", {"what": "gold"}), "ok"], tools=[find_it])
    (called,) = ran.all(events.ToolCalled)
    assert called.display == display
    assert called.display.title_for(called.arguments) == "Find gold in"
    (fact,) = [fact for fact in ran.facts if fact.type == "tool_called"]
    assert b'"display":{"view":"table"' in fact.body


async def test_spans_wrap_runs_model_calls_and_tool_calls() -> None:
    spans: list[str] = []

    @contextmanager
    def span(name: str, about: dict[str, Any]) -> Iterator[None]:
        spans.append(name)
        yield
        spans.append(f"/{name}")

    @tool
    async def work() -> str:
        await asyncio.sleep(0)
        return "ok"

    await run([Call("work"), "ok"], tools=[work], span=span)
    assert spans == [
        "run", "model_call", "/model_call", "tool_call", "/tool_call", "model_call", "/model_call", "/run",
    ]  # fmt: skip


def test_the_idempotency_key_depends_on_tool_arguments_and_scope() -> None:
    one = {"card": "a", "items": [{"id": 1, "count": 2}]}
    reordered = {"items": [{"count": 2, "id": 1}], "card": "a"}
    key = idempotency_key("charge", one, "run_1")
    assert key == idempotency_key("charge", reordered, "run_1")
    assert len(key) == 32 and int(key, 16) >= 0
    others = [
        idempotency_key("charge", one, "run_2"),
        idempotency_key("charge", one, "session"),
        idempotency_key("refund", one, "run_1"),
        idempotency_key("charge", {**one, "card": "b"}, "run_1"),
        idempotency_key("charge", {**one, "items": []}, "run_1"),
    ]
    assert len({key, *others}) == 6


async def test_host_services_cannot_replace_the_contexts_own_fields() -> None:
    seen: list[Any] = []

    @tool
    async def look(context: ToolContext) -> str:
        seen.extend([context.run, context.call, context.session, context.services])
        return "ok"

    services = {"run": "mine", "call": "mine", "session": "mine", "database": object()}
    ran = await run([Call("look"), "ok"], tools=[look], services=services, tags={"run": "mine"})
    assert seen == [ran.facts[0].run, ran.all(events.ToolCalled)[0].call, ran.session.id, services]


async def test_a_tools_trace_is_live_in_order_and_not_stored() -> None:
    @tool
    async def trace(context: ToolContext) -> str:
        for number in range(100):
            context.publish_trace("elsewhere", [events.TextDelta("msg", 0, number, "x")])
        return "done"

    ran = await run([Call("trace"), "ok"], tools=[trace])
    traced = ran.all(events.ChildEvent)
    assert [one.event.offset for one in traced] == list(range(100))
    assert {one.call for one in traced} == {ran.all(events.ToolCalled)[0].call}
    stored = await ran.session.journal.store.read(ran.session.id)
    assert "child_event" not in {fact.type for fact in stored}
    assert ran.model.requests[-1].transcript[-1].text == ""  # the result alone
    assert ran.results() == ["done"]


async def _asked(store: MemoryStore) -> Ran:
    """A run that waits, with a call before and a call behind the one that asks."""

    @tool
    async def ask() -> NeedUser:
        return NeedUser(Question("Which bed?"))

    batch = [Call("add", {"a": 1}, "c1"), Call("ask", id="c2"), Call("add", {"a": 2}, "c3")]
    script = ["hello", batch, "ok"]
    ran = await started(script, tools=[add, ask], store=store, wait_for_answers=True)
    await ran.session.prompt(as_content("hi"))
    ran.quiet = await ran.session.prompt(as_content("go"))
    return ran


async def test_a_call_that_needs_the_user_has_no_result_until_it_is_answered() -> None:
    ran = await _asked(MemoryStore())
    assert isinstance(ran.quiet, RunWaiting)
    (asked,) = ran.all(events.QuestionAsked)
    assert (asked.call, ran.quiet.questions, ran.quiet.calls) == ("c2", (asked.id,), ("c2",))
    assert [one.call for one in ran.all(events.ToolResultFact)] == ["c1", "c3"]
    assert asked.question.questionnaire == ""


async def test_an_answer_gives_the_same_request_in_another_process() -> None:
    here, there = await _asked(MemoryStore()), await _asked(store := MemoryStore())
    await here.session.answer(here.all(events.QuestionAsked)[0].id, "the third")
    await there.session.close()
    elsewhere = Harness(ScriptedModel(["ok"]))
    elsewhere.set_tools(there.session.harness.tools.values())
    session = await open_session(store, there.session.id, elsewhere)
    await session.answer(there.all(events.QuestionAsked)[0].id, "the third")
    assert isinstance(elsewhere.model, ScriptedModel)
    (after,), before = elsewhere.model.requests, here.model.requests[-1]
    assert list(after.transcript) == list(before.transcript)
    assert [block.call for block in after.transcript[-1].content] == ["c1", "c2", "c3"]  # type: ignore[union-attr]
