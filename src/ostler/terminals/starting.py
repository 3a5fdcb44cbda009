"""Starting a terminal agent in a session of its own, or again in one that it had before."""

from __future__ import annotations

import asyncio

from ostler.kernel.journal import World
from ostler.kernel.store import Store
from ostler.runs.cut_agents import close_cut_run
from ostler.terminals.agent_session import TerminalSession
from ostler.terminals.driving import TerminalAgent
from ostler.terminals.opening import Attend, new_journal, nobody, opened_again, show
from ostler.terminals.recorded_messages import RecordedMessage, recorded_messages
from ostler.terminals.screen import load_emulator
from ostler.terminals.tracker import Saved


async def start_terminal_session(
    store: Store,
    agent: TerminalAgent,
    *,
    saved: Saved | None = None,
    child_of: str = "",
    call: str = "",
    session: str = "",
    world: World | None = None,
    attend: Attend = nobody,
) -> TerminalSession:
    """A new session. Where its agent cannot be started there is none."""
    await asyncio.to_thread(load_emulator, agent.emulator)
    journal = await new_journal(
        store, agent.cwd, "terminal", child_of=child_of, call=call, session=session, world=world
    )
    try:
        attend(journal)
        started = TerminalSession(journal, agent, saved)
    except BaseException:
        journal.close()
        await store.delete(journal.session, journal.lease.owner)
        raise
    await _let_live(started, [])
    return started


async def restart_terminal_session(
    store: Store,
    session: str,
    agent: TerminalAgent,
    *,
    world: World | None = None,
    attend: Attend = nobody,
) -> TerminalSession:
    """Another life of the agent in the same session: its log goes on, its own memory may not.

    What an owner that died has left running is ended first, and its run is closed.
    """
    await asyncio.to_thread(load_emulator, agent.emulator)
    journal = await opened_again(store, session, "terminal", world)
    try:
        attend(journal)
        await close_cut_run(journal)
        known = recorded_messages(await store.read(session))
        saved = Saved([one.message for one in known]) if known else None
        started = TerminalSession(journal, agent, saved)
    except BaseException:
        journal.close()
        await store.release(journal.lease)
        raise
    await _let_live(started, known)
    return started


async def _let_live(session: TerminalSession, known: list[RecordedMessage]) -> None:
    try:
        await session.begin(known)
    except BaseException:
        await session.close()
        raise
    await show(session)
