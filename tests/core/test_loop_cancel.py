"""Cancelling a run: what stays in the log, and with which outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.hooks import FailedCall, Hook, Retry
from ostler.core.tool import ToolContext
from ostler.models.scripted import Call, Turn
from ostler.schema import events
from ostler.schema.errors import ConnectionFailed, Failure
from ostler.schema.messages import Text, as_content
from ostler.schema.requests import Cancel, Continue, Prompt, Rename, Steer
from tests.support.running import Ran, add, run, started


async def cancel_when(ran: Ran, event: type[events.Event]) -> None:
    """Cancels the run at the first such event."""

    def watch(batch: object) -> None:
        items = [getattr(item, "event", item) for item in batch]  # type: ignore[attr-defined]
        if any(isinstance(item, event) for item in items):
            stop()
            ran.session.cancel("enough")

    stop = ran.session.subscribe(watch)
    ran.quiet = await asyncio.wait_for(ran.session.prompt(as_content("go")), 60)


async def test_a_cancelled_run_keeps_its_text() -> None:
    ran = await started([Turn("half a thought", hangs=True, piece=100), "next"])
    await cancel_when(ran, events.TextDelta)
    assert ran.status == "cancelled"
    message = ran.all(events.AssistantMessage)[0]
    assert message.content == (Text("half a thought"),)
    assert message.stop_reason == "cancelled"
    ran.quiet = await ran.session.prompt(as_content("go on"))
    assert ran.status == "completed"
    assert [m.text for m in ran.model.requests[1].transcript] == ["go", "half a thought", "go on"]


async def test_a_complete_answer_is_kept_when_the_run_is_cancelled() -> None:
    ran = await started([Turn("a whole thought", piece=100)])
    await cancel_when(ran, events.TextDelta)
    assert ran.status == "cancelled"
    assert ran.all(events.AssistantMessage)[0].content == (Text("a whole thought"),)


async def test_an_unfinished_call_is_dropped_when_the_run_is_cancelled() -> None:
    ran = await started([Turn("", (Call("x", {"a": 1}),), hangs=True), "next"])
    await cancel_when(ran, events.ToolInputDelta)
    assert ran.status == "cancelled"
    assert ran.all(events.ToolCalled) == []
    ran.quiet = await ran.session.prompt(as_content("go on"))
    assert ran.status == "completed"


async def test_all_calls_have_a_result_when_the_second_of_three_is_cancelled() -> None:
    @tool
    async def quick() -> str:
        """Ends."""
        return "done"

    @tool
    async def endless(context: ToolContext) -> str:
        """Does not."""
        context.output("so far\n")
        await asyncio.Event().wait()
        return "never"

    ran = await started([[Call("quick"), Call("endless"), Call("quick")], "never"], tools=[quick, endless])
    await cancel_when(ran, events.ToolOutput)
    assert ran.status == "cancelled"
    results = ran.all(events.ToolResultFact)
    assert [r.failed for r in results] == [None, "tool_cancelled", "tool_cancelled"]
    assert "so far" in ran.results()[1]
    assert results[1].summary.startswith("Cancelled"), "not how long its output was"
    assert ran.types[-2:] == ["step_ended", "run_ended"]


async def test_a_tool_that_ignores_its_cancellation_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ostler.core.cancellation.GRACE", 0.05)
    let_go = asyncio.Event()

    @tool
    async def stubborn(context: ToolContext) -> str:
        """Ignores."""
        context.output("here")
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return "done"

    ran = await started([Call("stubborn"), "never"], tools=[stubborn])
    await cancel_when(ran, events.ToolOutput)
    assert ran.status == "cancelled"
    let_go.set()
    await asyncio.sleep(0)


async def test_a_tool_that_takes_too_long_is_stopped_with_a_reason() -> None:
    @tool(timeout=0.02)
    async def slow() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return "never"

    ran = await run([Call("slow"), "ok"], tools=[slow])
    assert ran.all(events.ToolResultFact)[0].failed == "tool_timed_out"
    assert ran.status == "completed"


async def test_a_cancel_request_ends_the_run_and_is_settled_by_its_end() -> None:
    ran = await started([Turn("text", hangs=True)])
    store = ran.session.journal.store
    running = asyncio.ensure_future(ran.session.prompt(as_content("go")))
    async for facts in store.follow(ran.session.id):
        if any(fact.type == "model_called" for fact in facts):
            break
    assert await store.submit(ran.session.id, Cancel(id="c1", by="ada"))
    assert not await store.submit(ran.session.id, Cancel(id="c1"))
    ran.quiet = await asyncio.wait_for(running, 60)
    assert ran.status == "cancelled"
    assert await store.settlement(ran.session.id, "c1") == ran.facts[-1].seq


async def test_a_steer_is_sent_between_two_steps_and_continues_a_finished_model() -> None:
    def steer(batch: object) -> None:
        if any(getattr(item, "type", "") == "text_delta" for item in batch) and "s2" not in sent:  # type: ignore[attr-defined]
            sent.append("s2")
            tasks.append(
                asyncio.ensure_future(
                    store.submit(ran.session.id, Steer(id="s2", content=as_content("more")))
                )
            )

    sent: list[str] = []
    tasks: list[asyncio.Future[bool]] = []
    ran = await started([Turn("first answer", piece=2, pause=0.001), "second answer"])
    store = ran.session.journal.store
    ran.session.subscribe(steer)
    ran.quiet = await ran.session.prompt(as_content("go"))
    assert [m.text for m in ran.model.requests[-1].transcript] == ["go", "first answer", "more"]


async def test_a_steer_can_be_withdrawn_until_the_model_has_it() -> None:
    withdrawn: list[bool] = []

    @tool
    async def steered() -> str:
        """Gives one back that the run has read, and one that it has not."""
        for id in ("read", "kept"):
            await store.submit(ran.session.id, Steer(id=id, content=as_content(id)))
        await store.submit(ran.session.id, Rename(id="behind them", title="so both are read"))
        async for _ in store.follow(ran.session.id):
            if await store.settlement(ran.session.id, "behind them"):
                break
        withdrawn.append(ran.session.withdraw("read"))
        await store.submit(ran.session.id, Steer(id="unread", content=as_content("unread")))
        withdrawn.append(ran.session.withdraw("unread"))
        return "done"

    ran = await started([Call("steered"), "ok"], tools=[steered])
    store = ran.session.journal.store
    ran.quiet = await asyncio.wait_for(ran.session.prompt(as_content("go")), 60)
    assert withdrawn == [True, True]
    assert [m.text for m in ran.model.requests[-1].transcript if m.role == "user"] == ["go", "kept"]
    assert not ran.session.withdraw("kept")


async def test_prompts_in_the_inbox_are_runs_of_their_own_in_order() -> None:
    ran = await started(["one", "two"])
    store = ran.session.journal.store
    for number in (1, 2):
        await store.submit(ran.session.id, Prompt(id=f"p{number}", content=as_content(f"prompt {number}")))
    assert isinstance(await ran.session.advance(), events.RunEnded)
    assert isinstance(await ran.session.advance(), events.RunEnded)
    assert await ran.session.advance() is None
    assert [e.content[0].text for e in ran.all(events.UserMessage)] == ["prompt 1", "prompt 2"]
    assert [e.request for e in ran.all(events.RunStarted)] == ["p1", "p2"]


async def test_a_direct_prompt_runs_after_those_in_the_inbox() -> None:
    ran = await started(["one", "two"])
    await ran.session.journal.store.submit(ran.session.id, Prompt(id="p1", content=as_content("earlier")))
    await ran.session.prompt(as_content("later"))
    assert [e.content[0].text for e in ran.all(events.UserMessage)] == ["earlier", "later"]


async def test_a_direct_prompt_overtakes_held_prompts() -> None:
    ran = await started([Turn(failure=Failure("server_failed", "no")), "two"])
    store = ran.session.journal.store
    ended = await ran.session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded) and ended.status == "failed"
    await store.submit(ran.session.id, Prompt(id="p1", content=as_content("held")))
    assert await ran.session.advance() is None
    await ran.session.prompt(as_content("direct"))
    assert [e.content[0].text for e in ran.all(events.UserMessage)] == ["go", "direct"]


async def test_nothing_can_be_continued_from_the_inbox_of_an_empty_session() -> None:
    ran = await started(["one"])
    store = ran.session.journal.store
    await store.submit(ran.session.id, Continue(id="c1"))
    await store.submit(ran.session.id, Prompt(id="p1", content=as_content("go")))
    await ran.session.advance()
    assert [e.request for e in ran.all(events.RequestRefused)] == ["c1"]
    assert [e.request for e in ran.all(events.RunStarted)] == ["p1"]


async def test_a_run_cancelled_before_its_start_calls_nothing() -> None:
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

    ran.session.subscribe(watch)
    running = asyncio.ensure_future(ran.session.prompt(as_content("go")))
    await asyncio.wait_for(failed.wait(), 60)
    ran.session.cancel("enough")
    ran.quiet = await asyncio.wait_for(running, 60)
    assert ran.status == "cancelled" and len(ran.model.requests) == 1
