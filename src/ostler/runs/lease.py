"""Keeping the lease while a run is driven."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec

from ostler.kernel.journal import Journal, World
from ostler.kernel.processes import ProcessId
from ostler.kernel.stopping import CLOCK_SLACK
from ostler.kernel.store import Lease
from ostler.log import leasing
from ostler.runs.orphans import end_orphans
from ostler.vocabulary.errors import LeaseLost, StoreBusy, StoreError


def new_owner(world: World) -> ProcessId:
    """This process, and in it this one opening of a session: two of them exclude each other as well."""
    return msgspec.structs.replace(world.process(), opening=world.new_id("own"))


async def hold(journal: Journal) -> None:
    """Makes sure of the lease before a run begins: an idle session is not renewed, and may have been
    taken by somebody who has given it back since. Then its log is read anew."""
    if journal.failed:
        raise journal.failed
    if journal.is_moved:  # whoever moved the leaf was stopped before the log was read anew
        await journal.commit()
        await journal.reload()
    left_ms = journal.lease.expires_ms - journal.world.now_ms()
    if left_ms > leasing.LEASE_MS * 5 / 6 and not journal.is_elsewhere:
        return
    try:
        journal.lease = await journal.store.renew(journal.lease)
    except LeaseLost:
        await journal.take_up(await journal.store.acquire(journal.session, journal.lease.owner))
        await end_orphans(journal)


async def rest(journal: Journal) -> None:
    """Until it is held again, whoever wants the session may have it: nothing is under way in it."""
    if journal.failed is None:
        with suppress(LeaseLost):  # somebody has it already
            journal.lease = await journal.store.rest(journal.lease)


@asynccontextmanager
async def kept_lease(journal: Journal) -> AsyncIterator[None]:
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
        await asyncio.sleep(leasing.RENEW_SECONDS)
        await _renew(journal)


async def _renew(journal: Journal) -> None:
    """One renewal, tried until a third of the period is left, and once in any case."""
    last_moment = (journal.lease.expires_ms - leasing.LEASE_MS / 3 - journal.world.now_ms()) / 1000
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
