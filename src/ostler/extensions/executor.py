"""Calls an extension's code: plain functions in a thread of their own, with time limits and error reports."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import queue
import threading
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ostler.core.cancellation import (
    CancelToken,
    Stopwatch,
    is_being_cancelled,
    run_with_timeout,
    running_stopwatch,
)
from ostler.core.function_tool import run_posted
from ostler.schema.errors import describe_error

Returned = TypeVar("Returned")

_Jobs = queue.SimpleQueue[Callable[[], None]]


class ExtensionError(Exception):
    """An extension's code raised, timed out or tried to exit; with the line."""


class ExtensionTimeout(ExtensionError):
    """An extension's code exceeded its time limit."""


class Worker:
    """The thread that runs an extension's plain functions, one after the other.

    It is a daemon: code that hangs does not keep the process alive. Such a thread is abandoned, and later
    calls get another.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: _Jobs | None = None

    def detach(self, jobs: _Jobs) -> bool:
        """The function in that thread waits for the event loop: other calls get another thread meanwhile.

        False if the thread is abandoned already.
        """
        if self._jobs is not jobs:
            return False
        self._jobs = None
        return True

    def reattach(self, jobs: _Jobs) -> None:
        """The function continues. If there is another thread by now, this one ends after the function."""
        if self._jobs is None:
            self._jobs = jobs
        else:
            jobs.put(_leave)

    def post(self, job: Callable[[], None]) -> None:
        """Runs a job after those posted before. It must not raise."""
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(
                target=_work,
                args=(self, self._jobs),
                daemon=True,
                name=f"ostler-extension-{self._name}",
            ).start()
        self._jobs.put(job)

    async def run(self, work: Callable[[], Returned]) -> Returned:
        """Runs it in the thread; returns or raises what it does."""
        context = contextvars.copy_context()
        result: Returned = await run_posted(self.post, lambda: context.run(work))
        return result

    def abandon(self) -> None:
        """Abandons the thread, which hangs or is no longer needed; it ends when it can."""
        if self._jobs is not None:
            self._jobs.put(_leave)
            self._jobs = None


class _Present(threading.local):
    """The worker of the current thread, and its queue."""

    worker: Worker | None = None
    jobs: _Jobs


_present = _Present()


def _leave() -> None:
    raise SystemExit


def _work(worker: Worker, jobs: _Jobs) -> None:
    _present.worker, _present.jobs = worker, jobs
    with suppress(SystemExit):
        while True:
            jobs.get()()


_waits: ContextVar[set[asyncio.Task[Any]] | None] = ContextVar("_waits", default=None)
"""The tasks that the running plain function waits for: they are cancelled with it."""


async def call(worker: Worker, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the function: awaited here if it is async, run by the worker if it is plain.

    Raises `ExtensionError` with what it raised, and where. The caller limits its time.
    """
    waits: set[asyncio.Task[Any]] = set()
    _waits.set(waits)
    try:
        if is_async(function):
            return await function(*arguments)
        returned = await worker.run(lambda: function(*arguments))
        return await returned if inspect.isawaitable(returned) else returned
    except asyncio.CancelledError:
        if is_being_cancelled():
            if not is_async(function):
                worker.abandon()
            for task in waits:
                task.cancel()
            raise
        raise ExtensionError(f"it cancelled itself{place_of(function)}") from None
    except ExtensionError:
        raise
    except BaseException as error:  # an exit or an interrupt would leave its task and end the event loop
        raise ExtensionError(described(error, function)) from error


async def call_within(seconds: float, worker: Worker, function: Callable[..., Any], *arguments: Any) -> Any:
    """`call` with a time limit; waiting for a user, or a stalled process, does not count."""
    watch = _FairStopwatch(seconds / 10)

    async def timed() -> Any:
        running_stopwatch.set(watch)
        return await call(worker, function, *arguments)

    try:
        status, task = await run_with_timeout(timed(), CancelToken(), seconds, watch)
    finally:
        watch.stop()
    if status == "timed_out":
        raise ExtensionTimeout(f"took longer than {seconds:g} s{place_of(function)}")
    return task.result()


class _FairStopwatch(Stopwatch):
    """Excludes time in which this process was stalled: a busy machine is not the code's fault.

    It notices by a timer that fires late.
    """

    def __init__(self, interval: float) -> None:
        super().__init__()
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        self._stood_still = 0.0
        self._begin_beat()

    def _begin_beat(self) -> None:
        self._beat = self._loop.call_later(self._interval, self._count)

    def _count(self) -> None:
        self._stood_still += self._loop.time() - self._beat.when()
        self._begin_beat()

    def paused(self) -> float:
        return super().paused() + self._stood_still

    def stop(self) -> None:
        self._beat.cancel()


def described(error: BaseException, function: Callable[..., Any] | None = None) -> str:
    """The error with the extension's file and line: `ValueError: no (gate.py:12)`."""
    if isinstance(error, SystemExit):
        text = f"it tried to exit the process ({error.code})"
    else:
        text = describe_error(error)
    own = _file_of(function) if function else ""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename == own] or [
        frame for frame in frames if "/ostler/extensions/" not in frame.filename
    ]
    return f"{text} ({Path(inside[-1].filename).name}:{inside[-1].lineno})" if inside else text


def _file_of(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_filename if code else ""


def place_of(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code else ""


def is_async(function: Callable[..., Any]) -> bool:
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    return inspect.iscoroutinefunction(called)


class Handler(msgspec.Struct, frozen=True):
    """A function of an extension, inspected once when it is registered."""

    function: Callable[..., Any]
    arity: int
    """How many positional arguments it gets: 0, the subject (1), or the subject and the context (2)."""
    is_async: bool
    location: str
    """` (file.py:12)`, for messages."""

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Handler:
        return cls(function, _arity(function), is_async(function), place_of(function))

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def take(self, *arguments: Any) -> tuple[Any, ...]:
        """The arguments that the function accepts."""
        return arguments[: self.arity]

    async def call(self, worker: Worker, *arguments: Any, seconds: float | None = None) -> Any:
        """Calls it with as many of these arguments as it takes; raises `ExtensionError`."""
        if seconds is None:
            return await call(worker, self.function, *self.take(*arguments))
        return await call_within(seconds, worker, self.function, *self.take(*arguments))


def _arity(function: Callable[..., Any]) -> int:
    """A parameter with a default is the extension's own, unless its name is `context`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return 2
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wanted = [one for one in parameters if one.default is one.empty or one.name == "context"]
    return min(2, sum(one.kind in places for one in wanted))


class LoopBridge:
    """The way back from an extension's thread to the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._told: deque[Callable[[], None]] = deque()
        self._is_awake = False

    def post(self, news: Callable[[], None]) -> None:
        """Calls it on the event loop soon. Calls of many threads wake the loop once."""
        self._told.append(news)
        if not self._is_awake:
            self._is_awake = True
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        self._is_awake = False
        while self._told:
            self._told.popleft()()

    @property
    def is_here(self) -> bool:
        return threading.get_ident() == self._thread

    def call(self, action: Callable[[], Returned]) -> Returned:
        """Calls it on the event loop's thread and waits for the result."""
        if self.is_here:
            return action()
        done: Future[Returned] = Future()

        def run() -> None:
            try:
                done.set_result(action())
            except BaseException as error:
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result()

    def run(self, work: Coroutine[Any, Any, Returned]) -> Returned:
        """Runs a coroutine for a plain function: on the loop, while the thread waits."""
        if self.is_here:
            work.close()
            raise RuntimeError("await it: `wait` is for plain functions, which run in a thread")
        context = contextvars.copy_context()
        done: Future[Returned] = Future()
        worker = _present.worker
        jobs = _present.jobs if worker else None
        is_parked = False

        def start() -> None:
            nonlocal is_parked
            is_parked = bool(worker and jobs and worker.detach(jobs))
            task = asyncio.ensure_future(work)
            task.add_done_callback(finish)
            if (waits := _waits.get()) is not None:
                waits.add(task)
                task.add_done_callback(waits.discard)

        def finish(task: asyncio.Task[Returned]) -> None:
            if is_parked and worker and jobs:
                worker.reattach(jobs)
            if task.cancelled():
                done.set_exception(RuntimeError("it was cancelled"))
            elif error := task.exception():
                done.set_exception(error)
            else:
                done.set_result(task.result())

        self._loop.call_soon_threadsafe(start, context=context)
        return done.result()
