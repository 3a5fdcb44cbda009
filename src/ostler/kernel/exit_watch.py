"""Being told that a child has ended, without waiting for it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress


def when_ended(pid: int, tell: Callable[[], None]) -> None:
    """`tell` is called once, on the running loop. The child is still to be reaped: until then its number is
    nobody else's."""
    loop = asyncio.get_running_loop()
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):  # Pythons for every Linux, as uv's, lack it
        with suppress(OSError):  # an old kernel, or a sandbox that does not know it
            pidfd = os.pidfd_open(pid)
            loop.add_reader(pidfd, _tell_once, loop, pidfd, tell)
            return
    threading.Thread(target=_wait, args=(loop, pid, tell), daemon=True).start()


def _tell_once(loop: asyncio.AbstractEventLoop, pidfd: int, tell: Callable[[], None]) -> None:
    loop.remove_reader(pidfd)
    os.close(pidfd)
    tell()


def _wait(loop: asyncio.AbstractEventLoop, pid: int, tell: Callable[[], None]) -> None:
    with suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(tell)
