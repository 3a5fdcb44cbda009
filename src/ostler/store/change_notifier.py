"""Waking whoever waits for something new, also when another process wrote it."""
# MERGED: Being told by the system that a file was written, where the system can tell.

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ostler.schema.errors import StoreError

_IN_MODIFY = 0x2

_ALL_AT_ONCE = 64 * 1024


class FileWatch:
    """Tells of every write since the last `written`. Raises `OSError` where that cannot be had."""

    def __init__(self, path: Path) -> None:
        import ctypes  # takes longer to load than most runs have to wait

        self._descriptor = -1
        system = ctypes.CDLL(None, use_errno=True)
        if not hasattr(system, "inotify_init1"):
            raise OSError(f"this system does not tell of writes to {path.name}")
        self._descriptor = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if (
            self._descriptor < 0
            or system.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_MODIFY) < 0
        ):
            raise OSError(ctypes.get_errno(), "no watch", str(path))

    async def written(self, seconds: float) -> None:
        """Returns when something was written, or after so many seconds. Raises `OSError` if it is closed."""
        loop = asyncio.get_running_loop()
        told = asyncio.Event()
        loop.add_reader(self._descriptor, told.set)
        try:
            async with asyncio.timeout(seconds):
                await told.wait()
        except TimeoutError:
            return
        finally:
            loop.remove_reader(self._descriptor)
        os.read(self._descriptor, _ALL_AT_ONCE)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):  # a program that closes what is not its own has been before us
                os.close(descriptor)

    def __del__(self) -> None:
        self.close()


POLL_SECONDS, SELDOM_SECONDS = 0.025, 0.08
"""How often another process's writes are looked for while somebody waits; facts are due within 100 ms."""

QUIET_SECONDS = 2.0
"""Without any, after which the system is to tell of them: a process at rest should cost next to nothing.
Where it cannot, they are looked for seldom."""

TOLD_SECONDS = 2.0
"""How often they are looked for where the system tells."""


ANYWHERE = ""
"""The topic of everything that happens."""


def inbox_of(session: str) -> str:
    """The topic of a session's requests; its facts are the topic of the session's own name."""
    return f"inbox of {session}"


class ChangeNotifier:
    """A version for each topic that grows whenever something happened there.

    It keeps nothing of an event loop in which nobody waits, so one store can serve one loop after the other.
    """

    def __init__(
        self, changed_elsewhere: Callable[[], bool] | None = None, written: Path | None = None
    ) -> None:
        """`written` is the file that others write to."""
        self._changed_elsewhere = changed_elsewhere
        self._written = written
        self._watch: FileWatch | None = None
        self._versions: dict[str, int] = {}
        self._elsewhere = 0
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._closed = False

    def version(self, topic: str) -> int:
        return self._versions.get(topic, 0) + self._elsewhere

    def notify(self, topic: str) -> None:
        for one in (topic, ANYWHERE):
            self._versions[one] = self._versions.get(one, 0) + 1
            self._wake(one)

    async def wait(self, topic: str, seen: int) -> int:
        """Returns once the version is not `seen` any more; raises `StoreError` if that cannot be known."""
        while self.version(topic) == seen:
            if self._closed:
                raise StoreError("the store was closed")
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(topic, set()).add(woken)
            self._watch_elsewhere()
            try:
                await woken
            finally:
                waiting = self._waiting[topic]
                waiting.discard(woken)
                if not waiting:
                    del self._waiting[topic]
        return self.version(topic)

    async def close(self) -> None:
        """Whoever waits is told."""
        self._closed = True
        self._wake_all()
        poller, self._poller = self._poller, None
        if poller is not None and poller.get_loop() is asyncio.get_running_loop():
            poller.cancel()
            await asyncio.wait({poller})
        if self._watch is not None:
            self._watch.close()

    def _wake(self, topic: str, problem: StoreError | None = None) -> None:
        waiting = self._waiting.get(topic)
        if not waiting:
            return
        for woken in tuple(waiting):
            if not woken.done() and not woken.get_loop().is_closed():
                woken.set_result(None) if problem is None else woken.set_exception(problem)

    def _wake_all(self, problem: StoreError | None = None) -> None:
        for topic in tuple(self._waiting):
            self._wake(topic, problem)

    def _watch_elsewhere(self) -> None:
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
                self._wake_all(problem)
                return
            if changed:
                self._elsewhere += 1
                self._wake_all()
                last_change = now()
            await asyncio.sleep(POLL_SECONDS)  # also where the system tells: of our own writes it tells, too
            if now() > last_change + QUIET_SECONDS:
                await self._until_written()

    async def _until_written(self) -> None:
        if self._watch is not None:
            try:
                await self._watch.written(TOLD_SECONDS)
            except OSError:
                self._written, self._watch = None, None
        elif not self._begin_watching():
            await asyncio.sleep(SELDOM_SECONDS - POLL_SECONDS)

    def _begin_watching(self) -> bool:
        """What was written before it began is to be looked for once more."""
        if self._written is None:
            return False
        try:
            self._watch = FileWatch(self._written)
        except FileNotFoundError:
            return False  # nothing was written yet
        except OSError:
            self._written = None
        return self._watch is not None
