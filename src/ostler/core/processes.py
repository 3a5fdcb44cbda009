"""Processes: their identity across a crash, their groups, and child processes that never outlive us. A
process is identified by its pid *and* start time, on one boot of one host."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol
from weakref import WeakSet

import msgspec

from ostler.core.lazy import lazy_module
from ostler.core.process_tree import INSIDE_VARIABLE, own_marks, reap_orphans, spawning
from ostler.core.secrets import tool_environment
from ostler.schema.errors import OstlerError, UsageError

if TYPE_CHECKING:
    from ostler.core import process_limits
    from ostler.core.confinement import Confinement
    from ostler.core.process_limits import LimitedProcesses
else:
    process_limits = lazy_module("ostler.core.process_limits")

SESSION_VARIABLE = "OSTLER_SESSION"

CALL_VARIABLE = "OSTLER_CALL"
"""Set in the environment of every process that a tool starts, so that recovery also finds a process that was
not recorded yet when we were killed. A call's id is unique only within its session."""


class _WithId(Protocol):
    @property
    def id(self) -> str: ...


_stores: WeakSet[_WithId] = WeakSet()


def mark_children(store: _WithId) -> None:
    """From now on, processes that we start carry the mark of this store, as long as it exists."""
    if store.id:  # read here, because it may be closed when a process starts
        _stores.add(store)


def inside_mark() -> dict[str, str]:
    """The variable for a new process. The marks of those we run inside are kept."""
    if not (ids := {store.id for store in tuple(_stores)}):
        return {}
    return {INSIDE_VARIABLE: ":".join(sorted(ids | own_marks()))}


def process_environment(session: str, call: str) -> dict[str, str]:
    return {SESSION_VARIABLE: session, CALL_VARIABLE: call, **inside_mark()}


class ProcessLimits(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Limits for the processes of one tool call: `[tool_limits]`. 0 means no limit."""

    processes: Annotated[int, msgspec.Meta(ge=0)] = 4096
    """How many processes and threads a call may have at a time."""
    memory_mb: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """The memory of the call in a cgroup, otherwise of each process, in MB."""
    cpu_seconds: Annotated[int, msgspec.Meta(ge=0)] = 12 * 3600
    """CPU time of one process, in seconds."""
    file_size_mb: Annotated[int, msgspec.Meta(ge=0)] = 64 * 1024
    """The size of a file that a process writes, in MB."""


class ProcessId(msgspec.Struct, frozen=True):
    """A process and the group that it leads. The start time tells it from a later one with the same pid."""

    pid: int
    started: str
    boot: str
    host: str
    opening: str = ""
    """Distinguishes several owners of sessions inside one process; empty for the process itself."""

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        return cls(pid=pid, started=start_time(pid), boot=boot_id(), host=host_name())

    def is_here(self) -> bool:
        """Whether it belongs to this boot of this host."""
        return self.host == host_name() and self.boot == boot_id()

    def is_alive(self) -> bool:
        return self.is_here() and self.started != "" and start_time(self.pid) == self.started

    def kill_group(self) -> bool:
        return self.signal_group(signal.SIGKILL)

    def signal_group(self, number: signal.Signals) -> bool:
        """Signals the group that it leads, even if the leader is gone: members can outlive it. Does nothing
        if the pid belongs to another process by now."""
        if not self.is_here() or self.pid <= 1:
            return False
        started = start_time(self.pid)
        if started and started != self.started:
            return False
        return signal_group(self.pid, number)


def current_process() -> ProcessId:
    return _identity(os.getpid())


@cache
def _identity(pid: int) -> ProcessId:
    """Cached by pid, so that a fork does not mistake itself for its parent."""
    return ProcessId.of(pid)


@cache
def host_name() -> str:
    """The host's name as text that can be stored: it may be any bytes."""
    return os.fsencode(socket.gethostname()).decode(errors="replace")


@cache
def boot_id() -> str:
    """Changes at each boot and differs between pid namespaces: a pid of another boot or container is never
    mistaken for one of ours."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return _ask("sysctl", "-n", "kern.bootsessionuuid")


def start_time(pid: int) -> str:
    """When a process started, in the kernel's units; empty if it does not exist or is a zombie."""
    try:
        # The name of a process may be any bytes.
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "" if _has_proc() else _ask("ps", "-o", "lstart=", "-p", str(pid))
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


@cache
def _has_proc() -> bool:
    return Path("/proc/self/stat").exists()


def signal_group(group: int, number: signal.Signals) -> bool:
    """Sends a signal to a process group; False if there is none left."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_processes_of(session: str, call: str = "") -> int:
    """Kills every process whose environment names this session, or only those of one call. Linux only."""
    marks = {f"{SESSION_VARIABLE}={session}".encode()}
    if call:
        marks.add(f"{CALL_VARIABLE}={call}".encode())
    killed = 0
    for pid, variables in _environments():
        if marks <= variables:
            with suppress(OSError):  # it exited in the meantime
                os.kill(pid, signal.SIGKILL)
                killed += 1
    return killed


def sessions_with_processes() -> set[str]:
    """The sessions named in the environments of running processes, except our own. Linux only."""
    prefix = f"{SESSION_VARIABLE}=".encode()
    sessions = {
        variable.removeprefix(prefix).decode(errors="replace")
        for _, variables in _environments()
        for variable in variables
        if variable.startswith(prefix)
    }
    return sessions - {os.environ.get(SESSION_VARIABLE, "")}


def _environments() -> Iterator[tuple[int, set[bytes]]]:
    """The variables of each process, as `NAME=value`."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = entry.read_bytes().split(b"\0")
        except OSError:
            continue  # it exited in the meantime, or belongs to another user
        yield int(entry.parent.name), set(variables)


def _ask(*command: str) -> str:
    """Runs a system program and returns its output, the same for all of our processes: `ps` would otherwise
    use the caller's language and time zone."""
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    result = subprocess.run(command, capture_output=True, check=False, env=environment)
    return result.stdout.decode(errors="replace").strip()


def describe_exit(status: int) -> str:
    """Describes an exit status; it is negative for a signal, as in `subprocess`."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def on_exit(pid: int, callback: Callable[[], None]) -> Callable[[], None]:
    """Calls `callback` once, on the running loop, when a child has exited; the result cancels that. The child
    is not reaped yet: until it is, no other process can get its pid."""
    loop = asyncio.get_running_loop()
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):  # portable builds of Python, as uv's, lack it
        with suppress(OSError):  # an old kernel, or a sandbox without pidfds
            return _watch_pidfd(loop, os.pidfd_open(pid), callback)
    callbacks = [callback]

    def call() -> None:
        for waiting in callbacks:
            waiting()

    threading.Thread(target=_wait_in_thread, args=(loop, pid, call), daemon=True).start()
    return callbacks.clear


def _watch_pidfd(
    loop: asyncio.AbstractEventLoop, pidfd: int, callback: Callable[[], None]
) -> Callable[[], None]:
    open_descriptors = [pidfd]

    def cancel() -> None:
        while open_descriptors:
            loop.remove_reader(pidfd)
            os.close(open_descriptors.pop())

    def call() -> None:
        cancel()
        callback()

    loop.add_reader(pidfd, call)
    return cancel


def _wait_in_thread(loop: asyncio.AbstractEventLoop, pid: int, callback: Callable[[], None]) -> None:
    with suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(callback)


def find_program(name: str) -> str | None:
    """The path of an executable on PATH. (`shutil.which` does the same, but takes 10 ms to import.)"""
    return _on_path(name, os.environ.get("PATH", os.defpath))


@cache
def _on_path(name: str, path: str) -> str | None:
    for folder in path.split(os.pathsep):
        candidate = Path(folder, name)
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return str(candidate)
    return None


class OwnerPipe:
    """Kills a process group when we die, even from `kill -9`: our end of a pipe closes then. The group's
    leader inherits `child_end`; `attach` makes the kernel signal its group. Linux only."""

    def __init__(self) -> None:
        self.child_end, self._owner = os.pipe()

    def attach(self, group: int, *others: int) -> None:
        """`others`: our other descriptors that the leader notices the end of. At exit the highest descriptor
        closes first. If one of the others did, the leader could exit, and its end of the pipe with it, before
        the group is signalled."""
        if sys.platform == "linux":
            with suppress(OSError):  # a sandbox without it
                fcntl.fcntl(self.child_end, fcntl.F_SETOWN, -group)
                fcntl.fcntl(self.child_end, fcntl.F_SETSIG, signal.SIGKILL)
                flags = fcntl.fcntl(self.child_end, fcntl.F_GETFL)
                fcntl.fcntl(self.child_end, fcntl.F_SETFL, flags | os.O_ASYNC)
            if others and max(others) > self._owner:
                higher = fcntl.fcntl(self._owner, fcntl.F_DUPFD_CLOEXEC, max(others) + 1)
                os.close(self._owner)
                self._owner = higher
        os.close(self.child_end)
        self.child_end = -1

    def close(self) -> None:
        """Kills what is left of the group."""
        for descriptor in (self.child_end, self._owner):
            if descriptor >= 0:
                os.close(descriptor)
        self.child_end = self._owner = -1


class OwnedGroup:
    """A child process that leads a process group of its own, which is killed when we die.

    As a context manager it kills the group at the end of the block. Raises `UsageError` when the program
    cannot be started. `confinement` is removed with it.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        environment: Mapping[str, str] | None = None,
        limits: ProcessLimits | None = None,
        confinement: Confinement | None = None,
    ) -> None:
        owner = OwnerPipe()
        inside = inside_mark()
        environment = {**(tool_environment() if environment is None else environment), **inside}
        if confinement:
            environment |= confinement.environment

        def spawn(command: Sequence[str]) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=(owner.child_end,),
            )

        try:
            with spawning(adopts=bool(inside)) as pids:
                self.process = confinement.start(spawn, command) if confinement else spawn(command)
                pids.append(self.process.pid)
        except BaseException as error:
            owner.close()
            if confinement:
                confinement.remove()
            if problem := _start_problem(error, command[0], cwd, environment):
                raise UsageError(problem) from None
            raise
        self._owner = owner
        self._confinement = confinement
        pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        self._pipes = [pipe for pipe in pipes if pipe]
        owner.attach(self.process.pid, *(pipe.fileno() for pipe in self._pipes))
        self.id = ProcessId.of(self.process.pid)
        self.limited: LimitedProcesses | None = None
        if limits is not None and sys.platform == "linux":
            call = environment.get(CALL_VARIABLE, "")
            mark = f"{CALL_VARIABLE}={call}" if call else ""
            self.limited = process_limits.LimitedProcesses(self.id, limits, mark)

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self.process

    def __exit__(self, *error: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kills the group, waits for the process, and closes our pipes."""
        self.id.kill_group()
        self.process.wait()
        self.close()

    def close(self) -> None:
        """Closes our pipes, the owner's included: on Linux that kills what is left of the group."""
        if self.limited:
            self.limited.close()
        self._owner.close()
        if self._confinement:
            self._confinement.remove()
        for pipe in self._pipes:
            with suppress(BrokenPipeError):  # data that it did not read
                pipe.close()
        reap_orphans()


def _start_problem(
    error: BaseException, program: str, cwd: Path, environment: Mapping[str, str] | None
) -> str:
    match error:
        case OSError() if not cwd.is_dir():
            return f"the working directory {cwd} does not exist"
        case FileNotFoundError():
            return f"cannot start {program}: there is no such program"
        case PermissionError() if "/" not in program and not _is_on_path(program, environment):
            # No folder on PATH has it, and this user may not search one of them.
            return f"cannot start {program}: there is no such program"
        case OSError(strerror=reason):
            return f"cannot start {program}: {reason}"
        case ValueError():
            return "the command contains a NUL character"
    return ""


def _is_on_path(program: str, environment: Mapping[str, str] | None) -> bool:
    folders = os.get_exec_path(environment)
    return any(os.path.exists(os.path.join(folder, program)) for folder in folders)  # noqa: PTH110, PTH118


class Finished(msgspec.Struct, frozen=True):
    code: int
    out: str
    err: str


def run_program(
    command: Sequence[str], *, cwd: Path, seconds: float, environment: Mapping[str, str] | None = None
) -> Finished:
    """Runs a program to its end and returns its output. Raises `OstlerError` when it takes too long."""
    with OwnedGroup(command, cwd=cwd, environment=environment) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise OstlerError(f"{Path(command[0]).name} took longer than {seconds:g} seconds") from None
    return Finished(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
