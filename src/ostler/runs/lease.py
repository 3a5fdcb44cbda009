"""Keeping the lease while a run is driven."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ostler.kernel.cancel import CancelToken
from ostler.kernel.journal import Journal
from ostler.log.leasing import LEASE_MS, RENEW_SECONDS
from ostler.vocabulary.errors import LeaseLost, StoreError


@asynccontextmanager
async def kept_lease(journal: Journal, cancel: CancelToken) -> AsyncIterator[None]:
    """Renews the lease at a third of its period. When that fails for two thirds of it, everything is
    stopped while the lease still holds, so that nothing of ours runs when somebody else takes over."""
    keeper = asyncio.ensure_future(_renew(journal, cancel))
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.wait({keeper})


async def _renew(journal: Journal, cancel: CancelToken) -> None:
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            journal.lease = await journal.store.renew(journal.lease)
        except LeaseLost as error:
            journal.failed = error
            cancel.cancel("the lease was lost")
            return
        except StoreError as error:
            left_ms = journal.lease.expires_ms - journal.world.now_ms()
            if left_ms <= LEASE_MS / 3:
                journal.failed = error
                cancel.cancel("the lease could not be renewed")
                return
