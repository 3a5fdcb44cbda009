"""Tools, hooks and wires are foreign code: whatever they do, the run ends and its log is readable."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from ostler.core.function_tool import tool
from ostler.core.hooks import Ask, ContextDraft, Hook, Hooks, Refuse, Replace, Retry, StepPlan
from ostler.core.model import ModelDone
from ostler.core.tool import ToolContext
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import ServerFailed, UsageError
from ostler.schema.messages import Text, as_content
from ostler.schema.outcomes import Ok, Pending, Question, ok
from tests.support.running import run, started


@tool
async def say(word: str = "x") -> str:
    """Says a word."""
    return word


def tool_that_returns(value: Any) -> Any:
    @tool
    async def odd() -> Any:
        """Returns something odd."""
        return value

    return odd


@pytest.mark.parametrize(
    "value",
    [
        ok("x", details={"a": object()}),
        Ok(("a string is no block",)),  # type: ignore[arg-type]
        Ok("no tuple"),  # type: ignore[arg-type]
        Pending(handle=object()),  # type: ignore[arg-type]
        {"set": {1, 2}, "key": object()},
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_result_that_cannot_be_stored_is_a_failed_call(value: Any) -> None:
    ran = await run([Call("odd"), "ok"], tools=[tool_that_returns(value)])
    assert ran.all(events.ToolResultFact)[0].failed == "tool_failed"
    assert ran.status == "completed"


async def test_lone_surrogates_are_replaced() -> None:
    ran = await run([Call("odd"), "ok"], tools=[tool_that_returns("caf\udce9 \ud83d\ude00")])
    assert ran.results() == ["caf\ufffd 😀"]


@pytest.mark.parametrize(
    "error", [GeneratorExit(), SystemExit(1), asyncio.CancelledError(), RecursionError()]
)
async def test_any_exception_of_a_tool_is_a_result(error: BaseException) -> None:
    @tool
    async def crash() -> str:
        """Crashes."""
        raise error

    ran = await run([Call("crash"), "ok"], tools=[crash])
    assert ran.all(events.ToolResultFact)[0].failed is not None
    assert ran.status == "completed"


async def test_a_plain_function_may_print_raise_stop_iteration_and_hang() -> None:
    let_go = threading.Event()

    @tool
    def chat(context: ToolContext) -> str:
        """Prints from its thread."""
        context.output("from a thread\n")
        return "done"

    @tool
    def stop() -> str:
        """Raises what a future cannot hold."""
        raise StopIteration

    @tool(timeout=0.05)
    def hang() -> str:
        """Hangs."""
        let_go.wait(30)
        return "late"

    ran = await run([[Call("chat"), Call("stop"), Call("hang")], "ok"], tools=[chat, stop, hang])
    let_go.set()
    assert [o.text for o in ran.all(events.ToolOutput)] == ["from a thread\n"]
    assert [r.failed for r in ran.all(events.ToolResultFact)] == [None, "tool_failed", "tool_timed_out"]
    assert ran.status == "completed"


BAD_DECISIONS = [
    ("before_tool", False),
    ("before_tool", "no"),
    ("before_tool", Refuse),
    ("before_tool", Refuse(object())),  # type: ignore[arg-type]
    ("before_tool", Ask(None)),  # type: ignore[arg-type]
    ("before_tool", Replace("wrong point")),
    ("before_step", StepPlan(1, None, ())),  # type: ignore[arg-type]
    ("before_step", StepPlan(1, ScriptedModel(), None)),  # type: ignore[arg-type]
    ("context", ContextDraft(5, ())),  # type: ignore[arg-type]
    ("context", ContextDraft("", ("text",))),  # type: ignore[arg-type]
    ("after_tool", "oops"),
    ("before_message", Replace(5)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("point", "decision"), BAD_DECISIONS, ids=lambda value: type(value).__name__)
async def test_an_invalid_decision_is_reported_and_ignored(point: Any, decision: Any) -> None:
    ran = await run([Call("say"), "ok"], tools=[say], hooks=[Hook(point, lambda subject: decision)])
    assert ran.all(events.Warned)
    assert ran.results() == ["x"]
    assert ran.status == "completed"


@pytest.mark.parametrize("decision", [False, "no", Refuse, Ask(None)])  # type: ignore[arg-type]
async def test_an_invalid_decision_of_a_guard_refuses(decision: Any) -> None:
    guard = Hook("before_tool", lambda planned: decision, guard=True, name="guard")
    ran = await run([Call("say"), "ok"], tools=[say], hooks=[guard])
    assert ran.all(events.ToolStarted) == []
    assert ran.all(events.ToolResultFact)[0].failed == "call_refused"


async def test_an_invalid_retry_is_ignored() -> None:
    ran = await run(
        [ServerFailed("oops", status=500)], hooks=[Hook("after_failure", lambda f: Retry("soon"))]
    )  # type: ignore[arg-type]
    assert ran.status == "failed"


def test_a_hook_needs_a_point_that_exists() -> None:
    with pytest.raises(UsageError, match="before_tool"):
        Hooks([Hook("before_tol", lambda planned: None)])  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), GeneratorExit()])
async def test_any_exception_of_a_handler_is_reported(error: BaseException) -> None:
    async def crash(planned: object) -> None:
        raise error

    def crash_at_once(planned: object) -> None:
        raise error

    hooks = [Hook("before_tool", crash), Hook("before_tool", crash_at_once)]
    ran = await run([Call("say"), "ok"], tools=[say], hooks=hooks)
    assert len(ran.all(events.Warned)) == len(hooks)
    assert ran.status == "completed"


async def test_a_handler_that_ignores_its_cancellation_is_abandoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ostler.core.cancellation.GRACE", 0.02)
    let_go = asyncio.Event()

    async def stubborn(planned: object) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    hook = Hook("before_tool", stubborn, time_limit=0.02)
    ran = await run([Call("say"), "ok"], tools=[say], hooks=[hook])
    let_go.set()
    await asyncio.sleep(0)
    assert ran.status == "completed"


class OddWire(ScriptedModel):
    """A wire whose last event is not what it promises."""

    def __init__(self, change: dict[str, Any] | BaseException) -> None:
        super().__init__(["hello"])
        self._change = change

    async def stream(self, request):  # type: ignore[no-untyped-def]
        async for batch in super().stream(request):
            if isinstance(batch[0], ModelDone):
                if isinstance(self._change, BaseException):
                    raise self._change
                batch = [msgspec.structs.replace(batch[0], **self._change)]
            yield batch


@pytest.mark.parametrize(
    "change",
    [
        {"usage": None},
        {"content": (Text(5),)},  # type: ignore[arg-type]
        {"stop_reason": "whim"},
        asyncio.CancelledError(),
        TimeoutError("mine"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_an_answer_that_cannot_be_stored_is_a_failure(change: Any) -> None:
    ran = await run(OddWire(change))
    assert ran.status == "failed"
    assert ran.all(events.ModelFailed)[0].failure.kind == "stream_broken"


@pytest.mark.parametrize("prompt", [b"bytes", [1, 2], "half \ud83d"])
async def test_a_prompt_that_cannot_be_stored_is_refused(prompt: Any) -> None:
    ran = await started(["never"])
    with pytest.raises(UsageError, match="cannot be stored"):
        await ran.session.prompt(as_content(prompt))
    assert ran.model.requests == []


async def test_a_run_whose_caller_is_cancelled_gets_its_end() -> None:
    ran = await started([Turn("well…", hangs=True), "next"])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ran.session.prompt(as_content("go")), 0.05)
    assert ran.types[-1] == "run_ended"
    ran.quiet = await ran.session.prompt(as_content("again"))
    assert ran.status == "completed"


async def test_a_model_for_one_step_is_for_that_step_only() -> None:
    other = ScriptedModel([Call("say")], name="scripted/other")

    def once(plan: StepPlan) -> StepPlan | None:
        return msgspec.structs.replace(plan, model=other) if plan.number == 1 else None

    ran = await run(["from the first"], tools=[say], hooks=[Hook("before_step", once)])
    assert [m.model for m in ran.all(events.ModelCalled)] == ["scripted/other", "scripted/model"]


async def test_a_tool_that_was_not_offered_does_not_run() -> None:
    def none(plan: StepPlan) -> StepPlan:
        return msgspec.structs.replace(plan, tools=())

    ran = await run([Call("say"), "ok"], tools=[say], hooks=[Hook("before_step", none)])
    assert ran.all(events.ToolResultFact)[0].failed == "unknown_tool"


async def test_a_cancelled_answer_passes_the_hook_before_it_is_shown() -> None:
    from ostler.core.hooks import Suppress

    ran = await started(
        [Turn("half a secret", hangs=True)], hooks=[Hook("before_message", lambda draft: Suppress())]
    )
    running = asyncio.ensure_future(ran.session.prompt(as_content("go")))
    async for facts in ran.session.journal.store.follow(ran.session.id):
        if any(fact.type == "model_called" for fact in facts):
            break
    for _ in range(10):
        await asyncio.sleep(0)
    ran.session.cancel("enough")
    ran.quiet = await asyncio.wait_for(running, 60)
    assert ran.all(events.AssistantMessage)[0].suppressed
    assert ran.all(events.TextDelta) == []


async def test_a_cancelled_question_is_withdrawn_and_its_time_does_not_count() -> None:
    asked = asyncio.Event()

    async def never_answer(question: events.QuestionAsked) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    @tool(timeout=0.05)
    async def inquire(context: ToolContext) -> str:
        """Asks."""
        return str(await context.ask(Question("Well?")))

    ran = await started([Call("inquire")], tools=[inquire], asker=never_answer)
    running = asyncio.ensure_future(ran.session.prompt(as_content("go")))
    await asyncio.wait_for(asked.wait(), 60)
    done, _ = await asyncio.wait({running}, timeout=0.2)
    assert not done, "the tool's time ran out while the user was asked"
    ran.session.cancel("enough")
    ran.quiet = await asyncio.wait_for(running, 60)
    assert ran.all(events.QuestionAnswered)[0].outcome == "withdrawn"
    assert ran.status == "cancelled"


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), GeneratorExit(), RuntimeError()])
async def test_any_exception_of_a_wire_is_a_failure(error: BaseException) -> None:
    class Crashing(ScriptedModel):
        def stream(self, request: Any) -> Any:
            raise error

    ran = await run(Crashing())
    assert ran.status == "failed"
    assert [failed.failure.kind for failed in ran.all(events.ModelFailed)] == ["stream_broken"]
