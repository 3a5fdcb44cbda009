"""Being told by the system that a file was written, where the system can tell."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

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
