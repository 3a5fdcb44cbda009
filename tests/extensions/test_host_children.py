"""Hooks of extensions apply in children."""

from __future__ import annotations

from typing import Any

from ostler.core.children import ChildRequest
from ostler.core.hooks import PlannedCall, Refuse
from ostler.core.tool import ToolContext
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events
from ostler.schema.messages import as_content
from tests.support.extension_session import extension, facts_of, session_with


async def test_a_guard_refuses_calls_of_a_child_and_gets_its_session() -> None:
    calls: list[tuple[str, str]] = []
    received: list[tuple[str, str]] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.tool
        def remove(path: str) -> str:
            "Removes a file."
            return f"removed {path}"

        @ostler.tool
        async def hand_over(task: str, context: ToolContext) -> str:
            "Has a child do it."
            result = await context.run_child(ChildRequest(as_content(task)))
            return result.text

        @ostler.before_tool
        def gate(call: PlannedCall, context: ExtensionContext) -> Refuse | None:
            calls.append((context.session_id, call.name))
            return Refuse("never") if call.name == "remove" else None

        @ostler.on(events.ToolResultFact)
        def results(result: events.ToolResultFact, context: ExtensionContext) -> None:
            received.append((context.session_id, result.failed or "fine"))

    model = ScriptedModel([Call("hand_over", {"task": "go"}), Call("remove", {"path": "x"}), "done", "all"])
    session, host = await session_with(model, extension("gate", setup))
    await session.prompt(as_content("go"))
    (started,) = await facts_of(session, "child_started")
    child = started.child
    assert calls == [(session.id, "hand_over"), (child, "remove")]
    assert received == [(child, "call_refused"), (session.id, "fine")]
    assert list(host.sessions) == [session.id]
    await session.close()
    assert not host.sessions


async def test_children_are_seen_from_their_parents_session() -> None:
    received: list[Any] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.tool
        async def hand_over(task: str, context: ToolContext) -> str:
            "Has a child do it."
            return (await context.run_child(ChildRequest(as_content(task), agent="scout"))).text

        @ostler.on(events.ChildStarted, events.ChildEvent, events.ChildEnded)
        def see(event: Any, context: ExtensionContext) -> None:
            received.append((context.session_id, event))

    model = ScriptedModel([Call("hand_over", {"task": "look around"}), "found it", "done"])
    session, _ = await session_with(model, extension("monitor", setup))
    await session.prompt(as_content("go"))
    assert {where for where, _ in received} == {session.id}
    kinds = [event.type for _, event in received]
    assert kinds[0] == "child_started"
    assert kinds[-1] == "child_ended"
    assert "child_event" in kinds
    started, ended = received[0][1], received[-1][1]
    assert (started.agent, started.task) == ("scout", "look around")
    assert (ended.status, ended.child) == ("completed", started.child)
    await session.close()
