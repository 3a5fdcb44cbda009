"""Hot reload: extensions follow their files, watched with the `watch` extra, else polled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostler.core.harness import OpenSession
from ostler.extensions import idle_host
from ostler.extensions.loader.code_files import Signature, signature
from ostler.extensions.loader.extension_loader import ExtensionLoader, Versions
from ostler.schema.errors import OstlerError
from ostler.store.paths import trust_file

if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost

SECONDS = 1.0
"""The polling interval without file notifications."""
WRITE_SECONDS = 0.03
"""How long a changed file must stay the same, since it may still be written."""


class FileWatcher:
    """Calls `changed` on the event loop when something below `places()` is new, changed or deleted. A place
    may be a file or a folder, and need not exist. Files that exist at the start count as new: they may have
    changed since they were read. The thread is a daemon."""

    def __init__(self, places: Callable[[], Sequence[Path]], changed: Callable[[], None]) -> None:
        self._places = places
        self._changed = changed
        self._timer: asyncio.TimerHandle | None = None
        self._stop: threading.Event | None = None

    def soon(self) -> None:
        """Starts after a delay, unless it has started."""
        if self._timer is None and self._stop is None:
            self._timer = asyncio.get_running_loop().call_later(idle_host.DELAY, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._stop is not None:
            self._stop.set()
        self._timer = self._stop = None

    def start(self) -> None:
        self._timer = None
        self._stop = threading.Event()
        work = (asyncio.get_running_loop(), self._stop)
        threading.Thread(target=self._run, args=work, daemon=True, name="ostler-watch").start()

    def _run(self, loop: asyncio.AbstractEventLoop, stop: threading.Event) -> None:
        with suppress(RuntimeError):  # the event loop was closed
            last: Signature = {}
            notifier = None
            while not stop.is_set():
                now = signature(self._places())
                if now == last:
                    notifier = notifier or _notifier(self._places())
                    if _wait(notifier, stop):
                        notifier = None  # the files it watches may have been replaced
                elif not stop.wait(WRITE_SECONDS) and now == signature(self._places()):
                    last, notifier = now, None
                    loop.call_soon_threadsafe(self._changed)


def _notifier(places: Sequence[Path]) -> Any:
    """Notifies of changes; None without the `watch` extra, or if the system does not support it."""
    try:
        from watchfiles._rust_notify import RustNotify
    except ImportError:
        return None
    paths = [str(place) for place in places if place.exists()]
    try:
        return RustNotify(paths, False, False, 0, True, True) if paths else None
    except (OSError, RuntimeError):  # a path was just deleted, or the machine watches too many
        return None


def _wait(notifier: Any, stop: threading.Event) -> bool:
    """Waits for a change, at most a second; returns whether it was notified of one."""
    if notifier is None:
        stop.wait(SECONDS)
        return False
    return not isinstance(notifier.watch(100, 25, int(SECONDS * 1000), stop), str)


class HotReload:
    """Loads new versions in the background. They replace the old ones at once while no run is open, else
    before the next step."""

    def __init__(self, host: ExtensionHost, loader: ExtensionLoader, versions: Versions) -> None:
        self._host = host
        self._loader = loader
        self._running = versions
        self._next: Versions | None = None
        """Versions that are loaded and wait for the next step."""
        self._lock = asyncio.Lock()
        self._check: asyncio.Future[None] | None = None
        self._is_stale = False
        self._replacement: asyncio.Future[None] | None = None
        self._watcher = FileWatcher(self._places, self.check_soon)

    async def before_step(self) -> None:
        self._watcher.soon()
        await self._replace()

    async def on_idle(self, session: OpenSession) -> None:
        self._watcher.soon()
        await self._replace_if_idle(session)

    async def stop(self) -> None:
        """No session is open any more. Versions that never ran are loaded again when there is one."""
        self._watcher.stop()
        if self._check is not None:
            self._check.cancel()
            await asyncio.wait({self._check})
        unused, self._next = self._next or {}, None
        for one in unused.values():
            if one not in self._running.values():
                await one.forget()

    def check_soon(self) -> None:
        """Checks the files, which may have changed."""
        if self._check is not None:
            self._is_stale = True
            return
        self._check = asyncio.ensure_future(self._check_files())

    async def _check_files(self) -> None:
        try:
            self._is_stale = True
            while self._is_stale:
                self._is_stale = False
                await self._load()
                await self._replace_if_idle()
        except (OstlerError, OSError) as error:
            self._host.warn(f"the extensions cannot be reloaded: {error}")
        finally:
            self._check = None

    async def reload(self) -> asyncio.Future[None]:
        """Loads everything anew. The result is done when the new versions run, or wait for the next step."""
        await self._load(anew=True)
        self._replacement = asyncio.ensure_future(self._replace_if_idle())
        return self._replacement

    async def _load(self, *, anew: bool = False) -> None:
        async with self._lock:
            before = self._next or self._running
            versions = await self._loader.refresh(before, anew=anew)
            in_use = (*versions.values(), *self._running.values())
            for one in before.values():
                if one not in in_use:  # replaced before it ever ran
                    await one.forget()
            is_changed = list(versions.values()) != list(self._running.values())
            self._next = versions if is_changed else None

    async def _replace_if_idle(self, besides: OpenSession | None = None) -> None:
        """Replaces the old versions unless a session is running, apart from `besides`."""
        sessions = [one.session for one in self._host.sessions.values()]
        if not any(one.is_running for one in sessions if one is not besides):
            await self._replace()

    async def _replace(self) -> None:
        if self._next is None:
            return
        versions, self._next = self._next, None
        old = [one for one in self._running.values() if one not in versions.values()]
        self._running = versions
        await self._host.replace([one.extension for one in versions.values()])
        for one in old:
            await one.forget()

    def _places(self) -> Sequence[Path]:
        """The files and folders whose change may mean another version."""
        search = self._loader.search
        own = [path for one in (self._next or self._running).values() for path in one.places]
        return list(dict.fromkeys((*search.places, *search.configured, *search.named, *own, trust_file())))
