"""Wait for the end of processes that are not our children."""

from __future__ import annotations

import ctypes
import os
import select

_PIDFD_OPEN = 434
"""The number of the system call, which is the same on every architecture."""


def has_ended(pid: int, seconds: float) -> bool:
    """Whether it ends within these seconds. A zombie counts as ended."""
    try:
        watched = _pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], seconds)[0])
    finally:
        os.close(watched)


def _pidfd_open(pid: int) -> int:
    """By a system call, because portable builds of Python have no `os.pidfd_open`."""
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    descriptor: int = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_OPEN, pid, 0)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor
