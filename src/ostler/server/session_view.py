"""A session as the API shows it: what is open, what waits, what it cost, and its agent's status."""

from __future__ import annotations

from typing import Literal

import msgspec

from ostler.context.session_context import SessionContext
from ostler.core.model import AbsentModel
from ostler.core.questions import OpenQuestion
from ostler.core.state import SessionState, fold
from ostler.core.store import SessionSummary, Store
from ostler.history.costs import CostTotals, cost_records
from ostler.models.catalogue import Catalogue
from ostler.schema.events import Audited, RunStarted, TodoItem, WaitReason
from ostler.schema.facts import Fact
from ostler.schema.requests import Continue, Prompt, Steer
from ostler.server.agent_registry import AgentRegistry
from ostler.server.profiles import SessionProfiles
from ostler.sessions.run_tree import current_status, open_questions
from ostler.sessions.session import Session

_FACTS_AT_THE_START = 8


class AgentView(msgspec.Struct, frozen=True):
    """The agent of another vendor in a session."""

    type: str
    """`claude`, `codex` and so on; `custom` for an unknown one."""
    status: Literal["initializing", "changing", "stable", "asking", "elsewhere", "ended"]
    """`stable`: it waits for the next message. `asking`: for the answer to a question. `elsewhere`: another
    process drives it, see the live value `terminal:status`. `ended`: it can be restarted."""
    transport: Literal["", "pty", "acp", "stream-json"]
    """How it is driven; empty if this server does not drive it."""
    remembered: bool
    """Whether this server knows how to restart it."""


class SessionRow(SessionSummary, frozen=True):
    """A session in a list."""

    agent: AgentView | None = None
    """Set if the driver is not `agent`."""


async def row_of(store: Store, agents: AgentRegistry, summary: SessionSummary) -> SessionRow:
    return SessionRow(**msgspec.structs.asdict(summary), agent=await agent_of(store, agents, summary))


async def agent_of(store: Store, agents: AgentRegistry, summary: SessionSummary) -> AgentView | None:
    if summary.driver == "agent":
        return None
    session = summary.id
    is_remembered = session in agents.started_as
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


class OpenRun(msgspec.Struct, frozen=True):
    """The open run."""

    id: str
    status: Literal["running", "waiting", "cut"]
    """`cut`: its process is gone. `resume` or a prompt continues it."""
    started_ms: int
    model: str
    step: int
    waiting: WaitReason | None
    """What it waits for."""
    children: list[str]
    """The sessions of its children that have not ended."""


class HeldBy(msgspec.Struct, frozen=True):
    """The process that holds a session."""

    pid: int
    host: str
    here: bool
    """Whether it is this server."""


class ContextMeter(msgspec.Struct, frozen=True):
    """Tokens, as last reported by the vendor; 0 if unknown."""

    used: int
    window: int


class SessionView(SessionSummary, frozen=True, kw_only=True):
    """A session and its state."""

    agent: AgentView | None
    """Set if the driver is not `agent`."""
    model: str
    """The model that is set or was called last; empty before the first run."""
    reasoning: str
    permissions: str
    """The permission profile of its next run; empty if another process drives it."""
    leaf: int
    """The current entry, which the next one follows."""
    run: OpenRun | None
    held: bool
    """Whether queued prompts are held until they are released."""
    holder: HeldBy | None
    questions: list[OpenQuestion]
    """Including those of its children."""
    waiting: list[Prompt | Steer | Continue]
    """Queued prompts, and steers that the model has not got yet."""
    todo: dict[str, tuple[TodoItem, ...]]
    totals: CostTotals
    """Its usage, including its children."""
    children: CostTotals
    """The usage of its children."""
    cost: float | None
    """In dollars, including its children; null if a part is unknown."""
    context: ContextMeter


async def view_session(
    store: Store, session: str, driven: Session | None, agents: AgentRegistry, profiles: SessionProfiles
) -> SessionView:
    """Raises `NotFound`. `driven` is the session itself, where it is open here."""
    summary = await current_status(store, await store.summary(session))
    facts = await store.read_opening(session)
    state = driven.state if driven else fold(facts)
    pending = await store.pending(session)
    groups, _ = await cost_records(store, ("session",), session=session)
    own, children = (groups[0].own, groups[0].children) if groups else (CostTotals(), CostTotals())
    totals = own + children
    model = _model(facts, state, driven)
    holder = await store.holder(session)
    return SessionView(
        **msgspec.structs.asdict(summary),
        agent=await agent_of(store, agents, summary),
        model=model,
        reasoning=state.settings.reasoning,
        permissions=_profile(state, driven, is_elsewhere=holder is not None, profiles=profiles),
        leaf=state.leaf,
        run=_run(state, summary),
        held=state.held,
        holder=HeldBy(holder.pid, holder.host, bool(driven or agents.get(session))) if holder else None,
        questions=await open_questions(store, state),
        waiting=[one for one in pending if isinstance(one, Prompt | Steer | Continue)],
        todo=dict(state.todo),
        totals=totals,
        children=children,
        cost=totals.usage.cost,
        context=ContextMeter(state.context_tokens, _window(model, driven)),
    )


def _run(state: SessionState, summary: SessionSummary) -> OpenRun | None:
    run = state.run
    if run is None:
        return None
    reason = run.waiting.reason if run.waiting else None
    status: Literal["running", "waiting", "cut"] = "waiting" if reason else "running"
    if summary.status == "cut":
        status = "cut"
    model, children = run.started.model, run.open_children()
    return OpenRun(run.id, status, run.time_ms, model, run.steps, reason, children)


def _profile(
    state: SessionState, driven: Session | None, *, is_elsewhere: bool, profiles: SessionProfiles
) -> str:
    if driven is not None:
        return driven.harness.permission_profile
    return "" if is_elsewhere or state.driver != "agent" else profiles.of_session(state)


def _model(facts: list[Fact], state: SessionState, driven: Session | None) -> str:
    if driven is not None and not isinstance(driven.harness.model, AbsentModel):
        return driven.harness.model.name
    if state.settings.model:
        return state.settings.model
    started = [fact.event for fact in facts if isinstance(fact.event, RunStarted)]
    return started[-1].model if started else ""


def _window(model: str, driven: Session | None) -> int:
    context = driven.harness.context if driven else None
    if isinstance(context, SessionContext):
        return context.window(model)
    return Catalogue().lookup(model).context_limit if model else 0
