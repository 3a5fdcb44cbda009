"""What processes leave behind that held sessions: requests that they did not take up, and tools at work."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ostler.kernel.journal import World
from ostler.kernel.store import Store
from ostler.runs.cut_agents import end_cut_agents
from ostler.runs.lease import new_owner
from ostler.runs.orphans import end_processes
from ostler.runs.run_tree import state_of
from ostler.runs.supervisor import Supervisor
from ostler.vocabulary.errors import NotFound, SessionHeld

LOOKED_AT_EVERY = 1.0
"""Seconds: nobody is told when a lease is given back."""


class LeftBehind:
    """Takes up what somebody asked for here, and whoever held the session left in its inbox.

    A run that was cut is not gone on with: whoever ended its process may have meant it. It is offered.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._looking: dict[str, asyncio.Task[None]] = {}

    async def look_after(self, session: str) -> None:
        """Behind each request. Only where another process holds the session is there something to do."""
        is_elsewhere = not self._supervisor.driven(session) and await self._supervisor.store.holder(session)
        if is_elsewhere and session not in self._looking:
            looking = self._looking[session] = asyncio.ensure_future(self._look(session))
            looking.add_done_callback(lambda task: self._looking.pop(session, None))

    async def _look(self, session: str) -> None:
        store = self._supervisor.store
        with suppress(NotFound):  # it was deleted
            while await store.pending(session):
                if await store.holder(session) is not None:
                    await asyncio.sleep(LOOKED_AT_EVERY)
                    continue
                state = await state_of(store, session)
                if state.run is None and state.driver == "agent":
                    with suppress(SessionHeld):
                        await self._supervisor.advance(session)
                return

    def close(self) -> None:
        for looking in self._looking.values():
            looking.cancel()


async def end_tools_of_the_dead(store: Store, world: World) -> None:
    """Ends what tools are still doing for runs that were cut. Else that would last until somebody looks.

    The runs of other vendors' agents end with them: nobody could go on with those."""
    await end_cut_agents(store, world)
    for summary in await store.sessions():
        if summary.status != "running" or await store.holder(summary.id) is not None:
            continue
        with suppress(SessionHeld, NotFound):  # whoever goes on with it does the same
            lease = await store.acquire(summary.id, new_owner(world))
            await end_processes(store, summary.id, world)
            await store.release(lease)
