"""`ExtensionContext`: location, output, options and requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ostler import Agent
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.tool import ToolContext
from ostler.extensions import ExtensionAPI, ExtensionContext, SessionOpened
from ostler.extensions.host import ExtensionHost
from ostler.models.scripted import ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.messages import File, Text, as_content
from ostler.schema.usage import Usage
from ostler.sessions.session import create_session, open_session
from ostler.store.memory import MemoryStore
from tests.support.extension_session import context_of, extension, facts_of, nothing, session_with


@tool
async def work(context: ToolContext) -> str:
    "Works, and shows it."
    context.output("half way\n")
    return "worked"


async def test_an_extension_knows_where_it_is(tmp_path: Path) -> None:
    session, host = await session_with(ScriptedModel(["done"]), extension("mine", nothing), cwd=tmp_path)
    context = context_of(host, session)
    assert (context.session_id, context.cwd) == (session.id, tmp_path)
    assert context.model == "scripted/model"
    assert not context.interactive
    assert context.is_idle
    await session.close()


async def test_a_session_is_idle_outside_of_its_runs() -> None:
    values: list[bool] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_step
        def see(plan: Any, context: ExtensionContext) -> None:
            values.append(context.is_idle)

    session, host = await session_with(ScriptedModel(["done"]), extension("mine", setup))
    await session.prompt(as_content("go"))
    assert values == [False]
    assert context_of(host, session).is_idle
    await session.close()


async def test_printed_text_is_an_event_with_the_extensions_name() -> None:
    printed: list[events.Printed] = []
    session, host = await session_with(ScriptedModel([]), extension("mine", nothing))
    session.subscribe(lambda batch: printed.extend(one for one in batch if isinstance(one, events.Printed)))
    context = context_of(host, session)
    context.print("plain")
    context.print_info("info")
    context.print_error("error")
    context.print_block("block", title="A title", color="#ff0000")
    assert [(one.text, one.level) for one in printed] == [
        (one, one) for one in ("plain", "info", "error", "block")
    ]
    assert {one.extension for one in printed} == {"mine"}
    assert (printed[-1].title, printed[-1].color) == ("A title", "#ff0000")
    assert await session.journal.store.read(session.id) == await session.journal.history()
    await session.close()


async def test_a_prompt_of_an_extension_waits_its_turn_and_has_its_files() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.RunEnded)
        def go_on(ended: events.RunEnded, context: ExtensionContext) -> None:
            if not context.state.get("sent"):
                context.state["sent"] = True
                context.wait(context.send(["And this?", File("text/plain", b"a b c", "a.txt")]))

    model = ScriptedModel(["one", "two"])
    session, _ = await session_with(model, extension("mine", setup))
    await session.prompt(as_content("go"))
    assert await session.advance() is not None
    messages = await facts_of(session, "user_message")
    assert [block.text for block in messages[1].content if isinstance(block, Text)] == ["And this?"]
    assert File("text/plain", b"a b c", "a.txt") in messages[1].content
    assert await session.advance() is None
    await session.close()


async def test_aborting_ends_the_run_and_drops_queued_prompts() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.StepStarted)
        async def stop(event: Any, context: ExtensionContext) -> None:
            await context.send("later")
            await context.abort()

    session, host = await session_with(ScriptedModel([Turn("so far", hangs=True)]), extension("mine", setup))
    ended = await asyncio.wait_for(session.prompt(as_content("go")), 60)
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "cancelled"
    assert "mine" in ended.reason
    assert await session.advance() is None
    assert not await session.journal.store.pending(session.id)
    await context_of(host, session).abort()
    await session.close()


async def test_a_prompt_may_replace_the_open_run() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.RunStarted)
        async def instead(started: events.RunStarted, context: ExtensionContext) -> None:
            if not context.state.get("done"):
                context.state["done"] = True
                await context.send("dropped")
                await context.cancel_and_send("this instead")

    session, _ = await session_with(
        ScriptedModel([Turn("so far", hangs=True), "done"]), extension("mine", setup)
    )
    first = await asyncio.wait_for(session.prompt(as_content("go")), 60)
    second = await asyncio.wait_for(session.advance(), 60)
    assert isinstance(first, events.RunEnded)
    assert isinstance(second, events.RunEnded)
    assert (first.status, second.status) == ("cancelled", "completed")
    assert [messages.content[0].text for messages in await facts_of(session, "user_message")] == [
        "go",
        "this instead",
    ]
    assert await session.advance() is None
    await session.close()


async def test_an_option_is_read_from_set_option_environment_and_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def offers(default: str) -> Any:
        return lambda ostler: ostler.option("log-level", description="How much", default=default)

    harness = Harness(model=ScriptedModel([]))
    host = ExtensionHost([extension("one", offers("first")), extension("two", offers("second"))])
    host.install_into(harness)
    session = await create_session(MemoryStore(), harness)
    context = context_of(host, session, "two")
    assert context.option("log-level") == "second"
    assert context.option("no-such-option") == ""
    host.options["log-level"] = "configured"
    assert context.option("log-level") == "configured"
    monkeypatch.setenv("OSTLER_OPT_LOG_LEVEL", "")
    assert context.option("log-level") == "configured"
    monkeypatch.setenv("OSTLER_OPT_LOG_LEVEL", "of the environment")
    assert context.option("log-level") == "of the environment"
    context.set_option("log-level", "set")
    assert context_of(host, session, "one").option("log-level") == "set"
    await session.close()


async def test_state_set_from_a_hundred_threads_is_complete() -> None:
    session, host = await session_with(ScriptedModel([]), extension("mine", nothing))
    state = context_of(host, session).state

    def keep(number: int) -> None:
        state[f"key {number}"] = number

    await asyncio.gather(*(asyncio.to_thread(keep, number) for number in range(100)))
    await session.journal.commit()
    assert dict(state) == {f"key {number}": number for number in range(100)}
    facts = await facts_of(session, "extension_state")
    assert {fact.key: fact.value for fact in facts} == dict(state)
    with pytest.raises(KeyError):
        del state["no such key"]
    assert len(await facts_of(session, "extension_state")) == 100
    await session.close()


async def test_an_extension_has_the_context_compacted_and_only_of_its_own_branch() -> None:
    contexts: list[ExtensionContext] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(SessionOpened)
        def opened(moment: SessionOpened, context: ExtensionContext) -> None:
            contexts.append(context)

    def long(word: str) -> str:
        return " ".join([word] * 4000)

    model = ScriptedModel([long("one"), long("left"), long("two"), "the summary", "done"])
    async with Agent(model, extensions=[setup]) as agent:
        await agent.run("first")
        history = contexts[0].history
        before = history.leaf
        await agent.run("a branch that is left")
        await history.navigate(before)
        await agent.run("second")
        await contexts[0].compact("keep the names")
        await agent.run("third")
    asked, told = model.requests[-2:]
    assert "keep the names" in asked.transcript[-1].text
    assert "the summary" in told.transcript[0].text
    for request in (asked, told):
        assert not any("left" in message.text for message in request.transcript)


async def test_state_belongs_to_its_session_and_not_to_the_process() -> None:
    store, harness = MemoryStore(), Harness(model=ScriptedModel([]))
    host = ExtensionHost([extension("mine", nothing)])
    host.install_into(harness)
    first, second = [await create_session(store, harness) for _ in range(2)]
    context_of(host, first).state["where"] = "first"
    assert dict(context_of(host, second).state) == {}
    context_of(host, second).state["where"] = "second"
    await second.close()
    assert context_of(host, first).state["where"] == "first"
    await first.close()
    again = await open_session(store, second.id, harness)
    assert context_of(host, again).state["where"] == "second"
    await again.close()


async def test_usage_counts_also_where_no_input_is_reported() -> None:
    answer = Turn("done", usage=Usage(input_tokens=0, output_tokens=7, cost=0.5))
    session, host = await session_with(ScriptedModel([answer]), extension("mine", nothing))
    await session.prompt(as_content("go"))
    used = await context_of(host, session).usage()
    assert (used.requests, used.usage.output_tokens, used.cost) == (1, 7, 0.5)
    await session.close()


async def test_a_child_with_an_empty_list_of_tools_has_none() -> None:
    model = ScriptedModel(["nothing to do"])
    session, host = await session_with(model, extension("mine", nothing))
    session.harness.set_tools([work])
    result = await context_of(host, session).run_subagent("look", tools=[])
    assert result.ok
    assert [one.name for one in model.requests[0].tools] == []
    await session.close()
