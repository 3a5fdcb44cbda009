"""What extensions see of a session, and what their seeing cannot change."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from ostler.extensions.api import Ostler
from ostler.extensions.extension_session import ReasoningStarted, SessionLeft, SessionOpened, StateChanged
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.messages import as_content
from tests.extensions.at_work import extension, facts_of, session_with


def brings_look(ostler: Ostler) -> None:
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

    def setup(ostler: Ostler) -> None:
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

    def setup(ostler: Ostler) -> None:
        @ostler.on(events.TextDelta, batch=True)
        def see(deltas: tuple[events.TextDelta, ...]) -> None:
            batches.append(deltas)

    text = "a sentence of some length " * 40
    session, _ = await session_with(ScriptedModel([text]), extension("see", setup))
    await session.prompt(as_content("go"))
    assert "".join(delta.text for batch in batches for delta in batch) == text
    assert len(batches) < 40
    await session.close()


async def test_moments_tell_what_is_no_fact() -> None:
    seen: list[Any] = []

    def setup(ostler: Ostler) -> None:
        @ostler.on(SessionOpened, SessionLeft, StateChanged, ReasoningStarted)
        def see(moment: Any) -> None:
            seen.append(moment)

    session, _ = await session_with(ScriptedModel([Turn("done", reasoning="hm")]), extension("see", setup))
    await session.prompt(as_content("go"))
    await session.close()
    assert [type(one).__name__ for one in seen] == [
        "SessionOpened",
        "StateChanged",
        "ReasoningStarted",
        "StateChanged",
        "SessionLeft",
    ]
    assert (seen[1].state, seen[3].state) == ("working", "idle")


async def test_a_handler_that_changes_what_it_is_given_changes_nothing() -> None:
    def setup(ostler: Ostler) -> None:
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


async def test_a_handler_that_hangs_is_given_up_and_the_others_go_on(monkeypatch: Any) -> None:
    monkeypatch.setattr("ostler.extensions.event_channel.TIME_LIMIT", 0.2)
    release = threading.Event()
    seen: list[str] = []

    def hangs(ostler: Ostler) -> None:
        @ostler.on(events.RunStarted)
        def hang(event: Any) -> None:
            release.wait(60)

        @ostler.on(events.RunEnded)
        def end(event: Any) -> None:
            seen.append("the hanging one")

    def sees(ostler: Ostler) -> None:
        @ostler.on(events.RunEnded)
        def end(event: Any) -> None:
            seen.append("the other")

    session, _ = await session_with(
        ScriptedModel(["done"]), extension("hangs", hangs), extension("sees", sees)
    )
    ended = await session.prompt(as_content("go"))
    release.set()
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "completed"
    assert sorted(seen) == ["the hanging one", "the other"]
    await session.journal.commit()
    (warned,) = await facts_of(session, "warned")
    assert "the extension hangs failed" in warned.text
    assert "took longer than 0.2 s" in warned.text
    await session.close()
