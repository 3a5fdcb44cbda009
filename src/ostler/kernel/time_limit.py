"""The limit of a run's time: it ends the run wherever it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from ostler.kernel.budget import WARN_AT, limit_warning
from ostler.kernel.cancel import CancelToken
from ostler.kernel.journal import Journal
from ostler.kernel.run_state import RunState
from ostler.vocabulary.errors import StoreError


@asynccontextmanager
async def time_limit(journal: Journal, seconds: float | None, cancel: CancelToken) -> AsyncIterator[None]:
    """Fires the token when the open run has had its time. While it waits for somebody, time stands still."""
    run = journal.state.run
    if run is None or seconds is None:
        yield
        return
    watching = asyncio.ensure_future(_watch(journal, run, seconds, cancel))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def _watch(journal: Journal, run: RunState, seconds: float, cancel: CancelToken) -> None:
    used = _seconds_used(run, journal.world.now_ms())
    await asyncio.sleep(max(0.0, seconds * WARN_AT - used))
    if "seconds" not in run.warned and journal.state.run is run and not journal.failed:
        journal.record(limit_warning("seconds", seconds * WARN_AT, seconds))
        with suppress(StoreError):  # `Journal.fail` has told everybody
            await journal.commit()
    await asyncio.sleep(max(0.0, seconds - _seconds_used(run, journal.world.now_ms())))
    cancel.cancel(f"the limit of {seconds:g} seconds was reached", is_limit=True)


def _seconds_used(run: RunState, now_ms: int) -> float:
    waiting = now_ms - run.waiting_since_ms if run.waiting else 0
    return max(0, now_ms - run.time_ms - run.waited_ms - waiting) / 1000
