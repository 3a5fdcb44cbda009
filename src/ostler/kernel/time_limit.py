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
from ostler.vocabulary.events import RunEnded

LOOK_AGAIN = 0.25
"""Seconds after which it is seen that a person has answered."""


TIME_IS_UP = "seconds was reached"


def is_time_limit(ended: RunEnded) -> bool:
    """Whether time cut the run, and not what it did."""
    return ended.status == "limit" and ended.reason.endswith(TIME_IS_UP)


@asynccontextmanager
async def time_limit(journal: Journal, seconds: float | None, cancel: CancelToken) -> AsyncIterator[None]:
    """Fires the token when the open run has had its time. While a person is waited for, time stands still."""
    run = journal.state.run
    if run is None or seconds is None:
        yield
        return
    watching = asyncio.ensure_future(_Watch(journal, run).watch(seconds, cancel))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})


class _Watch:
    """Counts the time of a run from where its log ends: for as long as nobody drove it, none has passed."""

    def __init__(self, journal: Journal, run: RunState) -> None:
        self._journal = journal
        self._run = run
        self._unattended_ms = max(0, journal.world.now_ms() - journal.state.last_time_ms)
        if run.still_since_ms is not None:
            self._unattended_ms = 0  # it stood still in any case

    async def watch(self, seconds: float, cancel: CancelToken) -> None:
        await self._until(seconds * WARN_AT)
        journal, run = self._journal, self._run
        if "seconds" not in run.warned and journal.state.run is run and not journal.failed:
            journal.record(limit_warning("seconds", seconds * WARN_AT, seconds))
            with suppress(StoreError):  # `Journal.fail` has told everybody
                await journal.commit()
        await self._until(seconds)
        cancel.cancel(f"the limit of {seconds:g} {TIME_IS_UP}", is_limit=True)

    async def _until(self, used: float) -> None:
        while (left := used - self._used()) > 0:  # noqa: ASYNC110  # it is time that is waited for
            await asyncio.sleep(left if self._run.still_since_ms is None else max(left, LOOK_AGAIN))

    def _used(self) -> float:
        run, now_ms = self._run, self._journal.world.now_ms()
        until_ms = now_ms if run.still_since_ms is None else run.still_since_ms
        return (until_ms - run.time_ms - run.still_ms - self._unattended_ms) / 1000
