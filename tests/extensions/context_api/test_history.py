"""`context.history`: reading and changing the history of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.host import ExtensionHost
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import NotFound, Overloaded, RateLimited, SessionBusy, UsageError
from ostler.schema.messages import as_content
from ostler.sessions.session import Session, open_session
from ostler.store.memory import MemoryStore
from ostler.store.sqlite import SqliteStore
from tests.support.extension_session import extension, facts_of, session_with


def nothing(ostler: ExtensionAPI) -> None:
    """Registers nothing."""


def context_of(session: Session, host: ExtensionHost, name: str = "mine") -> ExtensionContext:
    return host.sessions[session.id].channels[name].context


async def at_work(*script: Any, setup: Any = nothing, **options: Any) -> tuple[Session, ExtensionContext]:
    session, host = await session_with(ScriptedModel(script), extension("mine", setup), **options)
    return session, context_of(session, host)


@tool
def look(where: str) -> str:
    "Looks."
    return f"saw {where}"


async def test_messages_have_role_text_time_and_parent() -> None:
    session, context = await at_work(
        Turn("I look", calls=(Call("look", {"where": "here"}),)), "done", tools={"look": look}
    )
    await session.prompt(as_content("go"))
    messages = await context.history.messages()
    assert [(one.role, one.text) for one in messages] == [
        ("user", "go"),
        ("assistant", "I look"),
        ("tool", "saw here"),
        ("assistant", "done"),
    ]
    assert [(one.model, one.provider) for one in messages[:2]] == [("", ""), ("scripted/model", "scripted")]
    assert all(one.time_ms > 0 and one.parent < one.entry for one in messages)
    assert messages[0].parent == 0
    assert messages[1].parent == messages[0].entry
    await session.close()


async def test_a_plain_command_reads_the_history_by_waiting() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("count")
        def count(arguments: str, context: ExtensionContext) -> str:
            number = context.history.append("counted", {"by": arguments})
            leaf = context.wait(context.history.entries("counted"))
            assert [one.entry for one in leaf] == [number]
            return str(len(context.wait(context.history.messages())))

    session, host = await session_with(ScriptedModel(["done"]), extension("mine", setup))
    await session.prompt(as_content("go"))
    assert await host.run_command(session, "count", "hand") == "2"
    assert [entry.data for entry in await facts_of(session, "extension_entry")] == [{"by": "hand"}]
    await session.close()


async def test_an_extension_finds_its_own_entries_on_its_branch_only() -> None:
    session, context = await at_work("one", "two")
    await session.prompt(as_content("go"))
    beginning = context.history.leaf
    context.history.append("note", {"text": "left"})
    context.history.append("mark", 1)
    await context.history.navigate(beginning)
    here = context.history.append("note", {"text": "here"}, told="Mind this.")
    (leaf,) = await context.history.entries("note")
    assert (leaf.entry, leaf.name, leaf.data, leaf.told) == (here, "note", {"text": "here"}, "Mind this.")
    assert len(await context.history.entries()) == 1
    assert await context.history.entries(extension="another") == []
    await session.close()


async def test_the_text_of_an_entry_reaches_the_model_with_the_next_run() -> None:
    model = ScriptedModel(["done"])
    session, host = await session_with(model, extension("mine", nothing))
    context_of(session, host).history.append("note", told="It is Monday.")
    assert not model.requests
    await session.prompt(as_content("go"))
    (request,) = model.requests
    assert [message.text for message in request.transcript] == ["It is Monday.", "go"]
    await session.close()


async def test_a_message_during_a_call_follows_its_result() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.ToolStarted)
        async def note(started: events.ToolStarted, context: ExtensionContext) -> None:
            context.history.append("note", told="Mind this.")

        @ostler.before_tool
        def catch_up(call: Any) -> None:
            """Hooks see what their observers did."""

        @ostler.after_tool
        def wait_for_observers(call: Any) -> None:
            """Likewise."""

    model = ScriptedModel([Call("look", {"where": "here"}), "done"])
    session, _ = await session_with(model, extension("mine", setup), tools={"look": look})
    await session.prompt(as_content("go"))
    assert [message.role for message in model.requests[1].transcript] == ["user", "assistant", "tool", "user"]
    assert model.requests[1].transcript[3].text == "Mind this."
    await session.close()


async def test_data_that_cannot_be_stored_is_refused_with_a_reason() -> None:
    session, context = await at_work()
    with pytest.raises(UsageError, match="the entry 'bad' cannot be stored"):
        context.history.append("bad", {"text": "\ud800"})
    with pytest.raises(UsageError, match="the entry 'bad' cannot be stored"):
        context.history.append("bad", object())
    await session.close()


async def test_the_path_of_a_session_is_that_of_its_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    session, context = await at_work(store=store)
    assert context.history.path == tmp_path / "log.db"
    await session.close()
    await store.close()
    session, context = await at_work()
    assert context.history.path is None
    await session.close()


async def test_every_kind_of_entry_is_a_node_also_a_compaction() -> None:
    session, context = await at_work(
        Turn("I look", calls=(Call("look", {"where": "here"}),), reasoning="Where?"),
        "done",
        tools={"look": look},
    )
    await session.prompt(as_content("go"))
    leaf = context.history.leaf
    (first,) = await context.history.children(0)
    compacted = session.journal.record(events.Compacted("All of it.", (first.entry,), leaf))
    context.history.append("note", 1)
    await session.journal.commit()
    nodes = await context.history.branch()
    assert [node.kind for node in nodes] == [
        "user_message",
        "assistant_message",
        "tool_called",
        "tool_result",
        "assistant_message",
        "compacted",
        "extension_entry",
    ]
    assert nodes[1].text == 'Where?\nI look\n[call look {"where":"here"}]'
    assert (nodes[1].role, nodes[1].model, nodes[1].provider) == ("assistant", "scripted/model", "scripted")
    assert nodes[2].text == '[call look {"where":"here"}]'
    assert [node.children for node in nodes[:-1]] == [(node.entry,) for node in nodes[1:]]
    found = await context.history.node(compacted.seq)
    assert found is not None
    assert (found.text, found.role, found.is_current) == ("All of it.", "", True)
    assert await context.history.node(999) is None
    await session.close()


async def test_navigating_moves_the_leaf_and_both_branches_are_children() -> None:
    session, context = await at_work("one", "two")
    await session.prompt(as_content("first"))
    (first,) = await context.history.children(0)
    before = context.history.leaf
    moved = await context.history.navigate(first.entry)
    assert (moved.leaf, moved.previous) == (first.entry, before)
    await session.prompt(as_content("second"))
    children = await context.history.children(first.entry)
    assert [(node.text, node.is_current) for node in children] == [("one", False), ("second", True)]
    assert [moved.to for moved in await facts_of(session, "leaf_moved")] == [first.entry]
    assert (await context.history.navigate(0)).leaf == 0
    with pytest.raises(NotFound, match="there is no entry 77"):
        await context.history.navigate(77)
    await session.close()


async def test_navigating_is_refused_while_a_run_is_open() -> None:
    problems: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_tool
        async def back(call: Any, context: ExtensionContext) -> None:
            try:
                await context.history.navigate(0)
            except SessionBusy as error:
                problems.append(error.message)

    session, context = await at_work(
        Call("look", {"where": "here"}), "done", setup=setup, tools={"look": look}
    )
    await session.prompt(as_content("go"))
    assert problems == ["the session cannot go to another entry while a run is open"]
    assert not await facts_of(session, "leaf_moved")
    assert len(await context.history.messages()) == 4
    await session.close()


async def test_state_set_while_the_leaf_moves_is_stored() -> None:
    session, context = await at_work("one")
    await session.prompt(as_content("go"))
    read = session.journal.store.read_opening
    raced: list[str] = []

    async def racing(session_id: str) -> Any:
        facts = await read(session_id)
        if not raced:
            raced.append("once")
            context.state["here"] = True
        return facts

    session.journal.store.read_opening = racing  # type: ignore[method-assign]
    await context.history.navigate(0)
    assert raced == ["once"]
    assert context.state["here"] is True
    await session.prompt(as_content("again"))
    await session.close()


async def test_a_summary_is_written_by_the_model_and_recorded() -> None:
    model = ScriptedModel(["one", "They went."])
    session, host = await session_with(model, extension("mine", nothing))
    context = context_of(session, host)
    await session.prompt(as_content("go"))
    first, last = [node.entry for node in await context.history.branch()]
    assert await context.history.summarize(first, last, "Say who.") == "They went."
    prompt = model.requests[1].transcript[0].text
    assert "user: go" in prompt and "assistant: one" in prompt and "Say who." in prompt
    called = await facts_of(session, "model_called")
    usage = await facts_of(session, "usage")
    assert [one.purpose for one in called] == [one.purpose for one in usage] == ["step", "summary"]
    with pytest.raises(NotFound, match=f"entry {last} does not lead to entry {first}"):
        await context.history.summarize(last, first)
    await session.close()


async def test_a_failed_summary_raises_its_error() -> None:
    session, context = await at_work("one", RateLimited("slow down, says the vendor", stream_opened=True))
    await session.prompt(as_content("go"))
    leaf = context.history.leaf
    with pytest.raises(RateLimited, match="slow down, says the vendor"):
        await context.history.summarize(leaf, leaf)
    await session.close()


async def test_collapsing_up_to_the_leaf_replaces_it_by_the_summary() -> None:
    model = ScriptedModel(["first answer", "second answer", "third answer"])
    session, host = await session_with(model, extension("mine", nothing))
    context = context_of(session, host)
    await session.prompt(as_content("first"))
    leaf = context.history.leaf
    await session.prompt(as_content("second"))
    (begin,) = await context.history.children(leaf)
    end = context.history.leaf
    entry = await context.history.collapse(begin.entry, end, "The second came to nothing.")
    await session.prompt(as_content("third"))
    texts = [message.text for message in model.requests[-1].transcript]
    assert texts[:2] == ["first", "first answer"]
    assert texts[2].endswith("The second came to nothing.")
    assert texts[3:] == ["third"]
    node = await context.history.node(entry)
    assert node is not None
    assert (node.kind, node.parent) == ("branch_collapsed", leaf)
    left = await context.history.node(end)
    assert left is not None and not left.is_current
    await session.close()


async def test_an_abandoned_branch_is_collapsed_with_a_summary_of_the_model() -> None:
    session, context = await at_work("one", "two", "It said one.")
    await session.prompt(as_content("first"))
    one = [node.entry for node in await context.history.branch()]
    await context.history.navigate(0)
    await session.prompt(as_content("second"))
    entry = await context.history.collapse(one[0], one[-1])
    node = await context.history.node(entry)
    assert node is not None
    assert (node.text, node.is_current) == ("It said one.", True)
    here = [node.entry for node in await context.history.branch()]
    with pytest.raises(UsageError, match="collapse up to there"):
        await context.history.collapse(here[0], here[1])
    await session.close()


async def test_nothing_is_collapsed_when_the_summary_fails() -> None:
    session, context = await at_work("one", Overloaded("come back later", stream_opened=True))
    await session.prompt(as_content("go"))
    leaf = context.history.leaf
    with pytest.raises(Overloaded, match="come back later"):
        await context.history.collapse(leaf, leaf)
    assert context.history.leaf == leaf
    await session.close()


async def test_context_of_providers_is_the_same_after_reopening() -> None:
    store = MemoryStore()
    session, context = await at_work("done", store=store)
    context.history.append("note", told="It is Monday.")
    await session.prompt(as_content("go"))
    texts = [message.text for message in session.state.transcript]
    await session.close()
    again = await open_session(store, session.id, session.harness)
    assert [message.text for message in again.state.transcript] == texts == ["It is Monday.", "go", "done"]
    await again.close()
