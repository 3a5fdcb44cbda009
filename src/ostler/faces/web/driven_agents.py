"""The agents of other vendors that this process drives, by the ids of their sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from ostler.kernel.journal import Journal
from ostler.kernel.store import Store
from ostler.vocabulary.errors import NotFound, UsageError

if TYPE_CHECKING:  # loaded when an agent is started
    from ostler.terminals.driven import DrivenAgent
    from ostler.terminals.driving import TerminalAgent
    from ostler.terminals.structured import StructuredAgent
    from ostler.terminals.timing import Timing

    Startable = TerminalAgent | StructuredAgent

CLOSED_WITHIN = 8.0
"""Seconds that all agents have to end, together: then they are not asked any more."""


class DrivenAgents:
    """What is in here is at work: an agent that has ended is taken out.

    `attend` is told of the journal of each session before its agent is started, so that whoever follows the
    session misses nothing: it is also for those who start an agent themselves, and `add` it.
    """

    def __init__(self, store: Store, attend: Callable[[Journal], None]) -> None:
        self.attend = attend
        self.timing: Timing | None = None
        """Of the agents that are started here, where it is not the usual one."""
        self._store = store
        self._agents: dict[str, DrivenAgent] = {}
        self._started_as: dict[str, Startable] = {}
        """By session, what was started in it last: never stored, since there may be secrets in it."""
        self._is_closing = False

    def __iter__(self) -> Iterator[DrivenAgent]:
        return iter(tuple(self._agents.values()))

    def __len__(self) -> int:
        return len(self._agents)

    def get(self, session: str) -> DrivenAgent | None:
        return self._agents.get(session)

    def started_as(self, session: str) -> Startable | None:
        """What was started in that session last, if that was here."""
        return self._started_as.get(session)

    def forget(self, session: str) -> None:
        """How an agent was started in it: the session is gone."""
        self._started_as.pop(session, None)

    def add(self, agent: DrivenAgent) -> None:
        """An agent that was started elsewhere in this process, with `attend`. It ends with the others."""
        self._agents[agent.id] = agent
        agent.ended.add_done_callback(lambda ended: self._take_out(agent))

    def _take_out(self, agent: DrivenAgent) -> None:
        if self._agents.get(agent.id) is agent:
            del self._agents[agent.id]

    async def start(self, agent: Startable, *, session: str = "") -> DrivenAgent:
        """In a new session, of that id if one is given. Where the agent cannot be started there is none."""
        from ostler.terminals.driving import TerminalAgent
        from ostler.terminals.starting import start_terminal_session

        self._refuse_when_closing()
        started: DrivenAgent
        if isinstance(agent, TerminalAgent):
            agent = self._timed(agent)
            started = await start_terminal_session(self._store, agent, session=session, attend=self.attend)
        else:
            from ostler.terminals.structured import start_structured_session

            started = await start_structured_session(self._store, agent, session=session, attend=self.attend)
        return await self._take_in(started, agent)

    async def restart(self, session: str, agent: Startable) -> DrivenAgent:
        """Once more in the session of such an agent. Raises `SessionHeld` while one is at work in it, and
        `UsageError` where the agent was driven in another way."""
        from ostler.terminals.driving import TerminalAgent
        from ostler.terminals.starting import restart_terminal_session

        self._refuse_when_closing()
        started: DrivenAgent
        if isinstance(agent, TerminalAgent):
            agent = self._timed(agent)
            started = await restart_terminal_session(self._store, session, agent, attend=self.attend)
        else:
            from ostler.terminals.structured import restart_structured_session

            started = await restart_structured_session(self._store, session, agent, attend=self.attend)
        return await self._take_in(started, agent)

    async def end(self, session: str) -> None:
        """Ends the agent, and waits until nothing of it is left. Raises `NotFound` if none is driven here."""
        if (agent := self._agents.get(session)) is None:
            raise NotFound(f"no agent is at work in session {session} here")
        await agent.close()

    async def close(self) -> None:
        """Ends all of them, at the same time. No other can be started."""
        self._is_closing = True
        closing = {asyncio.ensure_future(agent.close()) for agent in self}
        if not closing:
            return
        _, late = await asyncio.wait(closing, timeout=CLOSED_WITHIN)
        for one in late:
            one.cancel()  # which hurries it
        if late:
            await asyncio.wait(late, timeout=CLOSED_WITHIN)

    async def _take_in(self, started: DrivenAgent, agent: Startable) -> DrivenAgent:
        if self._is_closing:
            await started.close()
            self._refuse_when_closing()
        self._started_as[started.id] = agent
        self.add(started)
        return started

    def _timed(self, agent: TerminalAgent) -> TerminalAgent:
        return msgspec.structs.replace(agent, timing=self.timing) if self.timing else agent

    def _refuse_when_closing(self) -> None:
        if self._is_closing:
            raise UsageError("no agent can be started any more: the server is about to end")
