"""The lease: hold it, renew it, suspend it; and end what a dead holder left: processes and driven agents."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, suppress

import msgspec

from ostler.core.cancellation import CLOCK_SLACK, background_task
from ostler.core.children import ChildResult
from ostler.core.journal import Journal, World, open_journal
from ostler.core.processes import ProcessId, sessions_with_processes
from ostler.core.recovery import PROCESS_ENDED, close_interrupted_run
from ostler.core.store import Lease, Store
from ostler.schema.errors import LeaseLost, NotFound, SessionHeld, StoreBusy, StoreError
from ostler.store import rules

OWNED_AGENT = "agent:"
"""Prefix of a terminal agent's session in the list of owned processes; others have their call there."""


async def kill_orphans(journal: Journal) -> None:
    """Kills what the tools of the former owner left running, if that died, or lost its lease while a run was
    open. An idle owner that is alive keeps its processes."""
    owner = journal.lease.taken_from
    if owner is not None and (journal.state.run is not None or not owner.is_alive()):
        await kill_session_processes(journal.store, journal.session, journal.world)


async def kill_session_processes(store: Store, session: str, world: World) -> None:
    owned = await store.owned_processes(session)
    for _, process in owned:
        process.kill_group()
    world.kill_processes_of(session)
    for child in {name.removeprefix(OWNED_AGENT) for name, _ in owned if name.startswith(OWNED_AGENT)}:
        await close_dead_agent(store, child, world)


def new_owner(world: World) -> ProcessId:
    """This process and this opening of a session: two openings in a process exclude each other as well."""
    return msgspec.structs.replace(world.process(), opening=world.new_id("own"))


async def hold_lease(journal: Journal) -> None:
    """Makes sure of the lease before a run begins: the lease of an idle session is not renewed, so another
    process may have had it. Then the log is read again."""
    if journal.failed:
        raise journal.failed
    if journal.is_moved:  # a task moved the leaf, and was cancelled before it read the log again
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
    """Lets other processes have an idle session until it is held again."""
    if journal.failed is None:
        with suppress(LeaseLost):  # another process has it already
            journal.lease = await journal.store.suspend(journal.lease)


def renew_lease(journal: Journal) -> AbstractAsyncContextManager[None]:
    """Renews the lease at a third of its period. If that fails for two thirds of it, everything stops while
    the lease is still valid, so that nothing of ours runs when another process takes over."""
    return background_task(_keep_renewing(journal))


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
        renewing.add_done_callback(_ignore_error)
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


def _ignore_error(renewal: asyncio.Task[Lease]) -> None:
    """A renewal may outlive us when we are cancelled or it takes too long: asyncio would log its error."""
    if not renewal.cancelled():
        renewal.exception()


async def own_agent(parent: Journal, child: str) -> None:
    """Lets the process that takes the parent's session over after a crash end the agent."""
    for _, process in await parent.store.owned_processes(child):
        await parent.store.own_process(parent.lease, OWNED_AGENT + child, process)


async def close_dead_agent(store: Store, child: str, world: World) -> ChildResult | None:
    """Ends the processes and the run that a dead owner left. None while the owner lives, or if the child
    never started."""
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
    """Ends the agents of all sessions that no process drives, if their run is open or their processes live:
    between runs, too, an agent may have started some that left its group. Returns the sessions."""
    ended = []
    with_processes = await asyncio.to_thread(sessions_with_processes)
    for summary in await store.sessions():
        is_open = summary.status in ("running", "waiting") or summary.id in with_processes
        is_other = summary.driver != "agent"
        if is_other and is_open and await close_dead_agent(store, summary.id, world) is not None:
            ended.append(summary.id)
    return ended
