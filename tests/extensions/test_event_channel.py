"""Delivery of events to extensions."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_session import ReasoningStarted, SessionLeft, SessionOpened, StateChanged
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import ConnectionFailed
from ostler.schema.messages import as_content
from tests.support.extension_session import extension, facts_of, nothing, session_with, work


def brings_look(ostler: ExtensionAPI) -> None:
    @ostler.tool
    def look(place: dict[str, str]) -> str:
        "Looks somewhere."
        return f"saw {place}"


async def test_events_come_in_order_to_plain_and_async_handlers_alike() -> None:
    plain: list[str] = []
    waiting: list[str] = []
    kinds = (
        events.RunStarted,
        events.StepStarted,
        events.ToolStarted,
        events.ToolResultFact,
        events.UsageReported,
        events.RunEnded,
    )

    def setup(ostler: ExtensionAPI) -> None:
        brings_look(ostler)

        @ostler.on(*kinds)
        def see(event: Any) -> None:
            plain.append(event.type)

        @ostler.on(*kinds)
        async def wait(event: Any) -> None:
            await asyncio.sleep(0)
            waiting.append(event.type)

    model = ScriptedModel([Call("look", {"place": {"a": "b"}}), "done"])
    session, _ = await session_with(model, extension("see", setup))
    await session.prompt(as_content("go"))
    assert plain == waiting
    assert plain[0] == "run_started"
    assert plain[-1] == "run_ended"
    assert plain.count("usage") == 2
    assert plain.index("tool_started") < plain.index("tool_result")
    await session.close()


async def test_deltas_come_in_batches_and_are_complete() -> None:
    batches: list[tuple[events.TextDelta, ...]] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.TextDelta, batch=True)
        def see(deltas: tuple[events.TextDelta, ...]) -> None:
            batches.append(deltas)

    text = "a sentence of some length " * 40
    session, _ = await session_with(ScriptedModel([text]), extension("see", setup))
    await session.prompt(as_content("go"))
    assert "".join(delta.text for batch in batches for delta in batch) == text
    assert len(batches) < 40
    await session.close()


async def test_lifecycle_events_report_what_is_not_in_the_log() -> None:
    received: list[Any] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(SessionOpened, SessionLeft, StateChanged, ReasoningStarted)
        def see(moment: Any) -> None:
            received.append(moment)

    session, _ = await session_with(ScriptedModel([Turn("done", reasoning="hm")]), extension("see", setup))
    await session.prompt(as_content("go"))
    await session.close()
    assert [type(one).__name__ for one in received] == [
        "SessionOpened",
        "StateChanged",
        "ReasoningStarted",
        "StateChanged",
        "SessionLeft",
    ]
    assert (received[1].state, received[3].state) == ("working", "idle")


async def test_a_handler_gets_a_copy_of_its_subject() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        brings_look(ostler)

        @ostler.on(events.ToolCalled)
        def spoil(called: events.ToolCalled) -> None:
            called.arguments["place"]["a"] = "spoilt"

        @ostler.before_tool
        def spoil_too(call: Any) -> None:
            call.arguments["place"]["a"] = "spoilt"

    model = ScriptedModel([Call("look", {"place": {"a": "b"}}), "done"])
    session, _ = await session_with(model, extension("spoil", setup))
    await session.prompt(as_content("go"))
    (result,) = await facts_of(session, "tool_result")
    assert result.content[0].text == "saw {'a': 'b'}"
    await session.close()


async def test_a_hanging_handler_is_abandoned_and_the_others_run(monkeypatch: Any) -> None:
    monkeypatch.setattr("ostler.extensions.event_channel.TIME_LIMIT", 0.2)
    release = threading.Event()
    received: list[str] = []

    def hangs(ostler: ExtensionAPI) -> None:
        @ostler.on(events.RunStarted)
        def hang(event: Any) -> None:
            release.wait(60)

        @ostler.on(events.RunEnded)
        def end(event: Any) -> None:
            received.append("the hanging one")

    def sees(ostler: ExtensionAPI) -> None:
        @ostler.on(events.RunEnded)
        def end(event: Any) -> None:
            received.append("the other")

    session, _ = await session_with(
        ScriptedModel(["done"]), extension("hangs", hangs), extension("sees", sees)
    )
    ended = await session.prompt(as_content("go"))
    release.set()
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "completed"
    assert sorted(received) == ["the hanging one", "the other"]
    await session.journal.commit()
    (warned,) = await facts_of(session, "warned")
    assert "the extension hangs failed" in warned.text
    assert "took longer than 0.2 s" in warned.text
    await session.close()


async def test_every_event_of_a_run_can_be_observed() -> None:
    received: list[Any] = []
    kinds = (
        events.ModelCalled,
        events.ModelFailed,
        events.UsageReported,
        events.TextDelta,
        events.ToolInputStarted,
        events.ToolInputDelta,
        events.ToolInputEnded,
        events.ToolCalled,
        events.ToolStarted,
        events.ToolOutput,
        events.ToolResultFact,
        events.AssistantMessage,
        events.StepStarted,
        events.StepEnded,
    )

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(*kinds)
        def see(event: Any) -> None:
            received.append(event)

    failing = ConnectionFailed("the line is dead")
    model = ScriptedModel([failing, Call("work"), "done"])
    session, _ = await session_with(model, extension("mine", setup))
    session.harness.set_tools([work])
    await session.prompt(as_content("go"))
    order = [event.type for event in received]
    assert {kind.__struct_config__.tag for kind in kinds} <= {*order}
    call = [name for name in order if name.startswith("tool_")]
    assert [*dict.fromkeys(call)] == [
        "tool_input_started",
        "tool_input_delta",
        "tool_input_ended",
        "tool_called",
        "tool_started",
        "tool_output",
        "tool_result",
    ]
    (failed,) = [event for event in received if isinstance(event, events.ModelFailed)]
    assert failed.failure.message == "the line is dead"
    assert failed.retry_in is not None
    assert [event.attempt for event in received if isinstance(event, events.ModelCalled)] == [1, 2, 1]
    assert order.count("usage") == 3
    await session.close()


async def test_warnings_and_sources_are_seen_like_everything_else() -> None:
    received: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.Warned, events.SourceCited)
        def see(event: Any) -> None:
            received.append(event.type)

    session, host = await session_with(ScriptedModel([]), extension("mine", setup))
    session.journal.record(events.Warned("look out", about="model"))
    session.journal.record(events.SourceCited("https://example.org", "A page"))
    await session.journal.commit()
    await host.on_idle(session)
    assert received == ["warned", "source_cited"]
    await session.close()


async def test_batch_handlers_get_tuples_and_others_single_events() -> None:
    singles: list[str] = []
    batches: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.StepStarted, events.ModelCalled, events.AssistantMessage)
        @ostler.on(events.UsageReported)
        def see(event: Any) -> None:
            singles.append(event.type)

        @ostler.on(events.TextDelta, batch=True)
        def gather(deltas: tuple[events.TextDelta, ...]) -> None:
            batches.extend(delta.text for delta in deltas)

    session, _ = await session_with(ScriptedModel(["one two three four"]), extension("mine", setup))
    await session.prompt(as_content("go"))
    assert singles == ["step_started", "model_called", "usage", "assistant_message"]
    assert "".join(batches) == "one two three four"
    assert await facts_of(session, "warned") == []
    await session.close()


async def test_an_observer_may_remove_itself_while_it_runs() -> None:
    session, _ = await session_with(ScriptedModel(["done"]), extension("mine", nothing))
    once: list[Any] = []
    always: list[Any] = []

    def see_once(batch: Any) -> None:
        once.append(batch)
        stop()

    stop = session.subscribe(see_once)
    session.subscribe(always.append)
    await session.prompt(as_content("go"))
    assert len(once) == 1
    assert len(always) > 1
    await session.close()


async def test_handlers_of_one_extension_never_run_concurrently_and_those_of_two_do() -> None:
    inside: dict[str, int] = {"one": 0, "two": 0}
    meeting = threading.Barrier(2, timeout=60)

    def meets(name: str) -> Any:
        def setup(ostler: ExtensionAPI) -> None:
            def enter(event: Any) -> None:
                inside[name] += 1
                assert inside[name] == 1
                meeting.wait()
                inside[name] -= 1

            ostler.on(events.RunStarted)(enter)
            ostler.on(events.RunStarted)(enter)

        return setup

    session, _ = await session_with(
        ScriptedModel(["done"]), extension("one", meets("one")), extension("two", meets("two"))
    )
    await session.prompt(as_content("go"))
    assert await facts_of(session, "warned") == []
    assert inside == {"one": 0, "two": 0}
    await session.close()
