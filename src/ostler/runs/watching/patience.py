"""Limits of time for those who wait for something new, which end together when nothing more will come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Patience:
    """After `end` nobody waits any more."""

    def __init__(self) -> None:
        self._limits: set[asyncio.Timeout] = set()
        self._is_over = False

    def __len__(self) -> int:
        """How many wait."""
        return len(self._limits)

    @asynccontextmanager
    async def of(self, seconds: float | None) -> AsyncIterator[None]:
        """Raises `TimeoutError`, as `asyncio.timeout` does."""
        async with asyncio.timeout(0 if self._is_over else seconds) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    def end(self) -> None:
        self._is_over = True
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())
