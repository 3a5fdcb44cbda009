"""Noticing that extensions changed: by the system's word with the `watch` extra, else once a second."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ostler.extensions import lookout

SECONDS = 1.0
"""Between two looks, where nothing tells us of a change."""
SETTLES = 0.03
"""A file that is being written is waited for."""
MOST_ENTRIES = 5_000

_SKIPPED = frozenset({"__pycache__", "node_modules"})

Signature = dict[str, tuple[int, int, int]]


class Watch:
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
            self._timer = asyncio.get_running_loop().call_later(lookout.DELAY, self.start)

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


def signature(places: Sequence[Path]) -> Signature:
    """What would be different if a file were."""
    seen: Signature = {}
    for place in places:
        for path, status in _below(str(place)):
            seen[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
            if len(seen) > MOST_ENTRIES:
                return seen
    return seen


def _below(path: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        with os.scandir(path) as entries:
            found = [one for one in entries if not one.name.startswith(".") and one.name not in _SKIPPED]
    except NotADirectoryError:
        with suppress(OSError):
            yield path, os.stat(path)  # noqa: PTH116
        return
    except OSError:
        return
    for entry in found:
        with suppress(OSError):  # gone a moment ago
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path)
            else:
                yield entry.path, entry.stat()
