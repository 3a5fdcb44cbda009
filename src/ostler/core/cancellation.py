"""Cancellation: a token that stops all code that has it, and bounded ways to stop a task."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeVar


class CancelToken:
    """Cancelled once, for one reason. Callbacks run at once, in the order they were added."""

    def __init__(self) -> None:
        self.cancelled = False
        self.reason = ""
        self.request = ""
        self.is_limit = False
        self._callbacks: list[Callable[[], object]] = []

    def cancel(self, reason: str = "cancelled", request: str = "", *, is_limit: bool = False) -> None:
        if self.cancelled:
            return
        self.cancelled = True
        self.is_limit = is_limit
        self.reason = reason
        self.request = request
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Calls `callback` on cancellation (now, if it has happened). Returns a function that removes it."""
        if self.cancelled:
            callback()
            return lambda: None
        self._callbacks.append(callback)

        def remove() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return remove

    async def wait(self) -> None:
        cancelled = asyncio.Event()
        remove = self.on_cancel(cancelled.set)
        try:
            await cancelled.wait()
        finally:
            remove()


GRACE = 5.0
"""Seconds a cancelled tool has to end; longer than it takes to end a process group."""

CLOCK_SLACK = 0.001
"""Seconds too short to wait for: a clock may not measure them."""

Result = TypeVar("Result")


class ScopeCancelled(Exception):
    """The token fired."""


class SilenceTimeout(Exception):
    """No `reset` for too long."""


class cancel_scope:
    """`async with cancel_scope(token):` ends the block with `ScopeCancelled` when the token fires.

    With `silence` it ends with `SilenceTimeout` after that many seconds without a call of `reset`. It can be
    used again.
    """

    def __init__(self, token: CancelToken, silence: float | None = None) -> None:
        self._token = token
        self.silence = silence
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> cancel_scope:
        if self._token.cancelled:
            raise ScopeCancelled
        self._loop = asyncio.get_running_loop()
        self._task = task = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        self._ending: type[Exception] | None = None
        self._firing: asyncio.Handle | None = None
        self._remove = self._token.on_cancel(self._fire_soon)
        self.reset()
        if self.silence is not None and self._timer is None:
            self._start_timer(self.silence)
        return self

    def reset(self) -> None:
        self._last_reset = self._loop.time()

    def _start_timer(self, seconds: float) -> None:
        # One timer serves many uses and network reads: a timer for each would take longer than everything
        # else here. It refers to us weakly, so that it keeps neither us nor the token alive.
        self._timer = self._loop.call_later(seconds, _check_silence, weakref.ref(self))

    def check_silence(self) -> None:
        """Fires, unless there was a `reset` meanwhile."""
        self._timer = None
        if self._task is None or self.silence is None:
            return
        left = self._last_reset + self.silence - self._loop.time()
        if left < CLOCK_SLACK:
            self._fire(SilenceTimeout)
        else:
            self._start_timer(left)

    def _fire_soon(self) -> None:
        # Not at once: the task itself may fire the token inside the block. If a task cancels itself and then
        # leaves the block, the cancellation takes effect outside.
        self._firing = self._loop.call_soon(self._fire, ScopeCancelled)

    def _fire(self, ending: type[Exception]) -> None:
        if self._ending is None and self._task is not None:
            self._ending = ending
            self._task.cancel()

    async def __aexit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        self._remove()
        if self._firing:
            self._firing.cancel()
        task, self._task = self._task, None
        assert task is not None
        # As in asyncio.timeout: a cancellation that also came from elsewhere must not be hidden.
        if self._ending and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise self._ending from error


def _check_silence(reference: weakref.ref[cancel_scope]) -> None:
    if (scope := reference()) is not None:
        scope.check_silence()


def is_being_cancelled() -> bool:
    """Whether the current task is being cancelled; else a `CancelledError` came from code that it runs."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@asynccontextmanager
async def background_task(work: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """Runs `work` while the block runs, and cancels it at the end of the block."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def run_shielded(work: Coroutine[Any, Any, Any]) -> None:
    """Waits for `work` to end, even when we are cancelled once more."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})


class Stopwatch:
    """Counts the time that a tool waits for a user, which its timeout leaves out."""

    def __init__(self) -> None:
        self._paused = 0.0
        self._pauses = 0
        self._since: float | None = None

    def pause(self) -> None:
        """Until `go_on` was called as often as `pause`: a tool may wait for two things at once."""
        self._pauses += 1
        if self._since is None:
            self._since = asyncio.get_running_loop().time()

    def resume(self) -> None:
        self._pauses -= 1
        if self._since is not None and not self._pauses:
            self._paused += asyncio.get_running_loop().time() - self._since
            self._since = None

    def paused(self) -> float:
        running = asyncio.get_running_loop().time() - self._since if self._since is not None else 0.0
        return self._paused + running


running_stopwatch: ContextVar[Stopwatch | None] = ContextVar("running_stopwatch", default=None)
"""The running handler's: a question to the user pauses it."""


async def run_with_timeout(
    work: Coroutine[Any, Any, Result],
    token: CancelToken,
    timeout: float | None,
    stopwatch: Stopwatch | None = None,
) -> tuple[Literal["done", "cancelled", "timed_out"], asyncio.Task[Result]]:
    """Runs `work` until it ends, the token fires or time is up; then it has `GRACE` seconds to end. The task
    is done when this returns, unless it ignored its cancellation for that long. When we are cancelled
    ourselves, so is the work."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    wakeup = loop.create_future()

    def wake(*_: object) -> None:
        if not wakeup.done():
            wakeup.set_result(None)

    task.add_done_callback(wake)
    remove = token.on_cancel(lambda: loop.call_soon(wake))
    began = loop.time()
    left = timeout
    try:
        while True:
            timer = None if left is None else loop.call_later(left, wake)
            try:
                await wakeup
            finally:
                if timer:
                    timer.cancel()
            if task.done():
                return "done", task
            if token.cancelled or timeout is None:
                break
            left = timeout - (loop.time() - began) + (stopwatch.paused() if stopwatch else 0.0)
            if left < CLOCK_SLACK:
                break
            wakeup = loop.create_future()
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE)
        return ("cancelled" if token.cancelled else "timed_out"), task
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE)
        raise
    finally:
        remove()
