"""What is seen of a session that others drive, and what becomes of it when it is ours again."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

from ostler.core.harness import Harness
from ostler.models.scripted import ScriptedModel
from ostler.schema.events import Event, TextDelta, ToolInputDelta, ToolInputStarted, Warned
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content
from ostler.sessions.lease import hold_lease
from ostler.sessions.live_socket import DeltaFilter, Relay
from ostler.sessions.session import create_session, open_or_follow, open_session
from ostler.store.sqlite import SqliteStore


def test_repeated_live_events_are_filtered() -> None:
    fresh = DeltaFilter()
    deltas: list[Event] = [
        TextDelta("m", 0, 0, "one "),
        TextDelta("m", 0, 4, "two"),
        ToolInputStarted("m", 1, "c", "write"),
        ToolInputDelta("m", 1, "c", 0, '{"pa'),
    ]
    assert fresh.among(deltas) == deltas
    again: list[Event] = [
        TextDelta("m", 0, 0, "one two three"),
        ToolInputStarted("m", 1, "c", "write"),
        ToolInputDelta("m", 1, "c", 0, '{"path"'),
    ]
    assert fresh.among(again) == [TextDelta("m", 0, 7, " three"), ToolInputDelta("m", 1, "c", 4, 'th"')]
    assert fresh.among(again) == []
    assert fresh.among([TextDelta("other", 0, 0, "one two three")])


async def test_a_followed_session_is_taken_over_with_its_postponed_facts(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "ostler.db")
    driving = await create_session(store, Harness(ScriptedModel(["one", "two"])))
    watching = await open_or_follow(store, driving.id, Harness(ScriptedModel(["three"])))
    assert watching.journal.is_detached
    watching.journal.record(Warned("recorded while another process had it"))
    await watching.journal.commit()
    await driving.prompt(as_content("first"))
    await driving.close()
    await hold_lease(watching.journal)
    await watching.prompt(as_content("second"))
    await watching.close()
    facts = await store.read(driving.id)
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
    kinds = [fact.type for fact in facts if fact.type in ("run_started", "warned")]
    assert kinds == ["run_started", "warned", "run_started"]
    await store.close()


async def test_a_relay_finds_the_process_that_takes_over_from_an_idle_owner(tmp_path: Path) -> None:
    store, others = SqliteStore(tmp_path / "ostler.db"), SqliteStore(tmp_path / "ostler.db")
    resting = await create_session(others, Harness(ScriptedModel(["one"])))
    await resting.prompt(as_content("first"))
    relay, seen = Relay(store, resting.id, 0, look_again=0.05), asyncio.Event()
    facts: list[Fact] = []

    async def read() -> None:
        async with aclosing(relay.batches()) as batches:
            async for batch in batches:
                facts.extend(one for one in batch if isinstance(one, Fact))
                seen.set()

    async def until(count: int) -> None:
        async with asyncio.timeout(60):
            while sum(fact.type == "run_ended" for fact in facts) < count:
                seen.clear()
                await seen.wait()

    reading = asyncio.ensure_future(read())
    await until(1)
    await others.release(resting.journal.lease)  # its socket is still there
    taking = await open_session(others, resting.id, Harness(ScriptedModel(["two"])))
    await taking.prompt(as_content("second"))
    await until(2)
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
    reading.cancel()
    await asyncio.wait({reading})
    await taking.close()
    await resting.close()
    await store.close()
    await others.close()
