"""Bounded ways to stop what was started."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Literal, TypeVar

from ostler.kernel.cancel import CancelToken

GRACE = 5.0
"""Seconds a cancelled tool has to end; longer than it takes to end a process group."""

CLOCK_SLACK = 0.001
"""Seconds too small to wait for: a clock may not even notice them."""

Result = TypeVar("Result")


class Stopped(Exception):
    """The token fired."""


class stops_with:
    """`async with stops_with(token):` ends the block with `Stopped` when the token fires."""

    def __init__(self, token: CancelToken) -> None:
        self._token = token

    async def __aenter__(self) -> None:
        if self._token.cancelled:
            raise Stopped
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._fired = False
        self._firing: asyncio.Handle | None = None
        self._forget = self._token.on_cancel(self._fire_soon)

    def _fire_soon(self) -> None:
        # Not at once: the token may be fired by the task itself, from a callback it makes inside the
        # block. A task that cancels itself and then leaves the block would carry the cancellation out.
        self._firing = asyncio.get_running_loop().call_soon(self._fire)

    def _fire(self) -> None:
        self._fired = True
        self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._forget()
        if self._firing:
            self._firing.cancel()
        # As in asyncio.timeout: a cancellation that came from elsewhere as well is not ours to hide.
        if self._fired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Stopped from error


class Stopwatch:
    """Counts the time that does not count: while a tool waits for a person."""

    def __init__(self) -> None:
        self._paused = 0.0
        self._since: float | None = None

    def pause(self) -> None:
        self._since = asyncio.get_running_loop().time()

    def go_on(self) -> None:
        if self._since is not None:
            self._paused += asyncio.get_running_loop().time() - self._since
            self._since = None

    def paused(self) -> float:
        running = asyncio.get_running_loop().time() - self._since if self._since is not None else 0.0
        return self._paused + running


async def run_bounded(
    work: Coroutine[Any, Any, Result],
    token: CancelToken,
    timeout: float | None,
    stopwatch: Stopwatch | None = None,
) -> tuple[Literal["done", "cancelled", "timed_out"], asyncio.Task[Result]]:
    """Runs `work` until it ends, the token fires or time is up; then it has `GRACE` seconds to end.

    The task is done when this returns, unless it ignored its cancellation for that long. When we are
    cancelled ourselves, so is the work.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    fired = loop.create_future()

    def fire() -> None:
        if not fired.done():
            fired.set_result(None)

    forget = token.on_cancel(fire)
    began = loop.time()
    left = timeout
    try:
        while True:
            await asyncio.wait({task, fired}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return "done", task
            if fired.done() or timeout is None:
                break
            left = timeout - (loop.time() - began) + (stopwatch.paused() if stopwatch else 0.0)
            if left < CLOCK_SLACK:
                break
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE)
        return ("cancelled" if fired.done() else "timed_out"), task
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE)
        raise
    finally:
        forget()
        fired.cancel()
