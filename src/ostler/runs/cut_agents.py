"""Terminal agents that calls have started, and whose process is gone: what is left of them is ended."""

from __future__ import annotations

from contextlib import suppress

from ostler.kernel.child import ChildResult
from ostler.kernel.journal import Journal, World, open_journal
from ostler.kernel.store import Store
from ostler.runs.lease import new_owner
from ostler.runs.orphans import OWNED_AGENT, end_processes
from ostler.vocabulary import events
from ostler.vocabulary.errors import NotFound, SessionHeld

CUT = "the process that ran it ended"


async def own_agent(parent: Journal, child: str) -> None:
    """Whoever takes the parent's session over after a crash ends the agent, also between two calls."""
    for _, process in await parent.store.owned_processes(child):
        await parent.store.own_process(parent.lease, OWNED_AGENT + child, process)


async def end_cut_agent(store: Store, child: str, world: World) -> ChildResult | None:
    """Ends the processes and the run that a dead owner left. None while its owner lives, or if it never
    began."""
    with suppress(SessionHeld, NotFound):
        journal = await open_journal(store, await store.acquire(child, new_owner(world)), world)
        try:
            await end_processes(store, child, world)
            await close_cut_run(journal)
        finally:
            await store.release(journal.lease)
        return ChildResult(child, "", "interrupted", reason=CUT)
    return None


async def close_cut_run(journal: Journal) -> None:
    """Of an agent whose terminal is gone nothing more will come."""
    if journal.state.run is not None:
        journal.record(events.RunEnded("interrupted", CUT, cumulative=journal.state.usage))
        await journal.commit()
