"""Wakes tasks that wait for a change of the store, also one that another process made."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ostler.schema.errors import StoreError

_IN_MODIFY = 0x2
_BUFFER_SIZE = 64 * 1024


class FileWatch:
    """Waits for writes to a file with inotify. Raises `OSError` if the system has none."""

    _descriptor = -1

    def __init__(self, path: Path) -> None:
        import ctypes  # slow to load, and most runs do not wait

        system = ctypes.CDLL(None, use_errno=True)
        if not hasattr(system, "inotify_init1"):
            raise OSError(f"this system cannot report writes to {path.name}")
        descriptor = self._descriptor = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0 or system.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY) < 0:
            raise OSError(ctypes.get_errno(), "no watch", str(path))

    async def written(self, seconds: float) -> None:
        """Returns after a write, or after so many seconds. Raises `OSError` if it is closed."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._descriptor, readable.set)
        try:
            async with asyncio.timeout(seconds):
                await readable.wait()
        except TimeoutError:
            return
        finally:
            loop.remove_reader(self._descriptor)
        os.read(self._descriptor, _BUFFER_SIZE)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):  # another part of the program closed the descriptor
                os.close(descriptor)

    def __del__(self) -> None:
        self.close()


POLL_SECONDS, SLOW_POLL_SECONDS = 0.025, 0.08
"""How often to check for writes of other processes while a task waits; facts are due within 100 ms."""

IDLE_SECONDS = 2.0
"""How long without a write until inotify replaces polling, so that an idle process needs no CPU time. Without
inotify the polling gets slower."""

WATCH_SECONDS = 2.0
"""How often to check for writes while inotify watches."""

ANYWHERE = ""
"""The topic of all changes."""


def inbox_of(session: str) -> str:
    """The topic of a session's requests; the topic of its facts is the session's id."""
    return f"inbox of {session}"


class ChangeNotifier:
    """A version for each topic, which grows with every change.

    It has no state of an event loop in which nothing waits, so one store can serve one loop after the other.
    """

    def __init__(self, changed_elsewhere: Callable[[], bool] | None = None, file: Path | None = None) -> None:
        """`file` is the one that other processes write to."""
        self._changed_elsewhere = changed_elsewhere
        self._file = file
        self._watch: FileWatch | None = None
        self._versions: dict[str, int] = {}
        self._elsewhere = 0
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._closed = False

    def version(self, topic: str) -> int:
        return self._versions.get(topic, 0) + self._elsewhere

    def notify(self, topic: str) -> None:
        for changed in (topic, ANYWHERE):
            self._versions[changed] = self._versions.get(changed, 0) + 1
        self._wake((topic, ANYWHERE))

    async def wait(self, topic: str, seen: int) -> int:
        """Returns when the version differs from `seen`. Raises `StoreError` if the store fails or closes."""
        while self.version(topic) == seen:
            if self._closed:
                raise StoreError("the store was closed")
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(topic, set()).add(waiter)
            self._start_poller()
            try:
                await waiter
            finally:
                waiting = self._waiting[topic]
                waiting.discard(waiter)
                if not waiting:
                    del self._waiting[topic]
        return self.version(topic)

    async def close(self) -> None:
        """Everything that waits gets a `StoreError`."""
        self._closed = True
        self._wake(tuple(self._waiting))
        poller, self._poller = self._poller, None
        if poller is not None and poller.get_loop() is asyncio.get_running_loop():
            poller.cancel()
            await asyncio.wait({poller})
        if self._watch is not None:
            self._watch.close()

    def _wake(self, topics: Sequence[str], problem: StoreError | None = None) -> None:
        for waiter in [waiter for topic in topics for waiter in self._waiting.get(topic, ())]:
            if not waiter.done() and not waiter.get_loop().is_closed():
                waiter.set_result(None) if problem is None else waiter.set_exception(problem)

    def _start_poller(self) -> None:
        if self._changed_elsewhere is None:
            return
        poller, here = self._poller, asyncio.get_running_loop()
        if poller is None or poller.done() or poller.get_loop() is not here:
            self._poller = asyncio.ensure_future(self._poll(self._changed_elsewhere))

    async def _poll(self, changed_elsewhere: Callable[[], bool]) -> None:
        now = asyncio.get_running_loop().time
        last_change = now()
        while self._waiting and self._poller is asyncio.current_task():
            try:
                changed = changed_elsewhere()
            except StoreError as problem:
                self._wake(tuple(self._waiting), problem)
                return
            if changed:
                self._elsewhere += 1
                self._wake(tuple(self._waiting))
                last_change = now()
            await asyncio.sleep(POLL_SECONDS)  # with inotify as well, which also reports our own writes
            if now() > last_change + IDLE_SECONDS:
                await self._wait_for_write()

    async def _wait_for_write(self) -> None:
        """Also returns when the watch starts: the caller must check once more for writes before it."""
        try:
            if self._watch is not None:
                return await self._watch.written(WATCH_SECONDS)
            if self._file is not None:
                self._watch = FileWatch(self._file)
                return None
        except FileNotFoundError:
            pass  # nothing was written yet
        except OSError:
            self._file, self._watch = None, None
        return await asyncio.sleep(SLOW_POLL_SECONDS - POLL_SECONDS)
