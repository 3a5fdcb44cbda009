"""Hooks: what they may change, in which order, and what happens when they fail."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from ostler.core.function_tool import tool
from ostler.core.hooks import (
    Ask,
    ContextDraft,
    DraftMessage,
    FailedCall,
    FinishedCall,
    GiveUp,
    Hook,
    PlannedCall,
    Refuse,
    Replace,
    Retry,
    Rewrite,
    StepPlan,
    Suppress,
)
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import ServerFailed
from ostler.schema.messages import Text, ToolCall, as_content, user
from ostler.schema.outcomes import Ok, Question, ok
from ostler.schema.usage import Limits
from tests.support.running import add, run, started

SEEN: list[str] = []


@tool
async def say(word: str) -> str:
    """Says a word."""
    SEEN.append(word)
    return f"said {word}"


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


async def test_a_refused_call_does_not_run_and_the_model_gets_the_reason() -> None:
    hook = Hook("before_tool", lambda planned: Refuse("nope"))
    ran = await run([Call("say", {"word": "hi"}), "ok"], tools=[say], hooks=[hook])
    assert ran.results() == ["nope"]
    assert SEEN == []
    assert ran.all(events.ToolStarted) == []
    assert ran.all(events.RunEnded)[0].own.refused_calls == 1


async def test_a_refusal_without_a_reason_has_a_default_one() -> None:
    ran = await run(
        [Call("say", {"word": "hi"}), "ok"], tools=[say], hooks=[Hook("before_tool", lambda p: Refuse())]
    )
    assert ran.results() == ["The call was refused."]


async def test_rewritten_arguments_are_run_and_the_transcript_has_the_original_ones() -> None:
    hook = Hook("before_tool", lambda planned: Rewrite({"word": planned.arguments["word"].upper()}))
    ran = await run([Call("say", {"word": "hi"}), "ok"], tools=[say], hooks=[hook, hook])
    assert SEEN == ["HI"]
    assert ran.all(events.ToolStarted)[0].arguments == {"word": "HI"}
    assert ran.all(events.ToolCalled)[0].arguments == {"word": "hi"}
    assert ran.model.requests[1].transcript[1].calls[0].arguments == '{"word":"hi"}'


@pytest.mark.parametrize("rewritten", ["not an object", {"word": 17}, {"wrong": "name"}, None])
async def test_a_malformed_rewrite_refuses_the_call(rewritten: Any) -> None:
    hook = Hook("before_tool", lambda planned: Rewrite(rewritten))
    ran = await run([Call("say", {"word": "hi"}), "ok"], tools=[say], hooks=[hook])
    assert SEEN == []
    assert ran.all(events.ToolResultFact)[0].failed == "call_refused"


async def test_handlers_run_in_order_and_each_sees_the_previous_decision() -> None:
    def add(letter: str) -> Hook:
        return Hook("before_tool", lambda planned: Rewrite({"word": planned.arguments["word"] + letter}))

    await run([Call("say", {"word": "x"}), "ok"], tools=[say], hooks=[add("a"), add("b"), add("c")])
    assert SEEN == ["xabc"]


async def test_the_first_refusal_wins_and_the_permission_hook_sees_the_rewritten_call() -> None:
    judged: list[Any] = []

    def permission(planned: PlannedCall) -> Refuse:
        judged.append(planned.arguments)
        return Refuse("not permitted")

    rewrite = Hook("before_tool", lambda planned: Rewrite({"word": "changed"}))
    guard = Hook("before_tool", permission, guard=True, name="permission")
    ran = await run([Call("say", {"word": "x"}), "ok"], tools=[say], hooks=[rewrite], permission_hook=guard)
    assert judged == [{"word": "changed"}]
    assert ran.results() == ["not permitted"]


async def test_a_handler_that_raises_is_reported_and_skipped_but_a_guard_fails_closed() -> None:
    def broken(planned: PlannedCall) -> None:
        raise RuntimeError("a bug")

    ran = await run(
        [Call("say", {"word": "x"}), "ok"], tools=[say], hooks=[Hook("before_tool", broken, name="b")]
    )
    assert SEEN == ["x"]
    assert "a bug" in ran.all(events.Warned)[0].text
    guard = Hook("before_tool", broken, guard=True, name="b")
    ran = await run([Call("say", {"word": "y"}), "ok"], tools=[say], hooks=[guard])
    assert SEEN == ["x"]
    assert ran.all(events.ToolResultFact)[0].failed == "call_refused"


def broken(subject: Any) -> Any:
    raise RuntimeError("a bug")


async def test_a_result_is_withheld_if_a_guard_fails() -> None:
    guard = Hook("after_tool", broken, guard=True, name="redactor")
    ran = await run([Call("say", {"word": "s3cret"}), "ok"], tools=[say], hooks=[guard])
    (result,) = ran.all(events.ToolResultFact)
    assert result.failed == "call_refused"
    assert "s3cret" not in ran.results()[0] and "redactor" in ran.results()[0]
    ran = await run(
        [Call("say", {"word": "hi"}), "ok"], tools=[say], hooks=[Hook("after_tool", broken, name="redactor")]
    )
    assert ran.results() == ["said hi"]


async def test_a_context_is_not_sent_if_a_guard_fails() -> None:
    ran = await run(["ok"], hooks=[Hook("context", broken, guard=True, name="filter")])
    assert (ran.all(events.RunEnded)[0].status, ran.model.requests) == ("refused", [])
    assert "filter" in ran.all(events.RunEnded)[0].reason
    ran = await run(["ok"], hooks=[Hook("context", broken, name="filter")])
    assert ran.all(events.RunEnded)[0].status == "completed"


async def test_a_failure_is_not_retried_if_a_guard_fails() -> None:
    script = [ServerFailed("busy"), "ok"]
    ran = await run(script, hooks=[Hook("after_failure", broken, guard=True)])
    assert (ran.all(events.RunEnded)[0].status, len(ran.model.requests)) == ("failed", 1)


async def test_a_handler_that_hangs_is_skipped_after_its_time() -> None:
    async def hang(planned: PlannedCall) -> None:
        await asyncio.Event().wait()

    ran = await run(
        [Call("say", {"word": "x"}), "ok"], tools=[say], hooks=[Hook("before_tool", hang, time_limit=0.02)]
    )
    assert SEEN == ["x"]
    assert "longer than" in ran.all(events.Warned)[0].text


async def test_a_refused_step_ends_the_run_without_a_model_call() -> None:
    ran = await run(["never"], hooks=[Hook("before_step", lambda plan: Refuse("too late today"))])
    assert ran.status == "refused"
    assert ran.model.requests == []
    assert [t for t in ran.types if t.startswith("step") or t == "run_ended"] == [
        "step_started",
        "step_ended",
        "run_ended",
    ]
    assert ran.all(events.StepEnded)[0].refused == "too late today"


async def test_a_step_may_get_another_model_and_fewer_tools() -> None:
    other = ScriptedModel(["from the other"], name="scripted/other")

    def change(plan: StepPlan) -> StepPlan:
        return msgspec.structs.replace(plan, model=other, tools=(), tool_choice="none")

    ran = await run(["never"], tools=[say], hooks=[Hook("before_step", change)])
    assert ran.model.requests == []
    assert other.requests[0].tools == ()
    assert other.requests[0].tool_choice == "none"
    assert ran.all(events.ModelCalled)[0].model == "scripted/other"


async def test_the_context_of_one_call_may_be_changed_without_changing_history() -> None:
    def shorten(draft: ContextDraft) -> ContextDraft:
        return ContextDraft("another system", (*draft.messages[-1:], user("and be brief")))

    ran = await run(["ok"], hooks=[Hook("context", shorten)])
    request = ran.model.requests[0]
    assert request.system == "another system"
    assert [m.text for m in request.transcript] == ["go", "and be brief"]
    assert [m.text for m in ran.session.state.transcript] == ["go", "ok"]


async def test_a_result_may_be_rewritten_before_the_model_sees_it() -> None:
    def redact(finished: FinishedCall) -> FinishedCall:
        return msgspec.structs.replace(finished, content=(Text("[redacted]"),))

    ran = await run([Call("say", {"word": "x"}), "ok"], tools=[say], hooks=[Hook("after_tool", redact)])
    assert ran.results() == ["[redacted]"]


async def test_a_suppressed_message_is_stored_and_sent_but_not_shown() -> None:
    ran = await run(
        [Turn("secret", (Call("say", {"word": "x"}),)), "end"],
        tools=[say],
        hooks=[Hook("before_message", lambda draft: Suppress("private") if draft.text == "secret" else None)],
    )
    message = ran.all(events.AssistantMessage)[0]
    assert message.suppressed
    assert "".join(delta.text for delta in ran.all(events.TextDelta)) == "end"
    assert SEEN == ["x"]
    assert ran.model.requests[1].transcript[1].text == "secret"


async def test_a_replaced_message_is_shown_and_the_model_gets_the_original() -> None:
    class Interleaved(ScriptedModel):
        async def stream(self, request):  # type: ignore[no-untyped-def]
            async for batch in super().stream(request):
                done = batch[0]
                if hasattr(done, "content") and len(self.requests) == 1:
                    call = next(block for block in done.content if isinstance(block, ToolCall))
                    content = (Text("one"), call, Text("two"))
                    batch = [msgspec.structs.replace(done, content=content)]
                yield batch

    def change(draft: DraftMessage) -> Replace | None:
        return Replace("shown") if draft.text == "one\ntwo" else None

    model = Interleaved([Turn("one", (Call("say", {"word": "x"}),)), "end"])
    ran = await run(model, tools=[say], hooks=[Hook("before_message", change)])
    message = ran.all(events.AssistantMessage)[0]
    assert [type(block) for block in message.shown] == [Text, ToolCall]
    assert message.shown[0].text == "shown"
    assert [type(block) for block in message.content] == [Text, ToolCall, Text]
    assert [delta.text for delta in ran.all(events.TextDelta)] == ["shown", "end"]


async def test_text_deltas_wait_for_the_hook_and_tool_input_does_not() -> None:
    order: list[str] = []

    def watch(draft: DraftMessage) -> None:
        order.append("decided")

    ran = await started(
        [Turn("thinking", (Call("say", {"word": "x"}),)), "end"],
        tools=[say],
        hooks=[Hook("before_message", watch)],
    )
    ran.session.subscribe(lambda batch: order.extend(item.type for item in batch))
    await ran.session.prompt(as_content("go"))
    assert order.index("tool_input_delta") < order.index("decided") < order.index("text_delta")


async def test_a_hook_may_retry_with_another_model_or_give_up() -> None:
    other = ScriptedModel(["rescued"], name="scripted/other")
    hook = Hook("after_failure", lambda failed: Retry(model=other))
    ran = await run([ServerFailed("oops", status=500)], hooks=[hook])
    assert ran.status == "completed"
    assert [m.model for m in ran.all(events.ModelCalled)] == ["scripted/model", "scripted/other"]
    assert ran.types.count("user_message") == 1

    def give_up(failed: FailedCall) -> GiveUp:
        return GiveUp()

    from ostler.schema.errors import ConnectionFailed

    ran = await run([ConnectionFailed("refused"), "never"], hooks=[Hook("after_failure", give_up)])
    assert ran.status == "failed"


# --- questions -----------------------------------------------------------------------------------------

ASKS = Hook("before_tool", lambda planned: Ask(Question("May I?", kind="permission")), name="asks")


async def test_a_question_without_an_asker_is_refused_at_once() -> None:
    ran = await run([Call("say", {"word": "x"}), "ok"], tools=[say], hooks=[ASKS])
    assert SEEN == []
    assert ran.all(events.QuestionAsked) == []
    assert ran.all(events.ToolResultFact)[0].failed == "call_refused"


@pytest.mark.parametrize(("answer", "words"), [("yes", ["x"]), ("no", [])])
async def test_the_asker_decides(answer: str, words: list[str]) -> None:
    async def decide(asked: events.QuestionAsked) -> str:
        assert asked.question.text == "May I?"
        return answer

    ran = await run([Call("say", {"word": "x"}), "ok"], tools=[say], hooks=[ASKS], asker=decide)
    assert words == SEEN
    order = [
        t for t in ran.types if t in ("tool_called", "question_asked", "question_answered", "tool_started")
    ]
    assert order == [
        "tool_called",
        "question_asked",
        "question_answered",
        *(["tool_started"] if words else []),
    ]
    assert ran.status == "completed"


async def test_a_question_stops_only_its_own_call() -> None:
    ask_about_x = Hook(
        "before_tool",
        lambda p: Ask(Question("x?", kind="permission")) if p.arguments["word"] == "x" else None,
    )
    ran = await run(
        [[Call("say", {"word": "x"}), Call("say", {"word": "y"})], "ok"],
        tools=[say],
        hooks=[ask_about_x],
        wait_for_answers=True,
    )
    assert SEEN == ["y"]
    assert isinstance(ran.quiet, events.RunWaiting)
    assert ran.types[-1] == "run_waiting"


async def test_a_waiting_run_continues_with_the_answer_and_the_approved_arguments() -> None:
    from ostler.schema.requests import Answer

    rewrite = Hook("before_tool", lambda planned: Rewrite({"word": "judged"}))
    ran = await run(
        [Call("say", {"word": "x"}), "ok"], tools=[say], hooks=[rewrite, ASKS], wait_for_answers=True
    )
    waiting = ran.quiet
    assert isinstance(waiting, events.RunWaiting)
    store = ran.session.journal.store
    await store.submit(ran.session.id, Answer(id="r1", question=waiting.questions[0], answer="yes"))
    ran.quiet = await ran.session.advance()
    assert ran.status == "completed"
    assert SEEN == ["judged"]
    assert await store.settlement(ran.session.id, "r1") is not None
    assert ran.types.count("run_waiting") == ran.types.count("run_resumed") == 1


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
