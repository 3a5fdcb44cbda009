"""Starting a terminal agent in a session of its own, or again in one that it had before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ostler import __version__
from ostler.kernel.journal import Journal, World, open_journal
from ostler.kernel.state import fold
from ostler.kernel.store import Store
from ostler.runs.cut_agents import close_cut_run
from ostler.runs.lease import new_owner
from ostler.runs.orphans import end_orphans
from ostler.runs.watching.channel import Channel
from ostler.terminals.agent_session import TerminalSession
from ostler.terminals.driving import TerminalAgent
from ostler.terminals.recorded_messages import RecordedMessage, recorded_messages
from ostler.terminals.screen import load_emulator
from ostler.terminals.tracker import Saved
from ostler.vocabulary import events
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.facts import Fact

Attend = Callable[[Journal], None]
"""Told of the journal before the agent is started: it may observe."""


def _nobody(journal: Journal) -> None:
    pass


async def start_terminal_session(
    store: Store,
    agent: TerminalAgent,
    *,
    saved: Saved | None = None,
    child_of: str = "",
    call: str = "",
    session: str = "",
    world: World | None = None,
    attend: Attend = _nobody,
) -> TerminalSession:
    """A new session. Where its agent cannot be started there is none."""
    await asyncio.to_thread(load_emulator, agent.emulator)
    world = world or World()
    first = Fact.of(
        events.SessionStarted(str(agent.cwd), __version__, driver="terminal", child_of=child_of, call=call),
        seq=1,
        session=session or world.new_id("ses"),
        run="",
        time_ms=world.now_ms(),
    )
    lease = await store.create(first, new_owner(world))
    journal = Journal(store, lease, fold([first]), world)
    try:
        attend(journal)
        started = TerminalSession(journal, agent, saved)
    except BaseException:
        _close(journal)
        await store.delete(journal.session, lease.owner)
        raise
    await _let_live(started, [])
    return started


async def restart_terminal_session(
    store: Store,
    session: str,
    agent: TerminalAgent,
    *,
    world: World | None = None,
    attend: Attend = _nobody,
) -> TerminalSession:
    """Another life of the agent in the same session: its log goes on, its own memory may not.

    What an owner that died has left running is ended first, and its run is closed.
    """
    await asyncio.to_thread(load_emulator, agent.emulator)
    world = world or World()
    facts = await store.read(session)
    if getattr(facts[0].event, "driver", "") != "terminal":
        raise UsageError(f"session {session} is not a terminal agent's")
    lease = await store.acquire(session, new_owner(world))
    journal = await open_journal(store, lease, world)
    try:
        await end_orphans(journal)
        attend(journal)
        await close_cut_run(journal)
        known = recorded_messages(await store.read(session))
        saved = Saved([one.message for one in known]) if known else None
        started = TerminalSession(journal, agent, saved)
    except BaseException:
        _close(journal)
        await store.release(journal.lease)
        raise
    await _let_live(started, known)
    return started


async def _let_live(session: TerminalSession, known: list[RecordedMessage]) -> None:
    journal = session.journal
    channel = Channel(journal)
    journal.on_close.append(channel.close)
    try:
        await session.begin(known)
        await channel.open()
    except BaseException:
        await session.close()
        raise


def _close(journal: Journal) -> None:
    for closed in journal.on_close:
        closed()
