"""Forks: what is copied, what is counted, and that a model accepts the transcript."""

from __future__ import annotations

import typing
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.journal import World
from ostler.core.processes import current_process
from ostler.core.state import fold, path_of
from ostler.core.store import Store
from ostler.core.transcript import NEVER_RUN
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import NotFound
from ostler.schema.events import EVENT_TYPES, Event
from ostler.schema.messages import BlobRef, Message, Text, ToolCall, ToolResult, as_content, user
from ostler.schema.usage import NOTHING_USED, Usage
from ostler.sessions.session import open_session
from ostler.store.fork import REFERENCES, fork
from ostler.store.invariants import violations
from ostler.store.memory import MemoryStore
from ostler.store.sqlite import SqliteStore
from tests.support.running import run
from tests.support.stored import facts_of, put


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "ostler.db")
    yield opened
    await opened.close()


@tool
async def long(word: str) -> str:
    """Repeats a word very often."""
    return f"{word} " * 20_000


@tool
async def short(word: str) -> str:
    """Says a word."""
    return word


def text(words: str) -> tuple[Text]:
    return (Text(words),)


async def test_a_fork_copies_the_path_byte_for_byte_and_names_its_origin(store: Store) -> None:
    ran = await run([Call("short", {"word": "hi"}), "done"], tools=[short], store=store, cwd=Path("/project"))
    source = await store.read(ran.session.id)
    forked = await store.read(await fork(store, ran.session.id, None, World()))
    entries = [fact for fact in source if fact.parent is not None]
    copies = [fact for fact in forked if fact.parent is not None]
    assert [copy.body for copy in copies] == [entry.body for entry in entries]
    assert [copy.time_ms for copy in copies] == [entry.time_ms for entry in entries]
    assert [copy.origin for copy in copies] == [f"{ran.session.id}:{entry.seq}" for entry in entries]
    assert [copy.parent for copy in copies] == [0, *[copy.seq for copy in copies[:-1]]]
    assert fold(forked).snapshot()["messages"] == fold(source).snapshot()["messages"]
    assert forked[0].event == events.SessionStarted(
        "/project", forked[0].event.version, forked_from=ran.session.id, forked_at=entries[-1].seq
    )
    assert violations(forked) == []


async def test_a_fork_does_not_count_the_usage_of_the_original(store: Store) -> None:
    costly = Turn("done", usage=Usage(input_tokens=7, output_tokens=3, cost=0.5))
    ran = await run([costly], store=store)
    await ran.session.replace_history((user("from elsewhere"),), Usage(input_tokens=900, cost=9.0))
    forked = await store.read(await fork(store, ran.session.id, None, World()))
    assert ran.session.state.usage.cost == 9.0
    assert "usage" not in {fact.type for fact in forked}
    assert fold(forked).usage == NOTHING_USED


async def test_a_fork_is_the_newest_session_and_has_the_preview_of_the_original(store: Store) -> None:
    source = await put(store, facts_of(events.UserMessage(text("an old prompt"))))
    await put(store, facts_of(events.UserMessage(text("newer")), session="ses_two"))
    forked = await fork(store, source, None, World())
    newest, *_ = await store.sessions()
    assert (newest.id, newest.preview, newest.forked_from, newest.status) == (
        forked,
        "an old prompt",
        source,
        "",
    )


async def test_a_fork_at_the_second_of_three_messages_has_two(store: Store) -> None:
    source = await put(
        store,
        facts_of(
            events.UserMessage(text("one")),
            events.AssistantMessage("msg_1", text("two"), "end"),
            events.UserMessage(text("three")),
        ),
    )
    first, second = [await fork(store, source, 3, World()) for _ in range(2)]
    assert first != second
    forked = await store.read(first)
    assert fold(forked).snapshot()["messages"] == [user("one"), Message("assistant", text("two"))]
    assert isinstance(forked[0].event, events.SessionStarted)
    assert (forked[0].event.forked_from, forked[0].event.forked_at) == (source, 3)
    assert {one.id for one in await store.sessions() if one.forked_from == source} == {first, second}
    await store.delete(source, current_process())
    assert await store.read(first) == forked


async def test_only_the_path_to_the_entry_is_copied(store: Store) -> None:
    source = await put(
        store,
        facts_of(
            events.UserMessage(text("root")),
            events.UserMessage(text("left")),
            events.LeafMoved(2),
            events.UserMessage(text("right")),
        ),
    )
    for at, texts in (
        (None, ["root", "right"]),
        (5, ["root", "right"]),
        (3, ["root", "left"]),
        (2, ["root"]),
    ):
        forked = await store.read(await fork(store, source, at, World()))
        assert [message.text for message in fold(forked).transcript] == texts


async def test_a_fork_copies_the_current_settings_state_title_and_labels(store: Store) -> None:
    source = await put(
        store,
        facts_of(
            events.UserMessage(text("one")),
            events.SettingsChanged(model="a/b", reasoning="low"),
            events.ExtensionState("notes", "count", 1),
            events.Labelled(2, "begin"),
            events.UserMessage(text("two")),
            events.Labelled(6, "end"),
            events.SessionRenamed("first"),
            events.SettingsChanged(reasoning="high"),
            events.ExtensionState("notes", "count", 2),
            events.ExtensionState("notes", "colour", "red"),
            events.SessionRenamed("second"),
            b'{"type":"weather_noted","sky":"blue"}',
        ),
    )
    forked = await store.read(await fork(store, source, 2, World()))
    state = fold(forked)
    assert (state.title, state.settings.model, state.settings.reasoning) == ("second", "a/b", "high")
    assert state.labels == {2: "begin"}
    values = [(fact.event.key, fact.event.value) for fact in forked if fact.type == "extension_state"]
    assert values == [("count", 2), ("colour", "red")]
    assert forked[-1].body == b'{"type":"weather_noted","sky":"blue"}'
    titled = fold(await store.read(await fork(store, source, 2, World(), title="third")))
    assert titled.title == "third"


async def test_unknown_entries_and_fields_survive_a_fork_byte_for_byte(store: Store) -> None:
    bodies = (
        b'{"type":"entry_of_tomorrow","x": [1,  2], "critical":true}',
        b'{"type":"tool_result","call":"c","name":"t","mood":{"a":  1},"repeats":3}',
    )
    facts = facts_of(events.UserMessage(text("one")), *bodies)
    facts[-1].parent = 3
    forked = await store.read(await fork(store, await put(store, facts), None, World()))
    assert forked[2].body == bodies[0]
    assert forked[3].body == bodies[1]
    assert fold(forked).undecipherable == "entry_of_tomorrow"


async def test_numbers_of_entries_inside_a_copy_are_mapped(store: Store) -> None:
    left = events.UserMessage(text("left"))
    facts = facts_of(
        events.SessionRenamed("so that the numbers differ"),
        left,
        events.LeafMoved(0),
        events.UserMessage(text("one")),
        events.AssistantMessage("msg_1", text("two"), "end"),
        events.Compacted("in short", (5, 6), keeps_from=6),
        events.CompactionUndone(7),
        events.BranchCollapsed("what was on the left", leaf=3),
        events.ToolResultFact("call_1", "short", repeats=6),
    )
    forked = await store.read(await fork(store, await put(store, facts), None, World()))
    compacted, undone, collapsed, result = (fact.event for fact in forked[3:7])
    assert compacted == events.Compacted("in short", (2, 3), keeps_from=3)
    assert undone == events.CompactionUndone(4)
    assert collapsed == events.BranchCollapsed("what was on the left", leaf=0)
    assert result == events.ToolResultFact("call_1", "short", repeats=3)


def test_all_fields_with_numbers_are_references_or_plain_numbers() -> None:
    plain = {"tokens_before", "tokens_after", "step", "duration_ms"}
    for tag, kind in EVENT_TYPES.items():
        if issubclass(kind, events.Entry):
            hints = typing.get_type_hints(kind)
            numbers = {name for name, hint in hints.items() if hint in (int, tuple[int, ...])}
            assert numbers - plain == set(REFERENCES.get(tag, ())), tag


async def test_a_fork_of_a_fork_names_the_fork(store: Store) -> None:
    source = await put(store, facts_of(events.SessionRenamed("t"), events.UserMessage(text("one"))))
    first = await fork(store, source, None, World())
    second = await store.read(await fork(store, first, None, World()))
    assert second[1].origin == f"{first}:2"
    assert second[1].event == events.UserMessage(text("one"))


async def test_a_fork_refers_to_children(store: Store) -> None:
    facts = facts_of(
        events.AssistantMessage("msg_1", (ToolCall("call_1", "agent", "{}"),), "tool_calls"),
        events.ToolCalled("call_1", "agent", {}, 1),
        events.ToolStarted("call_1", "agent", child="ses_child"),
        events.ToolResultFact("call_1", "agent", text("done")),
    )
    forked = await store.read(await fork(store, await put(store, facts), None, World()))
    assert [fact.event.child for fact in forked if fact.type == "tool_started"] == ["ses_child"]
    assert violations(forked) == []


async def test_copied_output_survives_the_deletion_of_the_original(store: Store) -> None:
    ran = await run([Call("long", {"word": "again"}, id="call_1"), "done"], tools=[long], store=store)
    session = ran.session.id
    await ran.session.close()
    forked = await fork(store, session, None, World())
    whole = await store.read_blob(session, "result_call_1")
    await store.delete(session, current_process())
    assert await store.read_blob(forked, "result_call_1") == whole
    assert len(whole) == 120_000


async def test_a_fork_cut_between_two_results_can_be_sent_to_a_model(store: Store) -> None:
    calls = [Call("short", {"word": "a"}, id="call_a"), Call("short", {"word": "b"}, id="call_b")]
    ran = await run([calls, "done"], tools=[short], store=store)
    facts = await store.read(ran.session.id)
    entries = [fact.seq for fact in facts if fact.parent is not None]
    results = [fact.seq for fact in facts if fact.type == "tool_result"]
    assert len(results) == 2
    for at in entries:
        model = ScriptedModel(["gone on"])
        forked = await fork(store, ran.session.id, at, World())
        session = await open_session(store, forked, Harness(model))
        ended = await session.prompt(as_content("go on"))
        assert isinstance(ended, events.RunEnded) and ended.status == "completed"
        (request,) = model.requests
        messages = list(request.transcript)
        assert messages[-1] == user("go on")
        for message, following in pairwise(messages):
            assert [call.id for call in message.calls] == [
                block.call for block in following.content if isinstance(block, ToolResult)
            ]
        assert violations(await store.read(forked)) == []
    cut = fold(await store.read(await fork(store, ran.session.id, results[0], World())))
    first = facts[results[0] - 1].event
    assert isinstance(first, events.ToolResultFact)
    results = {block.call: block for block in cut.transcript[-1].content if isinstance(block, ToolResult)}
    assert list(results) == ["call_a", "call_b"]
    assert results.pop(first.call).content == first.content
    (unrun,) = results.values()
    assert (unrun.content, unrun.failed) == (text(NEVER_RUN), True)


async def test_a_fork_does_not_reuse_the_id_of_a_call_that_was_not_copied(store: Store) -> None:
    facts = facts_of(
        events.UserMessage(text("one")),
        events.AssistantMessage("msg_1", (ToolCall("call_0", "short", "{}"),), "tool_calls"),
    )
    forked = await fork(store, await put(store, facts), None, World())
    model = ScriptedModel([Call("short", {"word": "x"}, id="call_0"), "done"])
    harness = Harness(model)
    harness.set_tools([short])
    session = await open_session(store, forked, harness)
    await session.prompt(as_content("go on"))
    ids = [call.id for message in session.state.transcript for call in message.calls]
    assert ids[0] == "call_0" and len(set(ids)) == 2


async def test_forking_at_a_missing_entry_lists_the_entries(store: Store) -> None:
    source = await put(
        store,
        facts_of(
            events.UserMessage(text("2")),
            events.UserMessage(text("3")),
            events.SessionRenamed("4"),
            events.UserMessage(text("5")),
        ),
    )
    for at in (0, 1, 4, 6, -1):
        with pytest.raises(NotFound, match=rf"no entry {at}; its entries are 2-3, 5$"):
            await fork(store, source, at, World())
    empty = await put(store, facts_of(session="ses_empty"))
    with pytest.raises(NotFound, match="nothing to fork"):
        await fork(store, empty, None, World())
    with pytest.raises(NotFound, match="no session 'ses_none'"):
        await fork(store, "ses_none", None, World())
    assert {one.id for one in await store.sessions()} == {source, empty}


async def test_forking_before_the_first_entry_lists_the_entries(store: Store) -> None:
    source = await put(store, facts_of(events.UserMessage(text("one")), events.LeafMoved(0)))
    with pytest.raises(NotFound, match="fork at one of 2"):
        await fork(store, source, None, World())


async def test_a_running_session_can_be_forked(store: Store) -> None:
    facts = facts_of(
        events.RunStarted("0.1.0", "/p", "m"),
        events.UserMessage(text("one")),
        events.StepStarted(1),
        events.AssistantMessage("msg_1", (ToolCall("call_1", "short", "{}"),), "tool_calls"),
        events.ToolCalled("call_1", "short", {}, 1),
        events.ToolStarted("call_1", "short"),
    )
    forked = await store.read(await fork(store, await put(store, facts), None, World()))
    state = fold(forked)
    assert state.run is None
    assert isinstance(state.transcript[-1].content[0], ToolResult)
    assert path_of(forked) == {2, 3, 4}


async def test_a_missing_blob_does_not_prevent_a_fork(store: Store) -> None:
    result = events.ToolResultFact("call_1", "long", output=BlobRef("out_gone", 5))
    entries: list[Event] = [events.UserMessage(text("one")), result]
    forked = await fork(store, await put(store, facts_of(*entries)), None, World())
    assert await store.blob(forked, "out_gone") is None
