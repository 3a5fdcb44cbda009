"""A terminal agent's session is a session: watched like any other, from here and from other processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ostler.core.harness import harness_without_model
from ostler.core.journal import Journal
from ostler.core.processes import ProcessId, kill_processes_of
from ostler.core.store import Lease
from ostler.drivers.agent_messages import stored_messages
from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.lifecycle import restart_agent_session, start_agent_session
from ostler.history.export import transcript
from ostler.schema.errors import SessionHeld, UsageError
from ostler.schema.events import Event, LiveValue
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content
from ostler.sessions.session import open_session
from ostler.sessions.streams import SessionStreams, SessionSubscriber
from ostler.sessions.supervisor import Supervisor
from ostler.store.sqlite import SqliteStore
from tests.drivers.screen_agents import PATIENCE, AtWork, at_work, echo_agent, wait_until_gone
from tests.sessions.watched_stream import Reader, as_lines


async def read_until(follower: SessionSubscriber, reader: Reader, wanted: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not wanted():
            reader.read(await follower.next() or b"")


async def test_the_driving_process_publishes_to_its_own_stream(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ostler.db")
    watch = SessionStreams(store, as_lines)
    session = await start_agent_session(store, echo_agent(tmp_path), on_open=watch.attach)
    follower, reader = await watch.subscribe(session.id), Reader()
    try:
        await read_until(follower, reader, lambda: "assistant_message" in reader.kinds)
        await session.send("one")
        await read_until(follower, reader, lambda: "run_ended" in reader.kinds)
        assert "you said: one" in reader.values["terminal:screen"]["text"]
    finally:
        await session.close()
        follower.unsubscribe()
        watch.close()
        await store.close()


async def test_another_process_sees_facts_and_live_values_but_cannot_take_the_session(tmp_path: Path) -> None:
    store, theirs = SqliteStore(tmp_path / "ostler.db"), SqliteStore(tmp_path / "ostler.db")
    watch = SessionStreams(theirs, as_lines)
    async with at_work(echo_agent(tmp_path), store) as agent:
        await agent.until_stable()
        follower, reader = await watch.subscribe(agent.session.id), Reader()
        await read_until(follower, reader, lambda: "terminal:status" in reader.values)
        assert reader.values["terminal:status"]["status"] == "stable"
        assert "Hello, I repeat things." in reader.values["terminal:screen"]["text"]
        with pytest.raises(SessionHeld):
            await restart_agent_session(theirs, agent.session.id, echo_agent(tmp_path))
        follower.unsubscribe()
    shown = "\n".join(transcript(await store.summary(agent.session.id), await store.read(agent.session.id)))
    assert "Hello, I repeat things." in shown
    watch.close()
    await theirs.close()
    await store.close()


class SlowStore(SqliteStore):
    """Registers a process only once its screen is live, as on a busy machine."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.screen_is_live = asyncio.Event()

    def watch(self, journal: Journal) -> None:
        journal.subscribe(self._see)

    def _see(self, batch: Sequence[Fact | Event]) -> None:
        for event in batch:
            if isinstance(event, LiveValue) and event.name == "terminal:screen" and event.value["text"]:
                self.screen_is_live.set()

    async def own_process(self, lease: Lease, call: str, process: ProcessId) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.screen_is_live.wait()
        await super().own_process(lease, call, process)


async def test_another_process_sees_a_screen_that_was_live_while_the_agent_was_starting(
    tmp_path: Path,
) -> None:
    store, theirs = SlowStore(tmp_path / "ostler.db"), SqliteStore(tmp_path / "ostler.db")
    watch = SessionStreams(theirs, as_lines)
    session = await start_agent_session(
        store, AgentSpec(command=("sh", "-c", "printf ready; exec cat"), cwd=tmp_path), on_open=store.watch
    )
    try:
        subscriber, reader = await watch.subscribe(session.id), Reader()
        await read_until(subscriber, reader, lambda: reader.values)
        assert reader.values["terminal:screen"]["text"] == "ready"
        subscriber.unsubscribe()
    finally:
        await session.close()
        watch.close()
        await theirs.close()
        await store.close()


async def test_no_model_answers_in_a_session_whose_agent_has_ended(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ostler.db")
    async with at_work(echo_agent(tmp_path), store) as agent:
        await agent.until_stable()
    opened = await open_session(store, agent.session.id, harness_without_model(str(tmp_path)))
    with pytest.raises(UsageError, match="start its agent again"):
        await opened.prompt(as_content("anybody there?"))
    await opened.close()
    supervisor = Supervisor(store, lambda cwd: harness_without_model(str(cwd)))
    with pytest.raises(UsageError, match="has ended: start it again"):
        await supervisor.queue(agent.session.id, "anybody there?")
    assert await store.pending(agent.session.id) == []
    await store.close()


OWNER = """
import asyncio, sys
from pathlib import Path
from ostler.store.sqlite import SqliteStore
from tests.drivers.screen_agents import at_work, echo_agent

async def main(folder):
    async with at_work(echo_agent(folder), SqliteStore(folder / "ostler.db")) as agent:
        await agent.until_stable()
        await agent.session.send("/think")
        print(agent.session.id, agent.session.driver.process.id.pid, flush=True)
        await asyncio.sleep(1000)

asyncio.run(main(Path(sys.argv[1])))
"""


def killed_owner(folder: Path) -> tuple[str, int]:
    """The session and the agent of a process that was killed in the middle of a run."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as owner:
        assert owner.stdout is not None
        session, pid = owner.stdout.readline().split()
        owner.kill()
    return session, int(pid)


async def test_a_killed_owner_leaves_no_orphan_and_the_next_one_ends_its_run(tmp_path: Path) -> None:
    session, pid = await asyncio.to_thread(killed_owner, tmp_path)
    try:
        assert wait_until_gone(pid)
    finally:
        kill_processes_of(session)
    store = SqliteStore(tmp_path / "ostler.db")
    again = await restart_agent_session(store, session, echo_agent(tmp_path))
    second = AtWork(again, [])
    again.journal.subscribe(second.seen.extend)
    await second.until_stable()
    await second.ask("here again")
    await again.close()
    facts = await store.read(session)
    ends = [fact.event for fact in facts if fact.type == "run_ended"]
    assert [end.status for end in ends] == ["interrupted", "completed"]  # type: ignore[union-attr]
    said = [one.message.text for one in stored_messages(facts)]
    assert said[:2] == ["Hello, I repeat things.", "/think"]
    assert said[-2:] == ["here again", "you said: here again"]
    await store.close()
