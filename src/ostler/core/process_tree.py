"""The tree of processes: which stores' agents a process was started by, and the orphans of our own tools.

A process carries the mark of a store if it, or one above it, has the store's id in `OSTLER_INSIDE`. On Linux
we are the subreaper of what our tools start: a process that detaches stays below us, and we reap it.
"""

from __future__ import annotations

import os
import pwd
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.core.processes import ProcessId

INSIDE_VARIABLE = "OSTLER_INSIDE"
"""Ids of stores, with colons between them. Set in the environment of everything that a session starts."""

_PR_SET_CHILD_SUBREAPER = 36
_MOST_ANCESTORS = 1000


# --- marks --------------------------------------------------------------------------------------------


def own_marks() -> set[str]:
    """The stores whose agents have started this process, by its environment."""
    return _split(os.environ.get(INSIDE_VARIABLE, ""))


def _split(value: str) -> set[str]:
    return set(value.split(":")) - {""}


def why_inside(store: str, holders: Iterable[ProcessId], process: int | None = None) -> str:
    """Why a process, by default this one, must not give consent in a store: it or one above it carries the
    store's mark, or one above it holds a session there. Empty if neither is so."""
    caller = os.getpid() if process is None else process
    owners = {holder.pid: holder for holder in holders}
    for pid in ancestors(caller):
        if store and store in _marks(pid):
            return _refusal(pid, caller)
        holder = owners.get(pid)
        if holder is not None and pid != caller and holder.is_alive():
            return _refusal(pid, caller)
    return ""


def _refusal(pid: int, caller: int) -> str:
    below = "" if pid == caller else f", below process {pid}"
    return (
        f"process {caller} was started by an agent{below}, and an agent must not answer, allow or trust: "
        "do this in a terminal of your own"
    )


def ancestors(pid: int) -> Iterator[int]:
    """The process itself, its parent, and so on, as far as this process can see."""
    for _ in range(_MOST_ANCESTORS):
        if pid <= 0:
            return
        yield pid
        pid = _parent(pid)


def _parent(pid: int) -> int:
    if pid == os.getpid():
        return os.getppid()
    if sys.platform == "linux":
        return int(fields[1]) if (fields := _stat(pid)) else 0
    import subprocess

    ps = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, check=False)
    text = ps.stdout.decode(errors="replace").strip()
    return int(text) if text.isdecimal() else 0


def _marks(pid: int) -> set[str]:
    """The stores in the environment of a process; another's is visible only on Linux."""
    if pid == os.getpid():
        return own_marks() | _marks_in_proc(pid)
    return _marks_in_proc(pid)


def _marks_in_proc(pid: int) -> set[str]:
    prefix = f"{INSIDE_VARIABLE}=".encode()
    with suppress(OSError):  # it has exited, belongs to another user, or there is no /proc
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        values = [one.removeprefix(prefix) for one in variables if one.startswith(prefix)]
        return {store for value in values for store in _split(value.decode(errors="replace"))}
    return set()


@cache
def local_user() -> str:
    """The user of this process, as an identity. Not from the environment, which anyone can set."""
    with suppress(KeyError):
        return f"user:{pwd.getpwuid(os.getuid()).pw_name}"
    return f"user:{os.getuid()}"


# --- orphans ------------------------------------------------------------------------------------------

_lock = threading.Lock()
_own: dict[int, str] = {}
"""The processes that we started, with their start times: whoever started one reaps it."""
_adopted: dict[int, str] = {}
"""Processes that were seen as our children although we did not start them."""
_groups: dict[int, None] = {}
"""The sessions, in the system's sense, that they lead: members can outlive them."""
_MOST_REMEMBERED = 4096


@contextmanager
def spawning(*, adopts: bool) -> Iterator[list[int]]:
    """Start a process in this block, and append its pid. With `adopts`, as for one of a session, its orphans
    become our children, and are told from the processes that we start ourselves."""
    if adopts:
        _become_subreaper()
    pids: list[int] = []
    with _lock:
        yield pids
        for pid in pids:
            if fields := _stat(pid):
                _own[pid] = fields[19]
                _groups[pid] = None
        for remembered in (_own, _groups):
            while len(remembered) > _MOST_REMEMBERED:
                del remembered[next(iter(remembered))]


@cache
def _become_subreaper() -> bool:
    if sys.platform != "linux":
        return False
    import ctypes  # takes milliseconds, and only processes that run tools need it

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):  # a system without it: detached processes leave the tree
        return False


def reap_orphans() -> None:
    """Reaps the processes that tools left behind and that have ended. Never touches a process of ours, or one
    that other code of this process started."""
    if not _groups or sys.platform != "linux":
        return
    with _lock:
        for pid in _children():
            fields = _stat(pid)
            if not fields or _own.get(pid) == fields[19]:
                continue
            if fields[0] != "Z":
                if _marks_in_proc(pid) - _split(os.environ.get(INSIDE_VARIABLE, "")):
                    _adopted[pid] = fields[19]
            elif _adopted.get(pid) == fields[19] or int(fields[3]) in _groups:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
                _adopted.pop(pid, None)


def _children() -> list[int]:
    """The children of the main thread, to which the kernel gives orphans."""
    pid = os.getpid()
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()]
    except OSError:  # a kernel without this file
        return []


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may be any bytes: state, parent, group, session …"""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()
