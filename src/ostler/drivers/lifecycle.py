"""Starts an agent in a session of its own, or again in the session that it had before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from ostler import __version__
from ostler.core.journal import Journal, World, open_journal
from ostler.core.lazy import load
from ostler.core.recovery import close_interrupted_run
from ostler.core.state import fold
from ostler.core.store import Store
from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.driver import DRIVERS, ConversationGone, SavedState
from ostler.drivers.screen import load_emulator
from ostler.drivers.session import CONVERSATION, CONVERSATION_DECISION, AgentSession
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.facts import Fact
from ostler.sessions.lease import kill_orphans, new_owner
from ostler.sessions.live_socket import LiveSocket

OnOpen = Callable[[Journal], object]
"""Gets the journal before the agent is started, to subscribe to it."""


async def start_agent_session(
    store: Store,
    spec: AgentSpec,
    *,
    saved: SavedState | None = None,
    child_of: str = "",
    call: str = "",
    session: str = "",
    world: World | None = None,
    on_open: OnOpen | None = None,
) -> AgentSession:
    """Starts the agent in a new session. When it cannot be started, the session is deleted."""
    await _load_emulator(spec)
    cwd, driver = str(spec.cwd), spec.stored_driver
    started = events.SessionStarted(cwd, __version__, driver=driver, child_of=child_of, call=call)
    journal = await new_journal(store, started, session, world or World())
    try:
        await _publish(journal, on_open)
        return await _begin(journal, spec, saved=saved)
    except BaseException:
        journal.close()
        await store.delete(journal.session, journal.lease.owner)
        raise


async def restart_agent_session(
    store: Store, session: str, spec: AgentSpec, *, world: World | None = None, on_open: OnOpen | None = None
) -> AgentSession:
    """Starts another process of the agent in its session, whose log continues.

    Processes and the run that a dead owner left are ended first. An agent that can continues its own
    conversation; otherwise the log says that it cannot.
    """
    await _load_emulator(spec)
    journal = await _reopen_journal(store, session, spec.stored_driver, world)
    try:
        await _publish(journal, on_open)
        await close_interrupted_run(journal)
        earlier = await store.read(session)
        spec = msgspec.structs.replace(spec, conversation=_conversation_in(earlier))
        try:
            return await _begin(journal, spec, earlier)
        except ConversationGone:
            return await _begin(journal, msgspec.structs.replace(spec, conversation=""), earlier)
    except BaseException:
        journal.close()
        await store.release(journal.lease)
        raise


async def new_journal(store: Store, started: events.SessionStarted, session: str, world: World) -> Journal:
    session = session or world.new_id("ses")
    first = Fact.of(started, seq=1, session=session, run="", time_ms=world.now_ms())
    return Journal(store, await store.create(first, new_owner(world)), fold([first]), world)


async def _reopen_journal(store: Store, session: str, driver: str, world: World | None) -> Journal:
    """Kills what a dead owner left running. Raises `UsageError` if the agent was driven in another way."""
    (first,) = await store.read(session, 0, 1)
    stored = getattr(first.event, "driver", "")
    if stored != driver:
        raise UsageError(f"the agent of session {session} is driven by {stored}, and not by {driver}")
    world = world or World()
    journal = await open_journal(store, await store.acquire(session, new_owner(world)), world)
    await kill_orphans(journal)
    return journal


async def _load_emulator(spec: AgentSpec) -> None:
    if spec.transport == "pty":
        await asyncio.to_thread(load_emulator, spec.emulator)


async def _publish(journal: Journal, on_open: OnOpen | None) -> None:
    """Lets this process and others follow the session. Before the agent starts, because live values are
    published only when they change."""
    if on_open is not None:
        on_open(journal)
    live_socket = LiveSocket(journal)
    journal.on_close.append(live_socket.close)
    await live_socket.open()


async def _begin(
    journal: Journal, spec: AgentSpec, earlier: Sequence[Fact] = (), *, saved: SavedState | None = None
) -> AgentSession:
    driver = load(DRIVERS[spec.transport])
    session = AgentSession(journal, spec, driver, earlier=earlier, saved=saved)
    try:
        await session.begin()
    except BaseException:
        await session.close()
        raise
    return session


def _conversation_in(facts: Sequence[Fact]) -> str:
    """The agent's last id of its conversation."""
    for fact in reversed(facts):
        match fact.event:
            case events.Audited(decision=name, details=dict(details)) if name == CONVERSATION_DECISION:
                return str(details.get(CONVERSATION) or "")
    return ""
