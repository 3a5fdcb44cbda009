"""Starting the echo agent under the driver, and waiting for what comes of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ostler.core.store import Store
from ostler.drivers.agent_spec import AgentSpec, Timing
from ostler.drivers.lifecycle import start_agent_session
from ostler.drivers.session import AgentSession
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.schema.messages import text_of
from ostler.store.memory import MemoryStore
from tests.support.process_end import has_ended

PATIENCE = 60
ECHO_AGENT = (sys.executable, "-S", "-E", str(Path(__file__).with_name("echo_agent.py")))
QUICK = Timing(
    stability=0.3,
    echo_timeout=0.4,
    echo_first_poll=0.02,
    echo_settle=0.05,
    processing_timeout=40.0,  # an agent on a slow machine is not deaf
    enter_again=40.0,
    ready_after=0.6,
    announced_dialog=0.05,
    unreadable_dialog=0.9,
    dialog_key=40.0,
    dialog_closes=40.0,
)


def echo_agent(cwd: Path, *arguments: str, **options: Any) -> AgentSpec:
    settings = {"agent_type": "custom", "rows": 100, "timing": QUICK, **options}
    return AgentSpec(command=(*ECHO_AGENT, *arguments), cwd=cwd, **settings)


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

    @property
    def texts(self) -> list[str]:
        """What was said, by the user and by the agent."""
        return [
            f"{fact.type.partition('_')[0]}: {text_of(fact.event.content)}"  # type: ignore[union-attr]
            for fact in self.facts
            if fact.type in ("user_message", "assistant_message")
        ]

    def all(self, kind: type[Any]) -> list[Any]:
        every = [one.event if isinstance(one, Fact) else one for one in self.seen]
        return [event for event in every if isinstance(event, kind)]

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

    async def until_stable(self) -> None:
        await self.until(lambda: self.session.status == "stable")

    async def ask(self, text: str) -> None:
        """Says it, and waits for the run's end."""
        ended = self.types.count("run_ended")
        await self.session.send(text)
        await self.until(lambda: self.types.count("run_ended") > ended)
        await self.until_stable()


@asynccontextmanager
async def at_work(agent: AgentSpec, store: Store | None = None, **options: Any) -> AsyncIterator[AtWork]:
    seen: list[Fact | Event] = []
    session = await start_agent_session(
        store or MemoryStore(), agent, on_open=lambda journal: _observe(journal, seen), **options
    )
    try:
        yield AtWork(session, seen)
    finally:
        async with asyncio.timeout(PATIENCE):
            await session.close()


def _observe(journal: Any, seen: list[Fact | Event]) -> None:
    journal.subscribe(seen.extend)


def wait_until_gone(pid: int) -> bool:
    """Whether a process of anybody's has ended, within the bound."""
    return has_ended(pid, PATIENCE)
