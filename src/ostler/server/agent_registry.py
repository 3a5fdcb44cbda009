"""The agents of other vendors that this process drives, by session, and the API's shape of a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from ostler.core.journal import Journal
from ostler.core.lazy import lazy_module
from ostler.core.store import Store
from ostler.schema.errors import NotFound, UsageError

if TYPE_CHECKING:  # loaded when an agent is started
    from ostler.drivers import agent_spec, lifecycle
    from ostler.drivers.agent_spec import AgentSpec, Timing
    from ostler.drivers.session import AgentSession
else:
    agent_spec = lazy_module("ostler.drivers.agent_spec")
    lifecycle = lazy_module("ostler.drivers.lifecycle")

CLOSED_WITHIN = 8.0
"""Seconds that all agents together have to end before they are killed."""


class AgentRegistry:
    """The running agents: one that has ended is removed.

    `on_open` gets the journal of each session before its agent is started, so that subscribers miss nothing.
    Code that starts an agent itself uses it too, and then calls `add`.
    """

    def __init__(self, store: Store, on_open: Callable[[Journal], None]) -> None:
        self.on_open = on_open
        self.timing: Timing | None = None
        """Of the agents started here, unless None."""
        self._store = store
        self._agents: dict[str, AgentSession] = {}
        self._started_as: dict[str, AgentSpec] = {}
        """By session, the last spec: never stored, since it may contain secrets."""
        self._is_closing = False

    def __iter__(self) -> Iterator[AgentSession]:
        return iter(tuple(self._agents.values()))

    def __len__(self) -> int:
        return len(self._agents)

    def get(self, session: str) -> AgentSession | None:
        return self._agents.get(session)

    def started_as(self, session: str) -> AgentSpec | None:
        """The last agent started in that session, if it was started here."""
        return self._started_as.get(session)

    def forget(self, session: str) -> None:
        """Called when the session is deleted."""
        self._started_as.pop(session, None)

    def add(self, agent: AgentSession) -> None:
        """Adds an agent that was started elsewhere in this process, with `on_open`."""
        self._agents[agent.id] = agent
        agent.ended.add_done_callback(lambda ended: self._remove(agent))

    def _remove(self, agent: AgentSession) -> None:
        if self._agents.get(agent.id) is agent:
            del self._agents[agent.id]

    async def start(self, spec: AgentSpec, *, session: str = "") -> AgentSession:
        """Starts it in a new session, of that id if one is given; without a session when that fails."""
        self._refuse_when_closing()
        spec = self._timed(spec)
        agent = await lifecycle.start_agent_session(self._store, spec, session=session, on_open=self.on_open)
        return await self._keep(agent, spec)

    async def restart(self, session: str, spec: AgentSpec) -> AgentSession:
        """Starts it again in its session. Raises `SessionHeld` while an agent runs in it, and `UsageError` if
        the agent was driven in another way."""
        self._refuse_when_closing()
        spec = self._timed(spec)
        agent = await lifecycle.restart_agent_session(self._store, session, spec, on_open=self.on_open)
        return await self._keep(agent, spec)

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

    async def _keep(self, agent: AgentSession, spec: AgentSpec) -> AgentSession:
        if self._is_closing:
            await agent.close()
            self._refuse_when_closing()
        self._started_as[agent.id] = spec
        self.add(agent)
        return agent

    def _timed(self, spec: AgentSpec) -> AgentSpec:
        return msgspec.structs.replace(spec, timing=self.timing) if self.timing else spec

    def _refuse_when_closing(self) -> None:
        if self._is_closing:
            raise UsageError("no agent can be started any more: the server is about to end")


Size = Annotated[int, msgspec.Meta(ge=10, le=5000)]


class NewAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another vendor's agent: what to start, and how it is to be driven."""

    command: Annotated[list[str], msgspec.Meta(min_length=1)]
    """The program and its arguments; no shell reads them."""
    type: str = ""
    """`claude`, `codex` and so on: how its screen is read. The command says it, if it is left out."""
    transport: Literal["pty", "acp", "stream-json"] = "pty"
    """`pty`: a terminal. The others are for agents that speak a protocol, and have no screen."""
    columns: Size = 80
    rows: Size = 1000
    environment: dict[str, str] = {}
    """Variables beside those of the server."""
    initial_prompt: str = ""
    """What it is told as soon as it is ready."""
    ready_regex: str = ""
    """It is ready when its screen matches this; what is known of its type decides, if it is left out."""
    ready_after: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None
    """Or when its screen has not changed for so many seconds."""


def agent_to_start(agent: NewAgent, cwd: Path) -> AgentSpec:
    """Raises `UsageError`."""
    return agent_spec.AgentSpec(
        command=agent.command,
        cwd=cwd,
        transport=agent.transport,
        agent_type=agent.type,
        columns=agent.columns,
        rows=agent.rows,
        environment=_checked(agent.environment),
        initial_prompt=agent.initial_prompt,
        ready_regex=agent.ready_regex,
        ready_after=agent.ready_after,
    )


def _checked(environment: dict[str, str]) -> dict[str, str]:
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise UsageError(f"{name[:100]!r} is no name of a variable, or its value has a NUL in it")
    return environment
