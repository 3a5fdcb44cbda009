"""The agents of other vendors that this process drives, by session id."""

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

if TYPE_CHECKING:
    from ostler.drivers import driver, lifecycle, screen_driver
    from ostler.drivers.driver import ProtocolAgentSpec
    from ostler.drivers.screen_driver import ScreenAgentSpec
else:
    driver = lazy_module("ostler.drivers.driver")
    lifecycle = lazy_module("ostler.drivers.lifecycle")
    screen_driver = lazy_module("ostler.drivers.screen_driver")


if TYPE_CHECKING:  # loaded when an agent is started
    from ostler.drivers.driver import DrivenAgent, ProtocolAgentSpec
    from ostler.drivers.screen_driver import ScreenAgentSpec
    from ostler.drivers.tracker import Timing

    Startable = ScreenAgentSpec | ProtocolAgentSpec


CLOSED_WITHIN = 8.0
"""Seconds that all agents have to end, together: then they are not asked any more."""


class AgentRegistry:
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
        self._refuse_when_closing()
        started: DrivenAgent
        if isinstance(agent, screen_driver.ScreenAgentSpec):
            agent = self._timed(agent)
            started = await lifecycle.start_screen_session(
                self._store, agent, session=session, attend=self.attend
            )
        else:
            started = await lifecycle.start_protocol_session(
                self._store, agent, session=session, attend=self.attend
            )
        return await self._take_in(started, agent)

    async def restart(self, session: str, agent: Startable) -> DrivenAgent:
        """Once more in the session of such an agent. Raises `SessionHeld` while one is at work in it, and
        `UsageError` where the agent was driven in another way."""
        self._refuse_when_closing()
        started: DrivenAgent
        if isinstance(agent, screen_driver.ScreenAgentSpec):
            agent = self._timed(agent)
            started = await lifecycle.restart_screen_session(self._store, session, agent, attend=self.attend)
        else:
            started = await lifecycle.restart_protocol_session(
                self._store, session, agent, attend=self.attend
            )
        return await self._take_in(started, agent)

    async def end(self, session: str) -> None:
        """Ends the agent, and waits until nothing of it is left. Raises `NotFound` if none is driven here."""
        if (agent := self._agents.get(session)) is None:
            raise NotFound(f"no agent of session {session} is running here")
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

    def _timed(self, agent: ScreenAgentSpec) -> ScreenAgentSpec:
        return msgspec.structs.replace(agent, timing=self.timing) if self.timing else agent

    def _refuse_when_closing(self) -> None:
        if self._is_closing:
            raise UsageError("no agent can be started: the server is shutting down")


Size = Annotated[int, msgspec.Meta(ge=10, le=5000)]


class NewAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another vendor's agent: what to start, and how to drive it."""

    command: Annotated[list[str], msgspec.Meta(min_length=1)]
    """The program and its arguments, run without a shell."""
    type: str = ""
    """How to read its screen: `claude`, `codex` and so on; default: detected from the command."""
    transport: Literal["pty", "acp", "stream-json"] = "pty"
    """`pty`: a terminal. The others are for agents that speak a protocol and have no screen."""
    columns: Size = 80
    rows: Size = 1000
    environment: dict[str, str] = {}
    """Environment variables besides those of the server."""
    initial_prompt: str = ""
    """The first message, sent when it is ready."""
    ready_regex: str = ""
    """It is ready when its screen matches this; default: depends on its type."""
    ready_after: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None
    """Or when its screen has not changed for this many seconds."""


def agent_to_start(wanted: NewAgent, cwd: Path) -> ScreenAgentSpec | ProtocolAgentSpec:
    """Raises `UsageError`."""
    return _in_terminal(wanted, cwd) if wanted.transport == "pty" else _structured(wanted, cwd)


def _structured(wanted: NewAgent, cwd: Path) -> driver.ProtocolAgentSpec:
    assert wanted.transport != "pty"
    return driver.ProtocolAgentSpec(
        command=wanted.command,
        cwd=cwd,
        transport=wanted.transport,
        agent_type=wanted.type,
        environment=_checked(wanted.environment),
        initial_prompt=wanted.initial_prompt,
    )


def _in_terminal(wanted: NewAgent, cwd: Path) -> screen_driver.ScreenAgentSpec:
    """Raises `UsageError`."""
    return screen_driver.ScreenAgentSpec(
        command=wanted.command,
        cwd=cwd,
        agent_type=wanted.type,
        columns=wanted.columns,
        rows=wanted.rows,
        environment=_checked(wanted.environment),
        initial_prompt=wanted.initial_prompt,
        ready_regex=wanted.ready_regex,
        ready_after=wanted.ready_after,
    )


def _checked(environment: dict[str, str]) -> dict[str, str]:
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise UsageError(f"{name[:100]!r} is not a variable name, or its value contains a NUL")
    return environment
