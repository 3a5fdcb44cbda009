"""The sessions of other vendors' agents: made, opened again, and shown, whichever way the agent is driven."""
# MERGED: Starting a terminal agent in a session of its own, or again in one that it had before.
# MERGED: Starting an agent that speaks a protocol in a session of its own, or again in one that it had
# MERGED: before.

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from ostler import __version__
from ostler.core.journal import Journal, World, open_journal
from ostler.core.recovery import close_interrupted_run
from ostler.core.state import fold
from ostler.core.store import Store
from ostler.drivers.agent_messages import StoredMessage, stored_messages
from ostler.drivers.driver import ConversationGone, ProtocolAgentSpec, SavedState
from ostler.drivers.protocol_session import CONVERSATION, CONVERSING, ProtocolSession
from ostler.drivers.screen import load_emulator
from ostler.drivers.screen_driver import ScreenAgentSpec
from ostler.drivers.session import ScreenSession
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.facts import Fact
from ostler.sessions.lease import kill_orphans, new_owner
from ostler.sessions.live_socket import LiveSocket

Driver = Literal["terminal", "acp", "stream-json"]

Attend = Callable[[Journal], None]
"""Told of the journal before the agent is started: it may observe."""


class LiveOutput(Protocol):
    journal: Journal

    async def close(self) -> None: ...


def no_listener(journal: Journal) -> None:
    pass


async def new_journal(
    store: Store,
    cwd: Path,
    driver: Driver,
    *,
    child_of: str,
    call: str,
    session: str,
    world: World | None,
) -> Journal:
    world = world or World()
    started = events.SessionStarted(str(cwd), __version__, driver=driver, child_of=child_of, call=call)
    name = session or world.new_id("ses")
    first = Fact.of(started, seq=1, session=name, run="", time_ms=world.now_ms())
    return Journal(store, await store.create(first, new_owner(world)), fold([first]), world)


async def reopened_journal(store: Store, session: str, driver: Driver, world: World | None) -> Journal:
    """What a dead owner has left running is ended. Raises `UsageError` where another kind of agent was."""
    (first,) = await store.read(session, 0, 1)
    found = getattr(first.event, "driver", "")
    if found != driver:
        raise UsageError(f"the agent of session {session} is driven by {found}, and not by {driver}")
    world = world or World()
    journal = await open_journal(store, await store.acquire(session, new_owner(world)), world)
    await kill_orphans(journal)
    return journal


async def show_live(session: LiveOutput) -> None:
    """Other processes see what is live in it."""
    channel = LiveSocket(session.journal)
    session.journal.on_close.append(channel.close)
    try:
        await channel.open()
    except BaseException:
        await session.close()
        raise


async def start_screen_session(
    store: Store,
    agent: ScreenAgentSpec,
    *,
    saved: SavedState | None = None,
    child_of: str = "",
    call: str = "",
    session: str = "",
    world: World | None = None,
    attend: Attend = no_listener,
) -> ScreenSession:
    """A new session. Where its agent cannot be started there is none."""
    await asyncio.to_thread(load_emulator, agent.emulator)
    journal = await new_journal(
        store, agent.cwd, "terminal", child_of=child_of, call=call, session=session, world=world
    )
    try:
        attend(journal)
        started = ScreenSession(journal, agent, saved)
    except BaseException:
        journal.close()
        await store.delete(journal.session, journal.lease.owner)
        raise
    await _let_live(started, [])
    return started


async def restart_screen_session(
    store: Store,
    session: str,
    agent: ScreenAgentSpec,
    *,
    world: World | None = None,
    attend: Attend = no_listener,
) -> ScreenSession:
    """Another life of the agent in the same session: its log goes on, its own memory may not.

    What an owner that died has left running is ended first, and its run is closed.
    """
    await asyncio.to_thread(load_emulator, agent.emulator)
    journal = await reopened_journal(store, session, "terminal", world)
    try:
        attend(journal)
        await close_interrupted_run(journal)
        known = stored_messages(await store.read(session))
        saved = SavedState([one.message for one in known]) if known else None
        started = ScreenSession(journal, agent, saved)
    except BaseException:
        journal.close()
        await store.release(journal.lease)
        raise
    await _let_live(started, known)
    return started


async def _let_live(session: ScreenSession, known: list[StoredMessage]) -> None:
    try:
        await session.begin(known)
    except BaseException:
        await session.close()
        raise
    await show_live(session)


async def start_protocol_session(
    store: Store,
    agent: ProtocolAgentSpec,
    *,
    child_of: str = "",
    call: str = "",
    session: str = "",
    world: World | None = None,
    attend: Attend = no_listener,
) -> ProtocolSession:
    """A new session, whose agent takes prompts. Where its agent cannot be started there is none."""
    journal = await new_journal(
        store, agent.cwd, agent.transport, child_of=child_of, call=call, session=session, world=world
    )
    try:
        attend(journal)
        started = await _begun(journal, agent)
    except BaseException:
        journal.close()
        await store.delete(journal.session, journal.lease.owner)
        raise
    await show_live(started)
    return started


async def restart_protocol_session(
    store: Store,
    session: str,
    agent: ProtocolAgentSpec,
    *,
    world: World | None = None,
    attend: Attend = no_listener,
) -> ProtocolSession:
    """Another life of the agent in the same session, whose log goes on.

    What an owner that died has left running is ended first, and its run is closed. An agent that can goes on
    with its own conversation; of one that cannot, the log says so.
    """
    journal = await reopened_journal(store, session, agent.transport, world)
    try:
        attend(journal)
        await close_interrupted_run(journal)
        before = await store.read(session)
        agent = msgspec.structs.replace(agent, conversation=_conversation_in(before))
        try:
            started = await _begun(journal, agent, before)
        except ConversationGone:
            started = await _begun(journal, msgspec.structs.replace(agent, conversation=""), before)
    except BaseException:
        journal.close()
        await store.release(journal.lease)
        raise
    await show_live(started)
    return started


def _conversation_in(facts: Sequence[Fact]) -> str:
    """What the agent called it last."""
    for fact in reversed(facts):
        match fact.event:
            case events.Audited(decision=decision, details=dict(about)) if decision == CONVERSING:
                return str(about.get(CONVERSATION) or "")
    return ""


async def _begun(journal: Journal, agent: ProtocolAgentSpec, before: Sequence[Fact] = ()) -> ProtocolSession:
    session = ProtocolSession(journal, agent, before)
    try:
        await session.begin()
    except BaseException:
        await session.close()
        raise
    return session
