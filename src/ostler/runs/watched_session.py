"""Opening a session that another process may be driving: it is watched, and taken up when that one rests."""

from __future__ import annotations

from ostler.kernel.harness import Harness
from ostler.kernel.journal import World, open_journal
from ostler.kernel.store import Lease, Store
from ostler.runs.lease import new_owner
from ostler.runs.other_agents import require_own_agent
from ostler.runs.session import Session, open_session
from ostler.vocabulary.errors import SessionHeld


async def open_or_watch(
    store: Store, session: str, harness: Harness, *, world: World | None = None
) -> Session:
    """The session; while somebody else has it, without its lease, which `hold` takes once it is free.

    Raises `UsageError` for one of another vendor's agent.
    """
    world = world or World()
    require_own_agent(session, (await store.summary(session)).driver)
    try:
        return await open_session(store, session, harness, world=world)
    except SessionHeld:
        return await watch_session(store, session, harness, world=world)


async def watch_session(
    store: Store, session: str, harness: Harness, *, world: World | None = None
) -> Session:
    """The session without its lease, whoever drives it."""
    world = world or World()
    journal = await open_journal(store, Lease(session, 0, new_owner(world), 0), world)
    journal.is_elsewhere = True
    return Session(journal, harness)
