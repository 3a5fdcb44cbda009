"""Starting small agents under the drivers, and waiting for what comes of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ostler.core.journal import Journal
from ostler.core.store import Store
from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.lifecycle import restart_agent_session, start_agent_session
from ostler.drivers.session import AgentSession
from ostler.schema import events, requests
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.schema.messages import text_of
from ostler.store.invariants import violations
from ostler.store.memory import MemoryStore

PATIENCE = 60
_HERE = Path(__file__).parent


def acp_agent(cwd: Path, *arguments: str, **options: Any) -> AgentSpec:
    command = (sys.executable, str(_HERE / "acp_agent.py"), *arguments)
    return AgentSpec(command=command, cwd=cwd, transport="acp", **options)


def claude(cwd: Path, *arguments: str, **options: Any) -> AgentSpec:
    command = (sys.executable, "-S", "-E", str(_HERE / "fake_claude.py"), *arguments)
    return AgentSpec(command=command, cwd=cwd, transport="stream-json", agent_type="claude", **options)


class AtWork:
    """A session, and all that an observer saw of it."""

    def __init__(self, session: AgentSession, seen: list[Fact | Event]) -> None:
        self.session = session
        self.seen = seen

    @property
    def facts(self) -> list[Fact]:
        return [one for one in self.seen if isinstance(one, Fact)]

    @property
    def types(self) -> list[str]:
        return [fact.type for fact in self.facts]

    def all(self, kind: type[Any]) -> list[Any]:
        every = [one.event if isinstance(one, Fact) else one for one in self.seen]
        return [event for event in every if isinstance(event, kind)]

    def last(self, kind: type[Any]) -> Any:
        return self.all(kind)[-1]

    @property
    def answers(self) -> list[str]:
        return [text_of(one.content) for one in self.all(events.AssistantMessage)]

    async def until(self, holds: Callable[[], object]) -> None:
        """Until that is so; looked at whenever something is seen."""
        stirred = asyncio.Event()
        stop = self.session.journal.subscribe(lambda batch: stirred.set())
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds():
                    await stirred.wait()
                    stirred.clear()
        finally:
            stop()

    async def say(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.session.send(text)

    async def question(self, number: int = 1) -> events.QuestionAsked:
        await self.until(lambda: len(self.all(events.QuestionAsked)) >= number)
        asked: events.QuestionAsked = self.all(events.QuestionAsked)[number - 1]
        return asked

    async def submit(self, request: requests.AnyRequest) -> None:
        await self.session.journal.store.submit(self.session.id, request)


@asynccontextmanager
async def at_work(agent: AgentSpec, store: Store | None = None, *, again: str = "") -> AsyncIterator[AtWork]:
    """In a new session, or in one that it had before."""
    seen: list[Fact | Event] = []
    store = store or MemoryStore()
    on_open = partial(_observe, seen)
    if again:
        session = await restart_agent_session(store, again, agent, on_open=on_open)
    else:
        session = await start_agent_session(store, agent, on_open=on_open)
    try:
        yield AtWork(session, seen)
    finally:
        async with asyncio.timeout(PATIENCE):
            await session.close()
    assert not violations(await store.read(session.id))
    assert not await store.holder(session.id)


def _observe(seen: list[Fact | Event], journal: Journal) -> None:
    journal.subscribe(seen.extend)
