"""Blocking work off the event loop, with a word on what a cancellation does to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

Stop = Callable[[], bool]
"""Says whether the work should end early; asked now and then by the work itself."""


async def in_thread(work: Callable[[Stop], T]) -> T:
    """Runs work that only looks. A cancellation returns at once and tells the work to stop."""
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(work, stopped.is_set)
    except asyncio.CancelledError:
        stopped.set()
        raise


async def to_its_end(work: Callable[[], T]) -> T:
    """Runs short work that changes something. A cancellation waits for it, so that nothing changes after
    the call has its outcome."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise
