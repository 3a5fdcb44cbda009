"""Sessions of other vendors' agents: no model ever answers in them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.journal import World
from ostler.core.processes import process_environment
from ostler.core.store import Lease
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import SessionBusy, UsageError
from ostler.schema.facts import Fact
from ostler.schema.ids import new_id
from ostler.schema.requests import AnyRequest
from ostler.sessions.lease import close_dead_agents, new_owner
from ostler.sessions.supervisor import Supervisor
from ostler.store.memory import MemoryStore


async def driven_agent(
    store: MemoryStore, session: str, driver: Any = "terminal", child_of: str = ""
) -> Lease:
    started = events.SessionStarted("/", "0", driver=driver, child_of=child_of)
    first = Fact.of(started, seq=1, session=session, run="", time_ms=1)
    return await store.create(first, new_owner(World()))


async def ended_agent(store: MemoryStore, driver: Any = "terminal", child_of: str = "") -> str:
    """A session that no process drives any more."""
    lease = await driven_agent(store, "ses_agent", driver, child_of)
    await store.release(lease)
    return lease.session


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    store = MemoryStore()
    yield store
    await store.close()


@pytest.mark.parametrize("driver", ["terminal", "acp", "stream-json"])
async def test_a_prompt_to_an_agent_that_has_ended_is_refused(store: MemoryStore, driver: str) -> None:
    session = await ended_agent(store, driver)
    model = ScriptedModel(["never"])
    supervisor = Supervisor(store, lambda cwd: Harness(model, cwd=cwd))
    with pytest.raises(SessionBusy, match="has ended: "):
        await supervisor.queue(session, "anybody there?")
    for starting in (supervisor.start("anybody there?", session=session), supervisor.advance(session)):
        with pytest.raises(UsageError, match="start its agent again"):
            await starting
    assert await store.pending(session) == []
    assert await store.holder(session) is None
    assert model.requests == []
    await supervisor.close()


class GivenBackMeanwhile(MemoryStore):
    """Whoever drives the agent leaves when the request is there, and does not look any more."""

    async def submit(self, session: str, request: AnyRequest) -> bool:
        is_new = await super().submit(session, request)
        if (held := self.held) is not None:
            self.held = None
            await self.release(held)
        return is_new

    held: Lease | None = None


async def test_a_cancel_that_reaches_an_agent_as_it_ends_is_refused() -> None:
    store = GivenBackMeanwhile()
    session = await ended_agent(store)
    store.held = await store.acquire(session, new_owner(World()))
    supervisor = Supervisor(store, lambda cwd: Harness(ScriptedModel(["never"]), cwd=cwd))
    request = await supervisor.cancel(session)
    assert await store.pending(session) == []
    (fact,) = (await store.read(session))[1:]
    assert fact.event == events.RequestRefused(request, "no run is open")
    await supervisor.close()
    await store.close()


async def test_a_request_to_a_runs_agent_is_refused_while_the_run_is_open(store: MemoryStore) -> None:
    busy, proceed = asyncio.Event(), asyncio.Event()

    @tool
    async def hold() -> str:
        busy.set()
        await proceed.wait()
        return "held"

    def equip(cwd: Any) -> Harness:
        harness = Harness(ScriptedModel([Turn(calls=(Call("hold"),)), "done"]), cwd=cwd)
        harness.set_tools([hold])
        return harness

    supervisor = Supervisor(store, equip)
    running = await supervisor.start("go")
    async with asyncio.timeout(60):
        await busy.wait()
        session = await ended_agent(store, child_of=running.session)
        with pytest.raises(SessionBusy, match="has ended"):
            await supervisor.queue(session, "anybody there?")
        proceed.set()
        await running.result()
    await supervisor.close()


def stray(session: str) -> subprocess.Popen[bytes]:
    """Once it answers: before that, the kernel may not tell its environment yet."""
    variables = {**os.environ, **process_environment(session, "terminal")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    one = subprocess.Popen(["cat"], env=variables, start_new_session=True, bufsize=0, **pipes)
    assert one.stdin is not None and one.stdout is not None
    one.stdin.write(b"here")
    assert one.stdout.read(4) == b"here"
    return one


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment of processes")
async def test_detached_processes_of_an_agent_end_with_a_dead_owner_between_runs(
    store: MemoryStore,
) -> None:
    dead, driven = new_id("ses"), new_id("ses")
    await store.release(await driven_agent(store, dead))
    await driven_agent(store, driven)
    strays = {session: stray(session) for session in (dead, driven)}
    try:
        assert await close_dead_agents(store, World()) == [dead]
        assert strays[dead].wait(60) < 0
        assert strays[driven].poll() is None
    finally:
        for one in strays.values():
            one.kill()
            one.communicate()
