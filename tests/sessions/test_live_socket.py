"""Watching sessions that are driven here, in another process, or by nobody."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ostler.core.function_tool import tool
from ostler.core.harness import Harness, JournalListener
from ostler.core.processes import ProcessId
from ostler.core.recovery import close_interrupted_run
from ostler.models.scripted import Answer, Call, ScriptedModel
from ostler.schema.errors import UsageError
from ostler.schema.events import RunStarted
from ostler.sessions.live_socket import LiveSocket, Relay, remove_stale_sockets, socket_of
from ostler.sessions.session import Session, create_session, open_session
from ostler.sessions.streams import SessionStreams
from ostler.store.sqlite import SqliteStore
from tests.sessions.watched_stream import Reader, as_lines


class Machine:
    """Two processes as far as the store can tell: each has a store of its own on one file."""

    def __init__(self, folder: Path) -> None:
        self.here = SqliteStore(folder / "ostler.db")
        self.there = SqliteStore(folder / "ostler.db")
        self.watch = SessionStreams(self.there, as_lines)
        self.proceed = asyncio.Event()
        self.busy = asyncio.Event()

    def harness(self, *script: Answer) -> Harness:
        @tool
        async def hold() -> str:
            self.busy.set()
            await asyncio.wait_for(self.proceed.wait(), 60)
            return "held"

        harness = Harness(ScriptedModel(list(script)), wait_for_answers=True)
        harness.set_tools([hold])
        return harness

    async def close(self) -> None:
        self.watch.close()
        await self.here.close()
        await self.there.close()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    await machine.close()


async def prompt(session: Session) -> None:
    from ostler.schema.messages import as_content

    await session.prompt(as_content("go"))
    await session.close()


async def read_until(watch: SessionStreams, session: str, reader: Reader, kind: str) -> None:
    """Follows from where the reader is, to a fact or notice of that kind, and leaves."""
    follower = await watch.subscribe(session, reader.seq)
    async with asyncio.timeout(60), aclosing(follower.stream()) as stream:
        async for data in stream:
            reader.read(data)
            if kind in reader.notices or kind in reader.kinds:
                return


async def test_a_run_of_another_process_is_followed_with_deltas(machine: Machine) -> None:
    session = await create_session(machine.here, machine.harness(Call("hold"), "some words " * 20))
    reader = Reader()
    running = asyncio.ensure_future(prompt(session))
    watching = asyncio.ensure_future(read_until(machine.watch, session.id, reader, "run_ended"))
    await reader.until(lambda: "tool_started" in reader.kinds)
    machine.proceed.set()
    await watching
    await running
    stored = await machine.there.read(session.id)
    assert [fact["seq"] for fact in reader.facts] == [fact.seq for fact in stored]
    assert list(reader.whole.values())[-1] == "some words " * 20


async def test_a_late_subscriber_gets_the_open_tail_and_what_follows(machine: Machine) -> None:
    session = await create_session(machine.here, machine.harness(Call("hold"), "done"))
    running = asyncio.ensure_future(prompt(session))
    await asyncio.wait_for(machine.busy.wait(), 60)
    session.journal.publish([])
    early, late = Reader(), Reader()
    watching = asyncio.ensure_future(read_until(machine.watch, session.id, early, "run_ended"))
    follower = await machine.watch.subscribe(session.id)
    async with asyncio.timeout(60), aclosing(follower.stream()) as stream:
        async for data in stream:
            late.read(data)
            if late.caught_up:
                machine.proceed.set()
            if late.facts[-1]["type"] == "run_ended":
                break
    await watching
    await running
    assert early.facts == late.facts
    assert "stream_incomplete" not in early.notices + late.notices


async def test_an_idle_session_is_followed_until_a_process_drives_it(machine: Machine) -> None:
    session = await create_session(machine.here, machine.harness("one"))
    await session.close()
    reader = Reader()
    watching = asyncio.ensure_future(read_until(machine.watch, session.id, reader, "run_ended"))
    await reader.until(lambda: reader.caught_up)
    await prompt(await open_session(machine.here, session.id, machine.harness("hello there")))
    await watching
    assert [fact["seq"] for fact in reader.facts] == list(range(1, reader.seq + 1))


async def test_an_unreachable_owner_gives_facts_and_a_notice(machine: Machine) -> None:
    machine.here.socket_folder = None
    session = await create_session(machine.here, machine.harness(Call("hold"), "hello"))
    reader = Reader()
    watching = asyncio.ensure_future(read_until(machine.watch, session.id, reader, "run_ended"))
    running = asyncio.ensure_future(prompt(session))
    await reader.until(lambda: reader.notices)
    machine.proceed.set()
    await watching
    await running
    assert "stream_incomplete" in reader.notices
    assert reader.facts[-1]["type"] == "run_ended"


class ExitingOwner(SqliteStore):
    """Says for a moment after `gone_at` is set that the owner is still there."""

    gone_at = math.inf

    async def holder(self, session: str) -> ProcessId | None:
        return await super().holder(session) if time.monotonic() < self.gone_at else None


async def test_an_owner_that_closes_its_socket_and_exits_is_not_reported(tmp_path: Path) -> None:
    here, there = SqliteStore(tmp_path / "ostler.db"), ExitingOwner(tmp_path / "ostler.db")
    session = await create_session(here, Harness(ScriptedModel([])))
    session.journal.record(RunStarted(version="1.0", cwd="/", model="none"), run="run_1")
    await session.journal.commit()
    live_socket = LiveSocket(session.journal)
    await live_socket.open()
    relay, problems = Relay(there, session.id, 0), list[str]()
    async with asyncio.timeout(60), aclosing(relay.batches()) as batches:
        async for _ in batches:
            live_socket.close()
            there.gone_at = min(there.gone_at, time.monotonic() + 0.25)
            problems.append(relay.problem)
            if relay.owner is None:
                break
    assert set(problems) == {""}
    await close_interrupted_run(session.journal)
    await session.close()
    await there.close()
    await here.close()


async def test_a_local_session_publishes_to_its_stream(machine: Machine) -> None:
    harness = machine.harness("hello")
    harness.listeners = [JournalListener(machine.watch.attach)]
    session = await create_session(machine.there, harness)
    reader = Reader()
    watching = asyncio.ensure_future(read_until(machine.watch, session.id, reader, "run_ended"))
    await prompt(session)
    await watching
    assert list(reader.whole.values()) == ["hello"]
    assert machine.watch.streams() == []


async def test_a_socket_is_private_and_removed_with_its_session(machine: Machine) -> None:
    session = await create_session(machine.here, machine.harness(Call("hold"), "done"))
    running = asyncio.ensure_future(prompt(session))
    await asyncio.wait_for(machine.busy.wait(), 60)
    path = socket_of(machine.here.socket_folder, session.journal.lease.owner)
    assert path is not None
    folder = path.parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir()) == [path]
    machine.proceed.set()
    await running
    assert list(folder.iterdir()) == []


async def test_a_socket_with_a_long_path_is_in_a_private_temporary_folder(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteStore(tmp_path / ("long " * 20) / "ostler.db")
        session = await create_session(store, Harness(ScriptedModel([])))
        channel = LiveSocket(session.journal)
        await channel.open()
    finally:
        os.umask(before)
    path = socket_of(store.socket_folder, session.journal.lease.owner)
    assert path is not None and path.is_socket()
    folders = path.parents[: path.parents.index(Path("/tmp"))]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
    channel.close()
    await session.close()
    await store.close()
    path.parent.rmdir()


def test_a_process_that_exits_with_a_listener_prints_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def end() -> None:
        store = SqliteStore(tmp_path / "ostler.db")
        session = await create_session(store, Harness(ScriptedModel([])))
        channel = LiveSocket(session.journal)
        await channel.open()
        path = socket_of(store.socket_folder, session.journal.lease.owner)
        reader, writer = await asyncio.open_unix_connection(path)
        await asyncio.wait_for(reader.readexactly(1), 60)
        await session.close()
        await store.close()
        writer.close()
        channel.close()

    asyncio.run(end())
    assert "Exception in callback" not in caplog.text


def test_stale_sockets_are_removed() -> None:
    with TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as alive:
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(f"{folder}/gone.sock")
        alive.bind(f"{folder}/alive.sock")
        alive.listen()
        remove_stale_sockets(Path(folder))
        assert [path.name for path in Path(folder).iterdir()] == ["alive.sock"]


async def test_a_subscriber_ahead_of_the_stream_gets_nothing_twice(machine: Machine) -> None:
    session = await create_session(machine.here, machine.harness(Call("hold"), "done"))
    running = asyncio.ensure_future(prompt(session))
    await asyncio.wait_for(machine.busy.wait(), 60)
    first = await machine.watch.subscribe(session.id)
    (stream,) = machine.watch.streams()
    last_seq = (await machine.there.read(session.id))[-1].seq
    stream.last_seq = last_seq - 3  # what it has published so far
    reader = Reader(last_seq)
    watching = asyncio.ensure_future(read_until(machine.watch, session.id, reader, "run_ended"))
    await reader.until(lambda: reader.caught_up)
    assert stream.last_seq == last_seq
    machine.proceed.set()
    await watching
    await running
    first.unsubscribe()
    assert reader.facts[0]["seq"] == last_seq + 1
    with pytest.raises(UsageError, match="has no fact 999"):
        await machine.watch.subscribe(session.id, 999)


async def test_a_session_taken_over_here_continues_in_the_same_stream(
    machine: Machine,
) -> None:
    session = await create_session(machine.here, machine.harness("one"))
    reader = Reader()
    watching = asyncio.ensure_future(read_until(machine.watch, session.id, reader, "session_renamed"))
    await reader.until(lambda: reader.caught_up)
    await prompt(session)
    harness = machine.harness("two " * 50)
    harness.listeners = [JournalListener(machine.watch.attach)]
    await prompt(await open_session(machine.there, session.id, harness))
    await reader.until(lambda: reader.kinds.count("run_ended") == 2)
    watching.cancel()
    assert list(reader.whole.values())[-1] == "two " * 50
    stored = await machine.there.read(session.id)
    assert [fact["seq"] for fact in reader.facts] == [fact.seq for fact in stored]


async def test_a_subscriber_that_never_read_is_removed(machine: Machine) -> None:
    session = await create_session(machine.here, machine.harness("one"))
    follower = await machine.watch.subscribe(session.id)
    follower.unsubscribe()
    assert machine.watch.streams() == []
    await session.close()
