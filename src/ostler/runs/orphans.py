"""Processes that the tools of a session left behind when its owner died."""

from __future__ import annotations

from ostler.kernel.journal import Journal, World
from ostler.kernel.store import Store


async def end_orphans(journal: Journal) -> None:
    """Ends what a former owner's tools left running, if it died before it could do so itself, or was away for
    so long that its run is gone on with here. One that lives and is at rest keeps what it has started."""
    owner = journal.lease.taken_from
    if owner is not None and (journal.state.run is not None or not owner.is_alive()):
        await end_processes(journal.store, journal.session, journal.world)


async def end_processes(store: Store, session: str, world: World) -> None:
    for _, process in await store.owned_processes(session):
        process.kill_group()
    world.kill_processes_of(session)
