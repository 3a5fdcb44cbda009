"""Extensions at work in a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ostler.core.hooks import Handled, PlannedCall, Refuse, RunPlan
from ostler.extensions.api import Ostler
from ostler.extensions.extension_context import ExtensionContext
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events
from ostler.schema.messages import as_content
from ostler.schema.requests import RunCommand
from tests.extensions.at_work import extension, facts_of, session_with


async def test_a_plain_guard_refuses_a_call_and_the_model_is_told() -> None:
    def setup(ostler: Ostler) -> None:
        @ostler.tool
        def remove(path: str) -> str:
            "Removes a file."
            return f"removed {path}"

        @ostler.before_tool
        def gate(call: PlannedCall) -> Refuse | None:
            return Refuse("not that one") if call.arguments["path"] == "/" else None

    model = ScriptedModel([[Call("remove", {"path": "/"}), Call("remove", {"path": "a"})], "done"])
    session, _ = await session_with(model, extension("gate", setup))
    await session.prompt(as_content("go"))
    results = [fact.event for fact in await session.journal.history() if fact.type == "tool_result"]
    assert [result.failed for result in results] == ["call_refused", None]
    assert "not that one" in str(results[0].content)
    await session.close()


async def test_a_hook_sees_what_its_own_observers_kept_before() -> None:
    def setup(ostler: Ostler) -> None:
        @ostler.on(events.UsageReported)
        def count(usage: events.UsageReported, context: Any) -> None:
            context.state["calls"] = context.state.get("calls", 0) + 1

        @ostler.before_step
        async def stop(plan: Any, context: Any) -> Refuse | None:
            return Refuse("enough") if context.state.get("calls", 0) >= 2 else None

        @ostler.tool
        def again() -> str:
            "Once more."
            return "ok"

    model = ScriptedModel([Call("again"), Call("again"), Call("again"), "done"])
    session, _ = await session_with(model, extension("budget", setup))
    ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert (ended.status, ended.reason) == ("refused", "enough")
    assert session.state.extension_state == {"budget": {"calls": 2}}
    await session.close()


async def test_an_input_hook_may_deal_with_a_prompt_itself() -> None:
    def setup(ostler: Ostler) -> None:
        @ostler.input
        def ping(draft: Any) -> Handled | None:
            return Handled("pong") if draft.text == "ping" else draft.with_text(draft.text.upper())

        @ostler.before_run
        def add(plan: RunPlan) -> RunPlan:
            return RunPlan(plan.prompt, "Be brief.", ("It is Monday.",))

    model = ScriptedModel(["done", "done"])
    session, _ = await session_with(model, extension("ping", setup))
    printed: list[str] = []
    session.observe(
        lambda batch: printed.extend(one.text for one in batch if isinstance(one, events.Printed))
    )
    handled = await session.prompt(as_content("ping"))
    assert isinstance(handled, events.RunEnded)
    assert handled.status == "completed"
    assert printed == ["pong"]
    assert not model.requests
    await session.prompt(as_content("hello"))
    (request,) = model.requests
    assert request.system.endswith("Be brief.")
    assert [message.content[0].text for message in (*request.transcript, *request.tail)] == [
        "HELLO",
        "It is Monday.",
    ]
    await session.close()


async def test_what_an_extension_raises_is_reported_with_its_name_and_line() -> None:
    def setup(ostler: Ostler) -> None:
        @ostler.on(events.StepStarted)
        def bad(event: Any) -> None:
            raise ValueError("no")

    session, _ = await session_with(ScriptedModel(["done"]), extension("bad", setup))
    ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "completed"
    (warned,) = [fact.event for fact in await session.journal.history() if fact.type == "warned"]
    assert "the extension bad failed in bad: ValueError: no (test_host.py:" in warned.text
    await session.close()


async def test_a_handler_may_emit_what_it_handles_itself() -> None:
    seen: list[str] = []

    def setup(ostler: Ostler) -> None:
        @ostler.on("again")
        def again(data: Any, context: Any) -> None:
            seen.append(f"begin {data}")
            if data < 3:
                context.wait(context.emit("again", data + 1))
            seen.append(f"end {data}")

        @ostler.command("start")
        def start(arguments: str, context: Any) -> str:
            context.wait(context.emit("again", 1))
            return f"started {arguments}"

    session, host = await session_with(ScriptedModel([]), extension("echo", setup))
    assert await host.run_command(session, "/start", "now") == "started now"
    assert seen == ["begin 1", "begin 2", "begin 3", "end 3", "end 2", "end 1"]
    await session.close()


async def test_the_lease_is_kept_while_a_command_or_a_shortcut_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ostler.store.rules.RENEW_SECONDS", 0.002)

    async def work_long(context: ExtensionContext) -> None:
        first = context.journal.lease.expires_ms
        async with asyncio.timeout(60):
            while context.journal.lease.expires_ms == first:
                await context.journal.store.last_seq(context.session_id)
                await asyncio.sleep(0)

    def setup(ostler: Ostler) -> None:
        @ostler.command("long")
        async def command(arguments: str, context: ExtensionContext) -> str:
            await work_long(context)
            return "done"

        @ostler.shortcut("f5")
        async def shortcut(context: ExtensionContext) -> None:
            await work_long(context)
            context.state["done"] = True

    session, host = await session_with(ScriptedModel([]), extension("slow", setup))
    await session.journal.store.submit(session.id, RunCommand(id="req", name="long"))
    await session.advance()
    (ran,) = await facts_of(session, "command_ran")
    assert (ran.text, ran.failed) == ("done", False)
    assert await host.shortcut(session.id, "f5")
    assert session.state.extension_state == {"slow": {"done": True}}
    await session.close()


async def test_what_a_handler_of_an_emitted_event_kept_is_committed_when_it_returns() -> None:
    committed: list[int] = []

    def setup(ostler: Ostler) -> None:
        @ostler.on("tick")
        def tick(n: int, context: ExtensionContext) -> None:
            context.state["n"] = n

        @ostler.on(events.RunStarted)
        async def begin(started: events.RunStarted, context: ExtensionContext) -> None:
            for n in range(3):
                await context.emit("tick", n)
                facts = await context.journal.store.read(context.session_id)
                committed.append(sum(fact.type == "extension_state" for fact in facts))

    session, _ = await session_with(ScriptedModel(["done"]), extension("ticking", setup))
    await session.prompt(as_content("go"))
    assert committed == [1, 2, 3]
    await session.close()
