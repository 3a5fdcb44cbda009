"""Another vendor's agent as it is now: what it is, and whether it waits for a message."""

from __future__ import annotations

from typing import Literal

import msgspec

from ostler.faces.web.driven_agents import DrivenAgents
from ostler.kernel.store import SessionSummary, Store
from ostler.vocabulary.events import Audited

_FACTS_AT_THE_START = 8


class AgentView(msgspec.Struct, frozen=True):
    """The agent of another vendor whose session it is."""

    type: str
    """`claude`, `codex` and so on; `custom` for one that is not known."""
    status: Literal["initializing", "changing", "stable", "elsewhere", "ended"]
    """`stable`: it waits for the next message. `elsewhere`: another process drives it, and the live value
    `terminal:status` says more. `ended`: it can be started again."""
    transport: Literal["", "pty", "acp", "stream-json"]
    """How it is driven; empty where it is not driven by this server."""
    remembered: bool
    """This server knows how it was started: it can be started again without saying it."""


class SessionRow(SessionSummary, frozen=True):
    """A session, as it stands in a list."""

    agent: AgentView | None = None
    """Where the driver is not `agent`."""


async def row_of(store: Store, agents: DrivenAgents, summary: SessionSummary) -> SessionRow:
    return SessionRow(**msgspec.structs.asdict(summary), agent=await agent_of(store, agents, summary))


async def agent_of(store: Store, agents: DrivenAgents, summary: SessionSummary) -> AgentView | None:
    if summary.driver == "agent":
        return None
    session = summary.id
    is_remembered = agents.started_as(session) is not None
    if (agent := agents.get(session)) is not None:
        return AgentView(agent.agent_type, agent.status, agent.transport, is_remembered)
    is_held = await store.holder(session) is not None
    kind = await _recorded_type(store, session)
    return AgentView(kind, "elsewhere" if is_held else "ended", "", is_remembered)


async def _recorded_type(store: Store, session: str) -> str:
    for fact in await store.read(session, 0, _FACTS_AT_THE_START):
        if isinstance(fact.event, Audited) and fact.event.details and "agent_type" in fact.event.details:
            return str(fact.event.details["agent_type"])
    return "custom"
