"""The agents of other vendors that this process drives, by session, and the API's shape of a new one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from ostler.core.journal import Journal
from ostler.core.lazy import lazy_module
from ostler.core.store import Store
from ostler.schema.errors import NotFound, OstlerError, UsageError

if TYPE_CHECKING:  # loaded when an agent is started
    from ostler.drivers import agent_spec, lifecycle
    from ostler.drivers.agent_spec import AgentSpec, Timing
    from ostler.drivers.session import AgentSession
else:
    agent_spec = lazy_module("ostler.drivers.agent_spec")
    lifecycle = lazy_module("ostler.drivers.lifecycle")

CLOSED_WITHIN = 8.0
"""Seconds that all agents together have to end before they are killed."""

_CLOSING = "no agent can be started: the server is shutting down"


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
        self.started_as: dict[str, AgentSpec] = {}
        """By session, the spec of its last agent: never stored, since it may contain secrets."""
        self._is_closing = False

    def __iter__(self) -> Iterator[AgentSession]:
        return iter(tuple(self._agents.values()))

    def __len__(self) -> int:
        return len(self._agents)

    def get(self, session: str) -> AgentSession | None:
        return self._agents.get(session)

    def add(self, agent: AgentSession) -> None:
        """Adds an agent that was started elsewhere in this process, with `on_open`."""
        self._agents[agent.id] = agent
        agent.ended.add_done_callback(lambda ended: self._remove(agent))

    def _remove(self, agent: AgentSession) -> None:
        if self._agents.get(agent.id) is agent:
            del self._agents[agent.id]

    async def start(self, spec: AgentSpec, *, session: str = "") -> AgentSession:
        """Starts it in a new session. When it cannot be started, the session is deleted."""
        spec = self._timed(spec)
        start = lifecycle.start_agent_session(self._store, spec, session=session, on_open=self.on_open)
        return await self._register(await _started(start), spec)

    async def restart(self, session: str, spec: AgentSpec) -> AgentSession:
        """Starts it again in its session. Raises `SessionHeld` while an agent runs in it, and `UsageError` if
        the agent was driven in another way."""
        spec = self._timed(spec)
        start = lifecycle.restart_agent_session(self._store, session, spec, on_open=self.on_open)
        return await self._register(await _started(start), spec)

    async def end(self, session: str) -> None:
        """Ends the agent and all its processes. Raises `NotFound` if none is driven here."""
        if (agent := self._agents.get(session)) is None:
            raise NotFound(f"no agent is running in session {session} here")
        await agent.close()

    async def close(self) -> None:
        """Ends all agents at the same time. No other can be started."""
        self._is_closing = True
        closing = {asyncio.ensure_future(agent.close()) for agent in self}
        if not closing:
            return
        _, late = await asyncio.wait(closing, timeout=CLOSED_WITHIN)
        for one in late:
            one.cancel()  # then it is killed
        if late:
            await asyncio.wait(late, timeout=CLOSED_WITHIN)

    async def _register(self, agent: AgentSession, spec: AgentSpec) -> AgentSession:
        if self._is_closing:
            await agent.close()
            raise UsageError(_CLOSING)
        self.started_as[agent.id] = spec
        self.add(agent)
        return agent

    def _timed(self, spec: AgentSpec) -> AgentSpec:
        """Raises `UsageError` while the server ends."""
        if self._is_closing:
            raise UsageError(_CLOSING)
        return msgspec.structs.replace(spec, timing=self.timing) if self.timing else spec


Size = Annotated[int, msgspec.Meta(ge=10, le=5000)]


class NewAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another vendor's agent: what to start, and how to drive it."""

    command: Annotated[list[str], msgspec.Meta(min_length=1)]
    """The program and its arguments, without a shell."""
    type: str = ""
    """How its screen is read: `claude`, `codex` and so on; by default detected from the command."""
    transport: Literal["pty", "acp", "stream-json"] = "pty"
    """`pty`: a terminal. The others are for agents that speak a protocol, and have no screen."""
    columns: Size = 80
    rows: Size = 1000
    environment: dict[str, str] = {}
    """Variables in addition to those of the server."""
    initial_prompt: str = ""
    """Sent as soon as it is ready."""
    ready_regex: str = ""
    """It is ready when its screen matches this; by default, when it shows the input box of its type."""
    ready_after: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None
    """Or when its screen has not changed for so many seconds."""


def agent_to_start(agent: NewAgent, cwd: Path) -> AgentSpec:
    """Raises `UsageError`."""
    for name, value in agent.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise UsageError(f"{name[:100]!r} is not the name of a variable, or its value contains a NUL")
    fields = msgspec.structs.asdict(agent)
    return agent_spec.AgentSpec(cwd=cwd, agent_type=fields.pop("type"), **fields)


async def _started(start: Awaitable[AgentSession]) -> AgentSession:
    """Raises `UsageError` if the command fails at once: it is no agent that this transport drives."""
    try:
        return await start
    except OstlerError as error:
        if type(error) is OstlerError:
            raise UsageError(error.message) from None
        raise
