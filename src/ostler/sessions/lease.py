"""Keeping the lease while a run is driven."""
# MERGED: Processes that the tools of a session left behind when its owner died.
# MERGED: Other vendors' agents whose owner is gone: what is left of them is ended, and the log says so.

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from ostler.core.cancellation import CLOCK_SLACK
from ostler.core.children import ChildResult
from ostler.core.journal import Journal, World, open_journal
from ostler.core.processes import ProcessId, sessions_with_processes
from ostler.core.recovery import PROCESS_ENDED, close_interrupted_run
from ostler.core.store import Lease, Store
from ostler.schema.errors import LeaseLost, NotFound, SessionHeld, StoreBusy, StoreError
from ostler.store import rules

OWNED_AGENT = "agent:"
"""Stands before the session of a terminal agent that a call has started, where else the call is named."""


async def kill_orphans(journal: Journal) -> None:
    """Ends what a former owner's tools left running, if it died before it could do so itself, or was away for
    so long that its run is gone on with here. One that lives and is at rest keeps what it has started."""
    owner = journal.lease.taken_from
    if owner is not None and (journal.state.run is not None or not owner.is_alive()):
        await kill_session_processes(journal.store, journal.session, journal.world)


async def kill_session_processes(store: Store, session: str, world: World) -> None:
    owned = await store.owned_processes(session)
    for _, process in owned:
        process.kill_group()
    world.kill_processes_of(session)
    for child in {name.removeprefix(OWNED_AGENT) for name, _ in owned if name.startswith(OWNED_AGENT)}:
        # which needs this itself

        await close_dead_agent(store, child, world)


def new_owner(world: World) -> ProcessId:
    """This process, and in it this one opening of a session: two of them exclude each other as well."""
    return msgspec.structs.replace(world.process(), opening=world.new_id("own"))


async def hold_lease(journal: Journal) -> None:
    """Makes sure of the lease before a run begins: an idle session is not renewed, and may have been
    taken by somebody who has given it back since. Then its log is read anew."""
    if journal.failed:
        raise journal.failed
    if journal.is_moved:  # whoever moved the leaf was stopped before the log was read anew
        await journal.commit()
        await journal.reload()
    left_ms = journal.lease.expires_ms - journal.world.now_ms()
    if left_ms > rules.LEASE_MS * 5 / 6 and not journal.is_detached:
        return
    try:
        journal.lease = await journal.store.renew(journal.lease)
    except LeaseLost:
        await journal.reattach(await journal.store.acquire(journal.session, journal.lease.owner))
        await kill_orphans(journal)


async def suspend_lease(journal: Journal) -> None:
    """Until it is held again, whoever wants the session may have it: nothing is under way in it."""
    if journal.failed is None:
        with suppress(LeaseLost):  # somebody has it already
            journal.lease = await journal.store.suspend(journal.lease)


@asynccontextmanager
async def renew_lease(journal: Journal) -> AsyncIterator[None]:
    """Renews the lease at a third of its period. When that fails for two thirds of it, everything is
    stopped while the lease still holds, so that nothing of ours runs when somebody else takes over."""
    keeper = asyncio.ensure_future(_keep_renewing(journal))
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.wait({keeper})


async def _keep_renewing(journal: Journal) -> None:
    while journal.failed is None:
        await asyncio.sleep(rules.RENEW_SECONDS)
        await _renew(journal)


async def _renew(journal: Journal) -> None:
    """One renewal, tried until a third of the period is left, and once in any case."""
    last_moment = (journal.lease.expires_ms - rules.LEASE_MS / 3 - journal.world.now_ms()) / 1000
    deadline = asyncio.get_running_loop().time() + last_moment
    problem: StoreError = StoreBusy(f"the lease of {journal.session} could not be renewed in time")
    while True:
        left = max(CLOCK_SLACK, deadline - asyncio.get_running_loop().time())
        renewing = asyncio.ensure_future(journal.store.renew(journal.lease))
        renewing.add_done_callback(_look_at)
        await asyncio.wait({renewing}, timeout=left)
        if not renewing.done():
            break
        error = renewing.exception()
        if error is None:
            journal.lease = renewing.result()
            return
        if not isinstance(error, StoreError):
            raise error
        problem = error
        if isinstance(error, LeaseLost) or left <= CLOCK_SLACK:
            break
        await asyncio.sleep(min(0.2, left))
    journal.fail(problem)


def _look_at(late: asyncio.Task[Lease]) -> None:
    """A renewal may outlive us, when we are cancelled or it takes too long: its failure is not news then."""
    if not late.cancelled():
        late.exception()


async def own_agent(parent: Journal, child: str) -> None:
    """Whoever takes the parent's session over after a crash ends the agent, also between two calls."""
    for _, process in await parent.store.owned_processes(child):
        await parent.store.own_process(parent.lease, OWNED_AGENT + child, process)


async def close_dead_agent(store: Store, child: str, world: World) -> ChildResult | None:
    """Ends the processes and the run that a dead owner left. None while its owner lives, or if it never
    began."""
    with suppress(SessionHeld, NotFound):
        journal = await open_journal(store, await store.acquire(child, new_owner(world)), world)
        try:
            await kill_session_processes(store, child, world)
            await close_interrupted_run(journal)
        finally:
            await store.release(journal.lease)
        return ChildResult(child, "", "interrupted", reason=PROCESS_ENDED)
    return None


async def close_dead_agents(store: Store, world: World) -> list[str]:
    """Those of all sessions that nobody drives, and whose run is open or whose processes live: between two
    runs, too, an agent may have started some that left its group. The sessions that had one."""
    ended = []
    left = await asyncio.to_thread(sessions_with_processes)
    for summary in await store.sessions():
        is_open = summary.status in ("running", "waiting") or summary.id in left
        is_other = summary.driver != "agent"
        if is_other and is_open and await close_dead_agent(store, summary.id, world) is not None:
            ended.append(summary.id)
    return ended
