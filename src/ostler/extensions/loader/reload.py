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
    from ostler.extensions.extension_session import ExtensionSession
    from ostler.extensions.host import ExtensionHost

SECONDS = 1.0
"""Between two looks, where nothing tells us of a change."""
SETTLES = 0.03
"""A file that is being written is waited for."""


class FileWatcher:
    """Calls `changed` on the event loop when something below `places()` is new, changed or gone.

    A place may be a file or a folder, and need not be there. What is there when it begins counts as new: it
    may have changed since it was read. The thread never keeps the process alive.
    """

    def __init__(self, places: Callable[[], Sequence[Path]], changed: Callable[[], None]) -> None:
        self._places = places
        self._changed = changed
        self._timer: asyncio.TimerHandle | None = None
        self._stop: threading.Event | None = None

    def soon(self) -> None:
        """Begins in a moment, unless it has."""
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
        with suppress(RuntimeError):  # the event loop was closed: nobody wants to know
            seen: Signature = {}
            notifier = None
            while not stop.is_set():
                now = signature(self._places())
                if now == seen:
                    notifier = notifier or _notifier(self._places())
                    if _wait(notifier, stop):
                        notifier = None  # what it watched may have been replaced
                elif not stop.wait(SETTLES) and now == signature(self._places()):
                    seen, notifier = now, None
                    loop.call_soon_threadsafe(self._changed)


def _notifier(places: Sequence[Path]) -> Any:
    """Tells of changes; None without the `watch` extra, or where the system cannot."""
    try:
        from watchfiles._rust_notify import RustNotify
    except ImportError:
        return None
    there = [str(place) for place in places if place.exists()]
    try:
        return RustNotify(there, False, False, 0, True, True) if there else None
    except (OSError, RuntimeError):  # gone a moment ago, or too much is watched on this machine
        return None


def _wait(notifier: Any, stop: threading.Event) -> bool:
    """Until something has changed, or a second has passed. Whether it was told of a change."""
    if notifier is None:
        stop.wait(SECONDS)
        return False
    told = notifier.watch(100, 25, int(SECONDS * 1000), stop)
    return not isinstance(told, str)


class HotReload:
    """New versions are loaded in the background. They take the place of the old ones at once while no run is
    under way, and before the next step while one is."""

    def __init__(self, host: ExtensionHost, assembly: ExtensionLoader, versions: Versions) -> None:
        self._host = host
        self._assembly = assembly
        self._running = versions
        self._next: Versions | None = None
        """Loaded, and waiting for a step to begin."""
        self._loading = asyncio.Lock()
        self._look: asyncio.Future[None] | None = None
        self._is_stale = False
        self._swapping: asyncio.Future[None] | None = None
        self._watch = FileWatcher(self._places, self.look_soon)

    async def before_step(self) -> None:
        self._watch.soon()
        await self._swap()

    async def on_idle(self, session: OpenSession) -> None:
        self._watch.soon()
        if not any(one.session.is_running for one in self._others(session)):
            await self._swap()

    async def stop(self) -> None:
        """No session is open any more. What was not put to use is looked at again when there is one."""
        self._watch.stop()
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait({self._look})
        if self._next is not None:
            unused, self._next = self._next, None
            for one in unused.values():
                if one not in self._running.values():
                    await one.forget()

    def _others(self, session: OpenSession) -> list[ExtensionSession]:
        return [one for one in self._host.sessions.values() if one.session is not session]

    def look_soon(self) -> None:
        """Something has changed."""
        if self._look is not None:
            self._is_stale = True
            return
        self._look = asyncio.ensure_future(self._keep_looking())

    async def _keep_looking(self) -> None:
        try:
            self._is_stale = True
            while self._is_stale:
                self._is_stale = False
                await self._load()
                await self._swap_if_idle()
        except (OstlerError, OSError) as error:
            self._host.warn(f"the extensions cannot be looked at: {error}")
        finally:
            self._look = None

    async def reload(self) -> asyncio.Future[None]:
        """Loads everything anew. What it returns is done when that runs, if no run is under way."""
        await self._load(anew=True)
        self._swapping = asyncio.ensure_future(self._swap_if_idle())
        return self._swapping

    async def _load(self, *, anew: bool = False) -> None:
        async with self._loading:
            before = self._next or self._running
            versions = await self._assembly.refresh(before, anew=anew)
            kept = (*versions.values(), *self._running.values())
            for one in before.values():
                if one not in kept:  # replaced before it ever ran
                    await one.forget()
            if list(versions.values()) != list(self._running.values()):
                self._next = versions
            elif self._next is not None:
                self._next = None  # what was changed is as it was

    async def _swap_if_idle(self) -> None:
        if not any(one.session.is_running for one in self._host.sessions.values()):
            await self._swap()

    async def _swap(self) -> None:
        if self._next is None:
            return
        versions, self._next = self._next, None
        gone = [one for one in self._running.values() if one not in versions.values()]
        self._running = versions
        await self._host.replace([one.extension for one in versions.values()])
        for one in gone:
            await one.forget()

    def _places(self) -> Sequence[Path]:
        """Where a change may mean another version."""
        search = self._assembly.search
        own = [path for one in (self._next or self._running).values() for path in one.places]
        return list(dict.fromkeys((*search.places, *search.configured, *search.named, *own, trust_file())))
