"""Limits for the processes of a tool: how many there are, their memory, CPU time and file size.

- With cgroup v2, the processes of a call get a group of their own, if we may make one.
- Otherwise each process has resource limits, and a watcher counts the processes of the call. The kernel
  counts those of a *user*, and not at all for root.
- CPU time and file size are always resource limits: a group has none of these.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ostler.core.processes import ProcessId, ProcessLimits

_MB = 1024 * 1024
_MEMORY_SHARE = 0.9
"""Of the machine's memory, if the settings name no number."""


def memory_limit(limits: ProcessLimits) -> int:
    """In bytes; 0 for none."""
    if limits.memory_mb is not None:
        return limits.memory_mb * _MB
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MEMORY_SHARE)
    except (OSError, ValueError):
        return 0


_FIRST_LOOK = 0.05
_LOOKS_EVERY = 0.25
_COUNTS_EVERY = 2.0
_CROWD = 32
"""So many processes are no reason to look again whether they multiply."""


class LimitedProcesses:
    """The limits of a process that was just started, and of all that it starts.

    `mark` is in the environment of all of them, as `NAME=value`.
    """

    def __init__(self, leader: ProcessId, limits: ProcessLimits, mark: str = "") -> None:
        self._leader = leader
        self._limits = limits
        self._mark = mark.encode()
        self._group = new_group(limits)
        self._threads = self._fewest = thread_count()
        self._counted = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._rlimits = _resource_limits(limits, self._threads, in_group=self._group is not None)
        self._limited: set[int] = set()
        self._limit(leader.pid)

    def _limit(self, pid: int) -> None:
        """Limits a process; those that it starts from now on inherit that."""
        if pid in self._limited:
            return
        self._limited.add(pid)
        with suppress(OSError, ValueError):  # it has exited, or has lower limits of its own by now
            if self._group:
                self._group.add(pid)
            for kind, values in self._rlimits:
                resource.prlimit(pid, kind, values)  # type: ignore[attr-defined, unused-ignore]

    def watch(self, on_exceeded: Callable[[str], None]) -> None:
        """From now on, kills all of its processes when they are too many, and reports that once."""
        loop = asyncio.get_running_loop()
        pause = _FIRST_LOOK

        def look() -> None:
            nonlocal pause
            if pause == _FIRST_LOOK:  # not at once: most commands have ended by now
                self._find_members()
            self._timer = None
            if reason := self.exceeded():
                self.kill()
                on_exceeded(reason)
                return
            if self._group or (self._limits.processes and self._threads):
                pause = min(2 * pause, _LOOKS_EVERY)
                self._timer = loop.call_later(pause, look)

        self._timer = loop.call_later(pause, look)

    def exceeded(self) -> str:
        """The limit that they have reached together, in words; empty if none."""
        if self._group:
            return self._group.exceeded(self._limits)
        limit = self._limits.processes
        if not limit or not self._may_exceed(limit) or self.count() < limit:
            return ""
        return too_many(self._limits)

    def _may_exceed(self, limit: int) -> bool:
        """Whether counting is worth it: the machine has that many threads, and many of them are new."""
        threads, now = thread_count(), time.monotonic()
        self._fewest = min(self._fewest, threads)
        if threads < limit or (threads - self._fewest < limit // 2 and now < self._counted + _COUNTS_EVERY):
            return False
        self._counted = now
        return True

    def count(self) -> int:
        """How many processes and further threads there are now."""
        return sum(one.threads for one in members(self._leader, self._mark))

    def _find_members(self) -> int:
        """Limits those that had started before their leader got its limits, and counts them all."""
        found = members(self._leader, self._mark)
        for one in found:
            self._limit(one.pid)
        return sum(one.threads for one in found)

    async def until_steady(self, pause: float) -> None:
        """Waits while many processes become more: those of a fork bomb, whose first one has exited."""
        count = self._find_members()
        while count > _CROWD:
            await asyncio.sleep(pause)
            before, count = count, self.count()
            if count <= before:
                return

    def kill(self) -> None:
        """Kills all of them, however fast they start others."""
        if self._group:
            self._group.kill()
        self._leader.kill_group()
        stopped: set[int] = set()
        for _ in range(_ROUNDS):  # first stopped: then none starts another one while we look
            running = [one.pid for one in members(self._leader, self._mark) if one.pid not in stopped]
            if not running:
                break
            _signal_all(running, signal.SIGSTOP)
            stopped.update(running)
        _signal_all(stopped, signal.SIGKILL)

    def close(self) -> None:
        """Ends the watching; a group is killed and removed."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._group:
            self._group.remove()
            self._group = None


_ROUNDS = 50


def _signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(OSError):  # it has exited
            os.kill(pid, number)


def too_many(limits: ProcessLimits) -> str:
    return f"it started more than {limits.processes} processes (tool_limits.processes)"


def signal_reason(number: int, limits: ProcessLimits) -> str:
    """The limit that a signal reports, in words; empty if it reports none."""
    if number == signal.SIGXCPU and limits.cpu_seconds:
        return f"it used more than {limits.cpu_seconds} s of CPU time (tool_limits.cpu_seconds)"
    if number == signal.SIGXFSZ and limits.file_size_mb:
        return f"a file grew beyond {limits.file_size_mb} MB (tool_limits.file_size_mb)"
    return ""


class _Member(NamedTuple):
    pid: int
    threads: int


def members(leader: ProcessId, mark: bytes = b"") -> list[_Member]:
    """The processes of a session leader: its session, all their descendants, and orphans with the mark in
    their environment. Zombies do not count."""
    parents: dict[int, tuple[int, int]] = {}
    found: dict[int, int] = {}
    is_reused = False
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # it has exited
            stat = _read(f"{entry.path}/stat").rpartition(b")")[2].split()
            pid, threads = int(entry.name), int(stat[17])
            if stat[0] in b"ZX":
                continue
            parents[pid] = int(stat[1]), threads
            if leader.pid in (pid, int(stat[2]), int(stat[3])):
                found[pid] = threads
                is_reused = is_reused or (pid == leader.pid and stat[19].decode() != leader.started)
    if is_reused:  # another process has its pid by now, so nothing is left of its session
        found.clear()
    if mark:
        found |= {pid: parents[pid][1] for pid in _marked_orphans(parents, found, mark)}
    for pid in parents:
        line = []
        while pid in parents and pid not in found:
            line.append(pid)
            pid = parents[pid][0]
        if pid in found:
            found |= {one: parents[one][1] for one in line}
    return [_Member(pid, threads) for pid, threads in found.items()]


def _marked_orphans(parents: dict[int, tuple[int, int]], found: dict[int, int], mark: bytes) -> list[int]:
    """Those that left the session and whose parent is gone. Init adopts them, or we."""
    adopters = (1, os.getpid())
    orphans = [pid for pid, (parent, _) in parents.items() if parent in adopters and pid not in found]
    return [pid for pid in orphans if pid != os.getpid() and mark in _environment(pid)]


def _environment(pid: int) -> Sequence[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ()


def _read(path: str) -> bytes:
    """A small file of the kernel, in a third of the time that `Path.read_bytes` takes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 64 * 1024)
    finally:
        os.close(descriptor)


def thread_count() -> int:
    """How many threads the machine runs now: one small file to read, and at least as many as the user or a
    call has. 0 where it is not known."""
    try:
        return int(_read("/proc/loadavg").split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def _resource_limits(
    limits: ProcessLimits, threads: int, *, in_group: bool
) -> list[tuple[int, tuple[int, int]]]:
    """What `prlimit` sets, where there is one: never more than we have ourselves."""
    if not hasattr(resource, "prlimit"):
        return []
    wanted = [(resource.RLIMIT_CPU, limits.cpu_seconds), (resource.RLIMIT_FSIZE, limits.file_size_mb * _MB)]
    if not in_group:
        # Not RLIMIT_AS: many programs reserve far more addresses than they use.
        wanted.append((resource.RLIMIT_DATA, memory_limit(limits)))
        if limits.processes and threads:
            wanted.append((resource.RLIMIT_NPROC, threads + limits.processes))
    return [(kind, _lowered(kind, value)) for kind, value in wanted if value]


_CPU_GRACE = 5
"""Seconds between SIGXCPU, which says why, and SIGKILL."""


def _lowered(kind: int, value: int) -> tuple[int, int]:
    soft, hard = resource.getrlimit(kind)
    highest = value + _CPU_GRACE if kind == resource.RLIMIT_CPU else value
    hard = highest if hard == resource.RLIM_INFINITY else min(hard, highest)
    soft = value if soft == resource.RLIM_INFINITY else min(soft, value)
    return min(soft, hard), hard


class ProcessGroup:
    """A cgroup of its own for one call."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, pid: int) -> None:
        self._write("cgroup.procs", pid)

    def set_limits(self, limits: ProcessLimits) -> None:
        self._write("pids.max", limits.processes or "max")
        self._write("memory.max", memory_limit(limits) or "max")
        self._write("memory.oom.group", 1)  # half a build is of no use

    def exceeded(self, limits: ProcessLimits) -> str:
        if self._count("pids.events", "max"):
            return too_many(limits)
        if self._count("memory.events", "oom_kill"):
            return f"it used more than {memory_limit(limits) // _MB} MB of memory (tool_limits.memory_mb)"
        return ""

    def kill(self) -> None:
        with suppress(OSError):  # a kernel without it
            self._write("cgroup.kill", 1)

    def remove(self) -> None:
        self.kill()
        _unremoved.append(self.path)
        for path in list(_unremoved):
            with suppress(OSError):  # its processes are not gone yet: tried again with the next one
                path.rmdir()
                _unremoved.remove(path)

    def _write(self, name: str, value: int | str) -> None:
        (self.path / name).write_text(str(value), encoding="utf-8")

    def _count(self, file: str, event: str) -> int:
        with suppress(OSError, ValueError):
            for line in (self.path / file).read_text(encoding="utf-8").splitlines():
                name, _, count = line.partition(" ")
                if name == event:
                    return int(count)
        return 0


_PREFIX = "ostler-tool-"
_unremoved: list[Path] = []
CGROUPS = Path("/sys/fs/cgroup")


def new_group(limits: ProcessLimits) -> ProcessGroup | None:
    """A new group with these limits; None if we may not make one."""
    parent = group_folder()
    if parent is None:
        return None
    group = ProcessGroup(parent / f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    try:
        group.path.mkdir()
    except OSError:
        return None
    try:
        group.set_limits(limits)
    except OSError:
        group.remove()
        return None
    return group


@cache
def group_folder() -> Path | None:
    """Where groups can be made: our own cgroup or the one above it, if it counts processes and memory for the
    groups in it and is ours to change, as in a systemd user session."""
    own = own_group()
    if own is None:
        return None
    for folder in (own, own.parent):
        if folder.is_relative_to(CGROUPS) and _may_hold_groups(folder):
            _remove_abandoned(folder)
            return folder
    return None


def own_group() -> Path | None:
    """The cgroup of this process; None without cgroup v2."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    name = next((line[3:] for line in lines if line.startswith("0::")), "")
    if not name or ".." in name or not (CGROUPS / "cgroup.controllers").exists():
        return None
    return CGROUPS / name.lstrip("/")


def _may_hold_groups(folder: Path) -> bool:
    try:
        controllers = (folder / "cgroup.subtree_control").read_text(encoding="utf-8").split()
    except OSError:
        return False
    is_ours = os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)
    if not is_ours or not {"pids", "memory"} <= set(controllers):
        return False
    trial = ProcessGroup(folder / f"{_PREFIX}{os.getpid()}-trial")
    try:
        trial.path.mkdir()
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
            trial.add(process.pid)  # which may be refused although the folder is ours
    except OSError:
        return False
    finally:
        trial.remove()
    return True


def _remove_abandoned(folder: Path) -> None:
    """Removes the groups of processes that were killed. One with processes in it cannot be removed."""
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            path.rmdir()


class LimitStatus(NamedTuple):
    name: str
    value: str
    """Empty for no limit."""
    means: str
    """Empty if it is not in force."""

    @property
    def text(self) -> str:
        if not self.value:
            return "no limit"
        return f"{self.value}, by {self.means}" if self.means else "cannot be limited here"


def limits_status(limits: ProcessLimits) -> tuple[LimitStatus, ...]:
    """What is in force here: each limit, and by what means."""
    has_rlimits = hasattr(resource, "prlimit")
    group = "cgroup v2" if group_folder() else ""
    watcher = "a watcher" if os.geteuid() == 0 else "RLIMIT_NPROC and a watcher"
    processes = group or (watcher if thread_count() else "")
    memory = group or (has_rlimits and "RLIMIT_DATA") or ""
    amount, whose = memory_limit(limits) // _MB, "" if group else " for each process"
    rows = (
        ("processes", f"{limits.processes}" if limits.processes else "", processes),
        ("memory", f"{amount} MB{whose}" if amount else "", memory),
        (
            "CPU time",
            f"{limits.cpu_seconds} s for each process" if limits.cpu_seconds else "",
            has_rlimits and "RLIMIT_CPU",
        ),
        (
            "file size",
            f"{limits.file_size_mb} MB" if limits.file_size_mb else "",
            has_rlimits and "RLIMIT_FSIZE",
        ),
    )
    return tuple(LimitStatus(name, value, (value and means) or "") for name, value, means in rows)
