"""The loop: what happens in which order, and how a run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.tool import MODEL_LIMIT, ToolContext
from ostler.models.scripted import Call, Turn
from ostler.schema import events
from ostler.schema.errors import AuthenticationFailed, ConnectionFailed, Failure, ServerFailed
from ostler.schema.messages import Text, ToolCall, ToolResult, as_content, user
from ostler.schema.outcomes import Ok, ok
from ostler.schema.usage import Limits, Usage
from tests.support.running import run, started


@tool(kind="read", parallel=True)
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
async def fail() -> str:
    """Fails."""
    raise ValueError("no such luck")


async def test_a_run_of_two_steps_records_its_facts_in_order() -> None:
    ran = await run([Turn("let me add", (Call("add", {"a": 1, "b": 2}),), piece=100), "three"], tools=[add])
    assert ran.types == [
        "run_started",
        "user_message",
        "step_started",
        "model_called",
        "text_delta",
        "tool_input_started",
        "tool_input_delta",
        "tool_input_ended",
        "usage",
        "assistant_message",
        "tool_called",
        "tool_started",
        "tool_result",
        "step_ended",
        "step_started",
        "model_called",
        "text_delta",
        "usage",
        "assistant_message",
        "step_ended",
        "run_ended",
    ]
    assert ran.status == "completed"
    assert [fact.seq for fact in ran.facts] == list(range(2, 2 + len(ran.facts)))


async def test_facts_of_the_same_moment_are_one_append() -> None:
    batches: list[list[str]] = []
    ran = await started([Call("add", {"a": 1, "b": 2}), "three"], tools=[add])
    ran.session.subscribe(lambda batch: batches.append([item.type for item in batch]))
    await ran.session.prompt(as_content("go"))
    facts = [batch for batch in batches if "delta" not in batch[0] and "tool_input" not in batch[0]]
    assert facts == [
        ["run_started", "user_message", "step_started", "model_called"],
        ["usage", "assistant_message", "tool_called", "tool_started"],
        ["tool_result", "step_ended", "step_started", "model_called"],
        ["usage", "assistant_message", "step_ended", "run_ended"],
    ]


async def test_results_are_sent_in_call_order_and_recorded_as_they_finish() -> None:
    first_may_end = asyncio.Event()

    @tool(parallel=True)
    async def slow() -> str:
        """Waits for the other."""
        await first_may_end.wait()
        return "slow"

    @tool(parallel=True)
    async def quick() -> str:
        """Does not."""
        first_may_end.set()
        return "quick"

    ran = await run([[Call("slow"), Call("quick")], "done"], tools=[slow, quick])
    assert ran.results() == ["quick", "slow"]
    message = ran.model.requests[1].transcript[2]
    assert message.role == "tool"
    assert [block.name for block in message.content if isinstance(block, ToolResult)] == ["slow", "quick"]


async def test_tools_that_are_not_parallel_run_alone() -> None:
    running = 0
    most = 0

    @tool
    async def alone() -> str:
        """Counts."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return "ok"

    await run([[Call("alone"), Call("alone"), Call("alone")], "done"], tools=[alone])
    assert most == 1


async def test_the_model_gets_a_tools_exception_and_the_run_continues() -> None:
    ran = await run([Call("fail"), "I see"], tools=[fail])
    assert ran.results() == ["ValueError: no such luck"]
    assert ran.all(events.ToolResultFact)[0].failed == "tool_failed"
    assert ran.status == "completed"


async def test_a_tool_that_exits_the_process_is_only_a_failed_call() -> None:
    @tool
    async def leave() -> str:
        """Leaves."""
        raise SystemExit(3)

    ran = await run([Call("leave"), "still here"], tools=[leave])
    assert "tried to exit" in ran.results()[0]
    assert ran.status == "completed"


async def test_an_unknown_tool_is_named_in_its_result() -> None:
    ran = await run([Call("nope"), "ok"], tools=[add])
    assert 'unknown tool "nope"' in ran.results()[0]
    assert ran.all(events.ToolStarted) == []


@pytest.mark.parametrize("raw", ['{"a": 1', "[1]", "17", '"x"'])
async def test_malformed_arguments_are_refused_and_never_repaired(raw: str) -> None:
    ran = await run([Call("add", raw=raw), "sorry"], tools=[add])
    assert ran.all(events.ToolResultFact)[0].failed == "invalid_arguments"
    assert ran.all(events.ToolStarted) == []
    assert ran.all(events.ToolCalled)[0].malformed
    assert ran.status == "completed"


async def test_the_result_names_the_invalid_argument() -> None:
    ran = await run([[Call("add", {"a": 1}), Call("add", {"a": 1, "b": 2, "c": 3})], "ok"], tools=[add])
    assert "b is missing" in ran.results()[0]
    assert "'c'" in ran.results()[1]


async def test_empty_arguments_are_an_empty_object() -> None:
    seen = []

    @tool
    async def note(word: str = "none") -> str:
        """Notes."""
        seen.append(word)
        return "noted"

    await run([Call("note", raw=""), "ok"], tools=[note])
    assert seen == ["none"]


async def test_max_steps_ends_the_run_with_limit() -> None:
    script = [Call("add", {"a": number, "b": 1}) for number in range(9)]
    ran = await run(script, tools=[add], limits=Limits(steps=2))
    assert ran.status == "limit"
    assert len(ran.model.requests) == 2
    assert ran.types.count("run_ended") == 1


async def test_repeated_calls_get_a_reminder_and_then_end_the_run() -> None:
    ran = await run([Call("add", {"a": 1, "b": 1}) for _ in range(9)], tools=[add])
    assert ran.status == "limit"
    assert len(ran.model.requests) == 5
    reminders = [e for e in ran.all(events.UserMessage) if e.source == "reminder"]
    assert len(reminders) == 1
    assert reminders[0].hidden
    assert ran.model.requests[3].transcript[-1].role == "user"


async def test_repetition_ends_when_the_result_changes() -> None:
    count = iter(range(100))

    @tool
    async def poll() -> str:
        """Counts."""
        return str(next(count))

    ran = await run([*[Call("poll") for _ in range(8)], "done"], tools=[poll])
    assert ran.status == "completed"


async def test_a_run_can_continue_without_a_new_message() -> None:
    ran = await run(["first", "second"])
    ran.quiet = await ran.session.continue_()
    assert ran.status == "completed"
    assert [m.role for m in ran.model.requests[1].transcript] == ["user", "assistant"]
    assert ran.all(events.RunStarted)[1].continues


async def test_cumulative_usage_starts_from_the_replaced_history() -> None:
    ran = await started(["hi"])
    await ran.session.replace_history(
        (user("before"),), Usage(input_tokens=1000, output_tokens=500, cost=1.0)
    )
    await ran.session.prompt(as_content("go"))
    reported = ran.all(events.UsageReported)[0]
    assert (reported.usage.input_tokens, reported.cumulative.input_tokens) == (10, 1010)
    assert [m.text for m in ran.model.requests[0].transcript] == ["before", "go"]


async def test_a_tool_may_end_the_run() -> None:
    @tool
    async def finish() -> object:
        """Ends the run."""
        return ok("all done").__class__(content=(Text("all done"),), ends_run=True)

    ran = await run([Call("finish"), "never said"], tools=[finish])
    assert ran.status == "completed"
    assert len(ran.model.requests) == 1


# --- failures of the model ---------------------------------------------------------------------------


async def test_a_failed_connection_is_tried_three_times() -> None:
    ran = await run([ConnectionFailed("refused"), ConnectionFailed("refused"), "at last"])
    assert ran.status == "completed"
    assert [f.attempt for f in ran.all(events.ModelCalled)] == [1, 2, 3]
    assert all(f.retry_in is not None for f in ran.all(events.ModelFailed))
    assert ran.types.count("usage") == 3


async def test_a_server_error_is_not_retried() -> None:
    ran = await run([ServerFailed("oops", status=500), "never"])
    assert ran.status == "failed"
    assert ran.all(events.RunEnded)[0].failure.kind == "server_failed"
    assert len(ran.model.requests) == 1


async def test_a_rate_limit_with_a_time_waits_that_long_and_without_one_fails() -> None:
    waited = Failure("rate_limited", "slow down", status=429, retry_after=0.001)
    ran = await run([Turn(failure=waited), "ok"])
    assert ran.status == "completed"
    assert ran.all(events.ModelFailed)[0].retry_in == 0.001
    ran = await run([Turn(failure=Failure("rate_limited", "slow down", status=429)), "never"])
    assert ran.status == "failed"
    ran = await run([Turn(failure=Failure("rate_limited", "slow", status=429, retry_after=31)), "never"])
    assert ran.status == "failed"


async def test_a_stream_that_breaks_is_a_failure_with_its_partial_text() -> None:
    ran = await run([Turn("half an ans", failure=Failure("stream_broken", "cut", stream_opened=True))])
    assert ran.status == "failed"
    failed = ran.all(events.ModelFailed)[0]
    assert failed.partial == (Text("half an ans"),)
    assert [m.role for m in ran.session.state.transcript] == ["user"]


async def test_a_broken_stream_leaves_a_transcript_that_can_be_sent() -> None:
    cut = Turn("hm", (Call("add", raw='{"a"'),), failure=Failure("stream_broken", "cut", stream_opened=True))
    ran = await run([cut, "better"], tools=[add])
    assert ran.status == "failed"
    ran.quiet = await ran.session.prompt(as_content("again"))
    assert ran.status == "completed"


async def test_an_answer_cut_by_its_limit_with_half_a_call_stays_sendable() -> None:
    ran = await run([Turn("", (Call("add", raw='{"a": 1'),), stop_reason="length"), "sorry"], tools=[add])
    assert ran.status == "completed"
    assert "output limit" in ran.results()[0]


async def test_silence_is_a_failure() -> None:
    ran = await run([Turn("well…", hangs=True)], silence_limit=0.05)
    assert ran.status == "failed"
    assert ran.all(events.ModelFailed)[0].failure.kind == "stream_silent"


async def test_a_wire_that_raises_is_a_failure() -> None:
    class Crashing:
        name = "crashing/model"

        async def stream(self, request):  # type: ignore[no-untyped-def]
            yield []
            raise KeyError("a bug")

    ran = await started([])
    ran.session.harness.model = Crashing()
    ran.quiet = await ran.session.prompt(as_content("go"))
    assert ran.status == "failed"
    assert "KeyError" in ran.all(events.RunEnded)[0].reason


async def test_a_model_that_refuses_ends_the_run_refused() -> None:
    ran = await run([Turn("I would rather not", stop_reason="refusal")])
    assert ran.status == "refused"


async def test_calls_with_an_id_that_was_used_before_get_one_of_their_own() -> None:
    again = Call("add", {"a": 1, "b": 1}, id="call_0")
    ran = await run([again, Call("add", {"a": 2, "b": 1}, id="call_0"), "ok"], tools=[add])
    ids = [e.call for e in ran.all(events.ToolCalled)]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 2
    assert [c.id for m in ran.session.state.transcript for c in m.content if isinstance(c, ToolCall)] == ids


# --- observers -----------------------------------------------------------------------------------------


async def test_a_subscriber_that_raises_is_removed_and_the_run_continues() -> None:
    ran = await started(["hi"])

    def broken(batch: object) -> None:
        raise RuntimeError("cannot see")

    ran.session.subscribe(broken)
    ran.quiet = await ran.session.prompt(as_content("go"))
    assert ran.status == "completed"
    assert "cannot see" in ran.all(events.Warned)[0].text


# --- output ------------------------------------------------------------------------------------------------


async def test_output_is_published_with_offsets_and_stored_if_the_result_is_shorter() -> None:
    @tool
    async def chatter(context: ToolContext) -> str:
        """Talks."""
        for number in range(3):
            context.output(f"line {number}\n")
        return "quiet"

    ran = await run([Call("chatter"), "ok"], tools=[chatter])
    outputs = ran.all(events.ToolOutput)
    assert [o.offset for o in outputs] == [0, 7, 14]
    result = ran.all(events.ToolResultFact)[0]
    assert result.output is not None
    assert (
        await ran.session.journal.store.read_blob(ran.session.id, result.output.id)
        == b"line 0\nline 1\nline 2\n"
    )


async def test_a_long_result_is_cut_for_the_model_and_stored_whole() -> None:
    @tool
    async def flood() -> str:
        """Floods."""
        return "a" * 100_000 + "the end"

    ran = await run([Call("flood"), "ok"], tools=[flood])
    result = ran.all(events.ToolResultFact)[0]
    assert len(ran.results()[0]) < 60_000
    assert ran.results()[0].endswith("the end")
    assert result.output.size == 100_007
    assert f"blob:{result.output.id}" in ran.results()[0]


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


async def test_if_one_call_of_a_step_fails_the_others_still_run() -> None:
    @tool
    async def broken() -> str:
        raise ValueError("no")

    ran = await run([[Call("broken"), Call("add", {"a": 1, "b": 1})], "ok"], tools=[broken, add])
    assert ran.results() == ["ValueError: no", "2"]
    assert len(ran.model.requests) == 2 and ran.status == "completed"


async def test_every_call_has_a_result_after_a_tool_ended_the_run() -> None:
    @tool
    async def finish() -> Ok:
        return ok("all done", ends_run=True)

    ran = await run([[Call("finish"), Call("add", {"a": 1, "b": 1})], "never"], tools=[finish, add])
    assert ran.status == "completed" and len(ran.model.requests) == 1
    assert ran.results() == ["all done", "Not run: finish ended the run."]


async def test_an_authentication_error_is_not_retried() -> None:
    ran = await run([AuthenticationFailed("the key is wrong", status=401), "never"])
    assert ran.status == "failed" and len(ran.model.requests) == 1
    assert ran.types.count("model_failed") == ran.types.count("run_ended") == 1


@pytest.mark.parametrize("trouble", ["model", "tool", "cancelled"])
async def test_every_span_ends_even_if_its_work_fails(trouble: str) -> None:
    open_spans: list[str] = []
    spans: list[str] = []

    @contextmanager
    def span(name: str, about: dict[str, Any]) -> Iterator[None]:
        spans.append(name)
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
    assert spans[:2] == ["run", "model_call"] and ("tool_call" in spans) == (trouble != "model")


async def test_tags_and_limits_of_a_run_do_not_change() -> None:
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
    fact = next(fact for fact in ran.facts if fact.type == "run_started")
    assert b'"limits":{"steps":3}' in fact.body and b'"customer":7' in fact.body
