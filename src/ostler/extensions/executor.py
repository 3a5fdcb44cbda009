"""Calls an extension's code: plain functions in a thread of their own, with time limits and error reports."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import queue
import threading
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
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
    """An extension's code raised, timed out or tried to exit; the message has its file and line."""


class ExtensionTimeout(ExtensionError):
    """An extension's code exceeded its time limit."""


class Worker:
    """The thread that runs an extension's plain functions, one after the other. It is a daemon: code that
    hangs does not keep the process alive. Such a thread is abandoned, and later calls get another."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: _Jobs | None = None

    def detach(self, jobs: _Jobs) -> bool:
        """Gives other calls another thread while the function in this one waits for the event loop; False if
        the thread is abandoned already."""
        if self._jobs is not jobs:
            return False
        self._jobs = None
        return True

    def reattach(self, jobs: _Jobs) -> None:
        """The function continues. If there is another thread by now, this one ends with the function."""
        if self._jobs is None:
            self._jobs = jobs
        else:
            jobs.put(_leave)

    def post(self, job: Callable[[], None]) -> None:
        """Runs a job after those posted before. It must not raise."""
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            name, arguments = f"ostler-extension-{self._name}", (self, self._jobs)
            threading.Thread(target=_work, args=arguments, daemon=True, name=name).start()
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


class _Current(threading.local):
    """The worker of the current thread, and its queue."""

    worker: Worker | None = None
    jobs: _Jobs


_current = _Current()


def _leave() -> None:
    raise SystemExit


def _work(worker: Worker, jobs: _Jobs) -> None:
    _current.worker, _current.jobs = worker, jobs
    with suppress(SystemExit):
        while True:
            jobs.get()()


_waits: ContextVar[set[asyncio.Task[Any]] | None] = ContextVar("_waits", default=None)
"""The tasks that the running plain function waits for: they are cancelled with it."""


async def call(worker: Worker, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the function: awaited here if it is async, run by the worker if it is plain. Raises
    `ExtensionError` with what it raised, and where. The caller limits its time."""
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
    """Excludes time in which this process was stalled, noticed by a timer that fires late: a busy machine is
    not the code's fault."""

    def __init__(self, interval: float) -> None:
        super().__init__()
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        self._stalled = 0.0
        self._start_timer()

    def _start_timer(self) -> None:
        self._timer = self._loop.call_later(self._interval, self._tick)

    def _tick(self) -> None:
        self._stalled += self._loop.time() - self._timer.when()
        self._start_timer()

    def paused(self) -> float:
        return super().paused() + self._stalled

    def stop(self) -> None:
        self._timer.cancel()


@contextmanager
def untimed() -> Iterator[None]:
    """Does not count the time of the block against the time limit of the running handler."""
    watch = running_stopwatch.get()
    if watch:
        watch.pause()
    try:
        yield
    finally:
        if watch:
            watch.resume()


def described(error: BaseException, function: Callable[..., Any] | None = None) -> str:
    """The error with the extension's file and line: `ValueError: no (gate.py:12)`."""
    code = getattr(inspect.unwrap(function), "__code__", None) if function else None
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if code and frame.filename == code.co_filename]
    return with_location(error, own or [one for one in frames if "/ostler/extensions/" not in one.filename])


def with_location(error: BaseException, frames: Sequence[traceback.FrameSummary]) -> str:
    """The error with the file and line of the last of these frames."""
    text = describe_error(error)
    if isinstance(error, SystemExit):
        text = f"it tried to exit the process ({error.code})"
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else text


def place_of(function: Callable[..., Any]) -> str:
    """` (file.py:12)`, for messages; empty for a function that is not written in Python."""
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
    """See `place_of`."""

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
        self._posted: deque[Callable[[], None]] = deque()
        self._is_awake = False

    def post(self, action: Callable[[], None]) -> None:
        """Calls it on the event loop soon. Calls of many threads wake the loop once."""
        self._posted.append(action)
        if not self._is_awake:
            self._is_awake = True
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._run_posted)

    def _run_posted(self) -> None:
        self._is_awake = False
        while self._posted:
            self._posted.popleft()()

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
        worker = _current.worker
        jobs = _current.jobs if worker else None
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
