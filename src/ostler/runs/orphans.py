"""Processes that the tools of a session left behind when its owner died."""

from __future__ import annotations

from ostler.kernel.journal import Journal, World
from ostler.kernel.store import Store

OWNED_AGENT = "agent:"
"""Stands before the session of a terminal agent that a call has started, where else the call is named."""


async def end_orphans(journal: Journal) -> None:
    """Ends what a former owner's tools left running, if it died before it could do so itself, or was away for
    so long that its run is gone on with here. One that lives and is at rest keeps what it has started."""
    owner = journal.lease.taken_from
    if owner is not None and (journal.state.run is not None or not owner.is_alive()):
        await end_processes(journal.store, journal.session, journal.world)


async def end_processes(store: Store, session: str, world: World) -> None:
    owned = await store.owned_processes(session)
    for _, process in owned:
        process.kill_group()
    world.kill_processes_of(session)
    for child in {name.removeprefix(OWNED_AGENT) for name, _ in owned if name.startswith(OWNED_AGENT)}:
        from ostler.runs.cut_agents import end_cut_agent  # which needs this itself

        await end_cut_agent(store, child, world)
