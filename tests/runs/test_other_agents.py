"""Sessions of other vendors' agents: no model ever answers in them, whoever asks and however."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ostler.kernel.harness import Harness
from ostler.kernel.journal import World
from ostler.kernel.tool import tool
from ostler.log.memory import MemoryStore
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.runs.lease import new_owner
from ostler.runs.supervisor import Supervisor
from ostler.vocabulary import events
from ostler.vocabulary.errors import SessionBusy, UsageError
from ostler.vocabulary.facts import Fact


async def ended_agent(store: MemoryStore, driver: Any = "terminal", child_of: str = "") -> str:
    """A session that nobody drives any more."""
    started = events.SessionStarted("/", "0", driver=driver, child_of=child_of)
    first = Fact.of(started, seq=1, session="ses_agent", run="", time_ms=1)
    await store.release(await store.create(first, new_owner(World())))
    return first.session


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
    for begun in (supervisor.start("anybody there?", session=session), supervisor.advance(session)):
        with pytest.raises(UsageError, match="start its agent again"):
            await begun
    assert await store.pending(session) == []
    assert await store.holder(session) is None
    assert model.requests == []
    await supervisor.close()


async def test_an_agent_that_worked_for_a_run_is_refused_while_the_run_goes_on(store: MemoryStore) -> None:
    busy, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def hold() -> str:
        busy.set()
        await go_on.wait()
        return "held"

    def equip(cwd: Any) -> Harness:
        harness = Harness(ScriptedModel([Turn(calls=(Call("hold"),)), "done"]), cwd=cwd)
        harness.use([hold])
        return harness

    supervisor = Supervisor(store, equip)
    running = await supervisor.start("go")
    async with asyncio.timeout(60):
        await busy.wait()
        session = await ended_agent(store, child_of=running.session)
        with pytest.raises(SessionBusy, match="has ended"):
            await supervisor.queue(session, "anybody there?")
        go_on.set()
        await running.result()
    await supervisor.close()
