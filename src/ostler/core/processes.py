"""Processes: identified across crashes by pid *and* start time, on one boot of one host; exits, programs on
PATH, and programs that run for a while."""

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
from signal import SIGKILL

import msgspec

from ostler.schema.errors import OstlerError, UsageError

SESSION_VARIABLE = "OSTLER_SESSION"

CALL_VARIABLE = "OSTLER_CALL"
"""Set in the environment of every process a tool starts, so that recovery finds even those whose row
was not yet written when we were killed. A call's id is unique only within its session."""


def process_environment(session: str, call: str) -> dict[str, str]:
    return {SESSION_VARIABLE: session, CALL_VARIABLE: call}


class ProcessId(msgspec.Struct, frozen=True):
    """A process and, as leader, its group. The start time tells it from a later one with the same pid."""

    pid: int
    started: str
    boot: str
    host: str
    opening: str = ""
    """Tells apart what holds sessions inside one process; empty for the process itself."""

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        return cls(pid=pid, started=start_time(pid), boot=boot_id(), host=host_name())

    def is_here(self) -> bool:
        """Whether it would be a process of this boot of this host."""
        return self.host == host_name() and self.boot == boot_id()

    def is_alive(self) -> bool:
        return self.is_here() and self.started != "" and start_time(self.pid) == self.started

    def kill_group(self) -> bool:
        """Ends the group that it leads. Members outlive their leader: the group is signalled even when
        the leader is gone, unless its pid now belongs to somebody else."""
        if not self.is_here() or self.pid <= 1:
            return False
        present = start_time(self.pid)
        if present and present != self.started:
            return False
        return signal_group(self.pid, signal.SIGKILL)


def current_process() -> ProcessId:
    return _identity(os.getpid())


@cache
def _identity(pid: int) -> ProcessId:
    """By pid, so that a fork does not take itself for its parent."""
    return ProcessId.of(pid)


@cache
def host_name() -> str:
    """In characters that can be stored: a host's name may be any bytes."""
    return os.fsencode(socket.gethostname()).decode(errors="replace")


@cache
def boot_id() -> str:
    """Changes at each boot, and differs between containers that count their pids apart: a pid of another
    boot or container is never taken for one of ours."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return _ask("sysctl", "-n", "kern.bootsessionuuid")


def start_time(pid: int) -> str:
    """When a process began, in the kernel's own terms; empty when there is none (or only a zombie)."""
    try:
        # A process may call itself any bytes.
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "" if _has_proc() else _ask("ps", "-o", "lstart=", "-p", str(pid))
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


@cache
def _has_proc() -> bool:
    return Path("/proc/self/stat").exists()


def signal_group(group: int, number: signal.Signals) -> bool:
    """Sends a signal to a process group; False when there is none left."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_processes_of(session: str, call: str = "") -> int:
    """Ends every process whose environment names this session, or only those of one call.

    Linux only; elsewhere the rows beside the lease must do.
    """
    wanted = {f"{SESSION_VARIABLE}={session}".encode()}
    if call:
        wanted.add(f"{CALL_VARIABLE}={call}".encode())
    killed = 0
    for pid, variables in _environments():
        if wanted <= variables:
            with suppress(OSError):  # it ended meanwhile
                os.kill(pid, signal.SIGKILL)
                killed += 1
    return killed


def sessions_with_processes() -> set[str]:
    """Those that the environments of living processes name, besides our own. Linux only."""
    beginning = f"{SESSION_VARIABLE}=".encode()
    named = {
        one.removeprefix(beginning).decode(errors="replace")
        for _, variables in _environments()
        for one in variables
        if one.startswith(beginning)
    }
    return named - {os.environ.get(SESSION_VARIABLE, "")}


def _environments() -> Iterator[tuple[int, set[bytes]]]:
    """The variables of each process, as `NAME=value`."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = entry.read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile, or is another user's
        yield int(entry.parent.name), set(variables)


def _ask(*command: str) -> str:
    """The same answer to all of our processes: `ps` tells local time, in the language of whoever asks."""
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    return done.stdout.decode(errors="replace").strip()


def on_exit(pid: int, tell: Callable[[], None]) -> None:
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


def find_program(name: str) -> str | None:
    """The path of an executable. (`shutil.which` does the same, but takes 10 ms to import.)"""
    return _on_path(name, os.environ.get("PATH", os.defpath))


@cache
def _on_path(name: str, path: str) -> str | None:
    for folder in path.split(os.pathsep):
        candidate = Path(folder, name)
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return str(candidate)
    return None


class Finished(msgspec.Struct, frozen=True):
    code: int
    out: str
    err: str


class OwnedGroup:
    """A process with a group of its own, which is gone when the block is left.

    On Linux the kernel ends the group also when we are killed: our end of a pipe closes then.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        stdin: int = subprocess.DEVNULL,
        stderr: int = subprocess.PIPE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        owned, self._owner = os.pipe()
        try:
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                pass_fds=(owned,),
            )
            if sys.platform == "linux":
                _kill_when_closed(owned, self.process.pid)
        except OSError as error:
            os.close(self._owner)
            raise UsageError(f"{command[0]} cannot be run: {error.strerror}") from None
        finally:
            os.close(owned)

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self.process

    def __exit__(self, *error: object) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group that is gone
            os.killpg(self.process.pid, SIGKILL)
        self.process.wait()
        os.close(self._owner)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def run_program(
    command: Sequence[str], *, cwd: Path, seconds: float, environment: Mapping[str, str] | None = None
) -> Finished:
    """What it printed, and how it ended. Raises `OstlerError` when it takes too long."""
    with OwnedGroup(command, cwd=cwd, environment=environment) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise OstlerError(f"{Path(command[0]).name} took longer than {seconds:g} seconds") from None
    return Finished(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def _kill_when_closed(pipe: int, group: int) -> None:
    with suppress(OSError):  # a sandbox that does not know it
        fcntl.fcntl(pipe, fcntl.F_SETOWN, -group)
        fcntl.fcntl(pipe, fcntl.F_SETSIG, SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
