"""What someone who comes from linnkit would try first. `docs/linnkit.md` names the test of each case."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from ostler.core.call_gate import idempotency_key
from ostler.core.children import ChildRequest, child_session
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.hooks import FailedCall, Hook, Retry, StepPlan
from ostler.core.tool import MODEL_LIMIT, ToolContext
from ostler.history.audit import audit_of
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events
from ostler.schema.errors import AuthenticationFailed, ConnectionFailed, NotFound
from ostler.schema.events import Limits, RunEnded, RunWaiting
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content
from ostler.schema.outcomes import NeedUser, Ok, Question, ok
from ostler.schema.requests import Prompt
from ostler.sessions.session import open_session
from ostler.sessions.supervisor import Supervisor
from ostler.store.memory import MemoryStore
from tests.running import Ran, run, started


@tool
async def add(a: int, b: int = 1) -> str:
    return str(a + b)


# --- tools ------------------------------------------------------------------------------------------


def test_the_key_of_a_call_is_that_of_its_tool_its_arguments_and_its_scope() -> None:
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


async def test_what_a_host_hands_in_cannot_pose_as_the_runtimes_own() -> None:
    seen: list[Any] = []

    @tool
    async def look(context: ToolContext) -> str:
        seen.extend([context.run, context.call, context.session, context.services])
        return "ok"

    services = {"run": "mine", "call": "mine", "session": "mine", "database": object()}
    ran = await run([Call("look"), "ok"], tools=[look], services=services, tags={"run": "mine"})
    assert seen == [ran.facts[0].run, ran.all(events.ToolCalled)[0].call, ran.session.id, services]


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


async def test_what_a_tool_traces_is_seen_once_in_order_and_neither_stored_nor_told() -> None:
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


async def test_a_long_result_is_stored_once_and_not_in_its_fact() -> None:
    @tool
    async def flood() -> str:
        return "begin" + "x" * 200_000 + "end"

    ran = await run([Call("flood"), "ok"], tools=[flood])
    (fact,) = [fact for fact in ran.facts if fact.type == "tool_result"]
    assert len(fact.body) < MODEL_LIMIT + 2_000
    output = fact.event.output
    whole = await ran.session.journal.store.read_blob(ran.session.id, output.id)
    assert whole == b"begin" + b"x" * 200_000 + b"end"


# --- steps and batches ------------------------------------------------------------------------------


async def test_when_a_call_of_a_batch_fails_the_others_run_and_the_model_is_asked_once() -> None:
    @tool
    async def broken() -> str:
        raise ValueError("no")

    ran = await run([[Call("broken"), Call("add", {"a": 1})], "ok"], tools=[broken, add])
    assert ran.results() == ["ValueError: no", "2"]
    assert len(ran.model.requests) == 2 and ran.status == "completed"


async def test_after_a_tool_has_ended_the_run_every_call_of_its_batch_has_a_result() -> None:
    @tool
    async def finish() -> Ok:
        return ok("all done", ends_run=True)

    ran = await run([[Call("finish"), Call("add", {"a": 1})], "never"], tools=[finish, add])
    assert ran.status == "completed" and len(ran.model.requests) == 1
    assert ran.results() == ["all done", "Not run: finish ended the run."]


@pytest.mark.parametrize("raw", ['{"a": 1}{"a": 2}', '{"a": 1, "b": "\\"}{"}{"a": 2}'])
async def test_two_objects_in_one_call_are_told_to_the_model_and_not_taken_apart(raw: str) -> None:
    ran = await run([Call("add", raw=raw), Call("add", {"a": 2}), "ok"], tools=[add])
    first, second = ran.all(events.ToolResultFact)
    assert (first.failed, second.failed) == ("invalid_arguments", None)
    assert "not valid JSON" in ran.results()[0]
    assert [one.call for one in ran.all(events.ToolStarted)] == [second.call]


def final_answer_at(last: int) -> Hook:
    """On the last step no tools are offered."""

    def plan(step: StepPlan) -> StepPlan | None:
        return msgspec.structs.replace(step, tools=()) if step.number == last else None

    return Hook("before_step", plan)


async def test_a_hook_makes_the_last_step_one_without_tools() -> None:
    calls = [Call("add", {"a": number}) for number in range(9)]
    ran = await run(
        [*calls, "that is all"], tools=[add], hooks=[final_answer_at(10)], limits=Limits(steps=10)
    )
    assert ran.status == "completed"
    assert [bool(request.tools) for request in ran.model.requests] == [True] * 9 + [False]


async def test_a_call_in_a_step_without_tools_does_not_run() -> None:
    calls = [Call("add", {"a": number}) for number in range(5)]
    ran = await run(calls, tools=[add], hooks=[final_answer_at(3)], limits=Limits(steps=3))
    assert ran.status == "limit" and "3 steps" in ran.quiet.reason  # type: ignore[union-attr]
    assert [one.failed for one in ran.all(events.ToolResultFact)] == [None, None, "unknown_tool"]
    assert len(ran.all(events.ToolStarted)) == 2


async def test_a_hook_forces_one_tool_before_the_last_step() -> None:
    handed_in: list[str] = []

    @tool
    async def hand_in(report: str) -> Ok:
        handed_in.append(report)
        return ok("handed in", ends_run=True)

    def force(step: StepPlan) -> StepPlan | None:
        if step.number < 4:
            return None
        return msgspec.structs.replace(step, tools=("hand_in",), tool_choice="hand_in")

    calls = [Call("add", {"a": number}) for number in range(3)]
    ran = await run(
        [*calls, Call("hand_in", {"report": "thyme"})],
        tools=[add, hand_in],
        hooks=[Hook("before_step", force)],
        limits=Limits(steps=4),
    )
    assert ran.status == "completed" and handed_in == ["thyme"]
    last = ran.model.requests[-1]
    assert ([offer.name for offer in last.tools], last.tool_choice) == (["hand_in"], "hand_in")


# --- waiting ----------------------------------------------------------------------------------------


async def _asked(store: MemoryStore) -> Ran:
    """A run that waits, with a call before and a call behind the one that asks."""

    @tool
    async def ask() -> NeedUser:
        return NeedUser(Question("Which bed?"))

    batch = [Call("add", {"a": 1}, "c1"), Call("ask", id="c2"), Call("add", {"a": 2}, "c3")]
    script = ["hello", batch, "ok"]
    ran = await started(script, tools=[add, ask], store=store, waits_for_answers=True)
    await ran.session.prompt(as_content("hi"))
    ran.quiet = await ran.session.prompt(as_content("go"))
    return ran


async def test_a_call_that_needs_a_person_has_no_result_until_it_is_answered() -> None:
    ran = await _asked(MemoryStore())
    assert isinstance(ran.quiet, RunWaiting)
    (asked,) = ran.all(events.QuestionAsked)
    assert (asked.call, ran.quiet.questions, ran.quiet.calls) == ("c2", (asked.id,), ("c2",))
    assert [one.call for one in ran.all(events.ToolResultFact)] == ["c1", "c3"]
    assert asked.question.questionnaire == ""


async def test_an_answer_leads_to_the_same_request_in_this_process_and_in_another() -> None:
    here, there = await _asked(MemoryStore()), await _asked(store := MemoryStore())
    await here.session.answer(here.all(events.QuestionAsked)[0].id, "the third")
    await there.session.close()
    elsewhere = Harness(ScriptedModel(["ok"]))
    elsewhere.use(there.session.harness.tools.values())
    session = await open_session(store, there.session.id, elsewhere)
    await session.answer(there.all(events.QuestionAsked)[0].id, "the third")
    assert isinstance(elsewhere.model, ScriptedModel)
    (after,), before = elsewhere.model.requests, here.model.requests[-1]
    assert list(after.transcript) == list(before.transcript)
    assert [block.call for block in after.transcript[-1].content] == ["c1", "c2", "c3"]  # type: ignore[union-attr]


# --- stopping ---------------------------------------------------------------------------------------


async def test_a_run_that_was_cancelled_before_it_began_asks_and_runs_nothing() -> None:
    ran = await started([Call("add", {"a": 1}), "never"], tools=[add])
    ran.session.cancel("not needed any more")
    ran.quiet = await ran.session.prompt(as_content("go"))
    assert ran.status == "cancelled"
    assert ran.model.requests == [] and ran.all(events.ToolCalled) == []


async def test_a_cancellation_does_not_wait_for_the_next_attempt() -> None:
    def patient(failed: FailedCall) -> Retry:
        return Retry(delay=3600.0)

    ran = await started([ConnectionFailed("refused"), "never"], hooks=[Hook("after_failure", patient)])
    failed = asyncio.Event()

    def watch(batch: Sequence[Any]) -> None:
        if any(item.type == "model_failed" for item in batch):
            failed.set()

    ran.session.observe(watch)
    running = asyncio.ensure_future(ran.session.prompt(as_content("go")))
    await asyncio.wait_for(failed.wait(), 60)
    ran.session.cancel("enough")
    ran.quiet = await asyncio.wait_for(running, 60)
    assert ran.status == "cancelled" and len(ran.model.requests) == 1


async def test_a_wrong_key_is_not_tried_again() -> None:
    ran = await run([AuthenticationFailed("the key is wrong", status=401), "never"])
    assert ran.status == "failed" and len(ran.model.requests) == 1
    assert ran.types.count("model_failed") == ran.types.count("run_ended") == 1


@pytest.mark.parametrize("trouble", ["model", "tool", "cancelled"])
async def test_every_span_ends_however_its_work_does(trouble: str) -> None:
    open_spans: list[str] = []
    begun: list[str] = []

    @contextmanager
    def span(name: str, about: dict[str, Any]) -> Iterator[None]:
        begun.append(name)
        open_spans.append(name)
        try:
            yield
        finally:
            open_spans.remove(name)

    @tool
    async def broken(context: ToolContext) -> str:
        if trouble == "cancelled":
            ran.session.cancel("enough")
            await asyncio.get_running_loop().create_future()
        raise ValueError("no")

    script = [AuthenticationFailed("no", status=401)] if trouble == "model" else [Call("broken"), "ok"]
    ran = await started(script, tools=[broken], span=span)
    await asyncio.wait_for(ran.session.prompt(as_content("go")), 60)
    assert open_spans == []
    assert begun[:2] == ["run", "model_call"] and ("tool_call" in begun) == (trouble != "model")


# --- the supervisor ---------------------------------------------------------------------------------


class Office:
    """A supervisor whose one tool waits for a word."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.busy = asyncio.Event()
        self.go_on = asyncio.Event()

        @tool
        async def hold() -> str:
            self.busy.set()
            await asyncio.wait_for(self.go_on.wait(), 60)
            return "held"

        def equip(cwd: Path) -> Harness:
            harness = Harness(ScriptedModel([Call("hold"), "done", "again"]), cwd=cwd)
            harness.use([hold])
            return harness

        self.store = store or MemoryStore()
        self.supervisor = Supervisor(self.store, equip)

    async def begun(self) -> str:
        handle = await self.supervisor.start("go")
        await asyncio.wait_for(self.busy.wait(), 60)
        return handle.session

    async def ended(self, session: str) -> RunEnded:
        self.go_on.set()
        quiet = await self.supervisor.wait(session, timeout=60)
        assert isinstance(quiet, RunEnded)
        assert await self.supervisor.drain(10)
        return quiet


async def test_the_same_request_twice_is_one_run() -> None:
    office = Office()
    session = await office.begun()
    prompt = Prompt(id="req_1", content=as_content("more"))
    assert await office.supervisor.submit(session, prompt)
    assert not await office.supervisor.submit(session, prompt)
    office.go_on.set()
    await office.supervisor.wait(session, timeout=60)
    assert not await office.supervisor.submit(session, prompt)
    assert await office.supervisor.drain(10)
    begun = [fact.event for fact in await office.store.read(session) if fact.type == "run_started"]
    assert [one.request for one in begun] == ["", "req_1"]


async def test_a_cancel_is_what_the_log_the_audit_and_whoever_waits_say() -> None:
    office = Office()
    session = await office.begun()
    waiting = asyncio.ensure_future(office.supervisor.wait(session, timeout=60))
    request = await office.supervisor.cancel(session)
    quiet = await office.ended(session)
    assert await waiting == quiet
    assert (quiet.status, quiet.request) == ("cancelled", request)
    assert (await office.store.summary(session)).status == "cancelled"
    last = (await audit_of(office.store, session))[-1]
    assert (last.action, last.outcome, last.actor) == ("run.cancel", "cancelled", "user")


async def test_waiting_has_a_bound_and_needs_a_session_that_exists() -> None:
    office = Office()
    session = await office.begun()
    with pytest.raises(TimeoutError):
        await office.supervisor.wait(session, timeout=0.01)
    with pytest.raises(NotFound):
        await office.supervisor.wait("ses_nobody", timeout=10)
    assert (await office.ended(session)).status == "completed"


async def test_whoever_waits_for_a_run_that_another_drives_is_told_its_end() -> None:
    office = Office()
    session = await office.begun()
    other = Office(office.store)
    waiting = asyncio.ensure_future(other.supervisor.wait(session, timeout=60))
    await asyncio.sleep(0)
    assert await office.ended(session) == await waiting


async def test_whoever_follows_from_the_middle_misses_and_repeats_nothing() -> None:
    office = Office()
    one, _other = await office.begun(), await office.supervisor.start("beside it")
    middle = await office.store.last_seq(one) - 2
    seen: list[Fact] = []
    async with aclosing(office.supervisor.follow(one, middle)) as followed:  # type: ignore[type-var]
        async for batch in followed:
            seen += batch
            office.go_on.set()  # it joined while the run was under way; the rest comes now
            if batch[-1].type == "run_ended":
                break
    assert seen == await office.store.read(one, middle)
    assert [fact.seq for fact in seen] == list(range(middle + 1, seen[-1].seq + 1))
    assert {fact.session for fact in seen} == {one}
    assert await office.supervisor.drain(10)


async def test_what_was_said_of_a_run_at_its_start_holds_to_its_end() -> None:
    seen: list[Any] = []

    @tool
    async def meddle(context: ToolContext) -> str:
        harness = ran.session.harness
        harness.limits = Limits(steps=1)
        harness.tags["customer"] = 8
        harness.trace = "another"
        return "ok"

    @tool
    async def look(context: ToolContext) -> str:
        seen.extend([context.tags, context.trace])
        return "ok"

    ran = await started(
        [Call("meddle"), Call("look"), "ok", "never"],
        tools=[meddle, look],
        limits=Limits(steps=3),
        tags={"customer": 7},
        trace="order-1",
    )
    ran.quiet = await ran.session.prompt(as_content("go"))
    assert ran.status == "completed"
    assert seen == [{"customer": 7}, "order-1"]
    begun = next(fact for fact in ran.facts if fact.type == "run_started")
    assert b'"limits":{"steps":3}' in begun.body and b'"customer":7' in begun.body


# --- the page ---------------------------------------------------------------------------------------

NAMES = """
    TokenizerPort ToolContextConversationView SubRunTraceEnvelope SubRunTracePublisher RunContext
    createDefaultRunContext ToolContextCompatibilityFields CompatibilityCarrier readToolContextUserQuery
    readToolContextModelId readToolContextRunContext ChildRunParentContext ChildRunHistoryPolicy
    ChildRunTracePolicy ChildRunExecutionPolicy ChildRunRequest ChildRunResult ChildRunInvokerPort
    ToolExecutionContext ToolLayoutOptions ToolDisplayOptions ToolControlInfo StructuredToolResult
    ToolIdempotencyScope ToolIdempotencyPolicy computeToolIdempotencyKey
    findCachedToolOutputByIdempotencyKey ToolArgs JsonObjectSchema ToolParameterProperty
    ToolParameterSchema ToolResult UnifiedToolResult BaseTool ToolRegistryEntry CommonParameterTypes
    AgentTool OpenAIToolSchema ToolCallResult
"""


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "scripts"))
    return importlib.import_module("docs_linnkit")


def test_every_name_and_every_case_has_a_row(generator: ModuleType) -> None:
    page = generator.linnkit_page("")
    assert [name for name in NAMES.split() if f"\n| `{name}` | " not in page] == []
    features, cases = (
        page.partition(title)[2].partition("\n## ")[0] for title in ("## Features", "## Cases")
    )
    assert features.count("\n| ") == 1 + 21
    assert all(f"\n| {number} | " in cases for number in range(1, 72))


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"here": ["ostler.core.tool.Nothing"], "why_not": "x"}, "there is no ostler.core.tool.Nothing"),
        ({"here": ["ostler.core.function_tool.tool"]}, "name a test"),
        ({"here": ["ostler.core.function_tool.tool"], "why_not": "x"}, "name a test"),
        ({}, "name a test"),
        (
            {"by": ["tests/test_sdk.py::test_nothing_at_all"]},
            "there is no test tests/test_sdk.py::test_nothing",
        ),
        ({"by": ["tests/nothing.py::test_sdk"]}, "there is no test tests/nothing.py"),
    ],
)
def test_a_row_that_claims_what_is_not_there_is_refused(
    generator: ModuleType, entry: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(SystemExit, match=complaint):
        list(generator.name_table({"Something": entry}))
