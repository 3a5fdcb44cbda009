"""The sessions of other vendors' agents: made, opened again, and shown, whichever way the agent is driven."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

from ostler import __version__
from ostler.kernel.journal import Journal, World, open_journal
from ostler.kernel.state import fold
from ostler.kernel.store import Store
from ostler.runs.lease import new_owner
from ostler.runs.orphans import end_orphans
from ostler.runs.watching.channel import Channel
from ostler.vocabulary import events
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.facts import Fact

Driver = Literal["terminal", "acp", "stream-json"]
Attend = Callable[[Journal], None]
"""Told of the journal before the agent is started: it may observe."""


class Shown(Protocol):
    journal: Journal

    async def close(self) -> None: ...


def nobody(journal: Journal) -> None:
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


async def opened_again(store: Store, session: str, driver: Driver, world: World | None) -> Journal:
    """What a dead owner has left running is ended. Raises `UsageError` where another kind of agent was."""
    (first,) = await store.read(session, 0, 1)
    found = getattr(first.event, "driver", "")
    if found != driver:
        raise UsageError(f"the agent of session {session} is driven by {found}, and not by {driver}")
    world = world or World()
    journal = await open_journal(store, await store.acquire(session, new_owner(world)), world)
    await end_orphans(journal)
    return journal


async def show(session: Shown) -> None:
    """Other processes see what is live in it."""
    channel = Channel(session.journal)
    session.journal.on_close.append(channel.close)
    try:
        await channel.open()
    except BaseException:
        await session.close()
        raise
