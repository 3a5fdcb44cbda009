"""Runs a command in its own process group, and tracks the processes that it leaves in the background.

- It is started with `subprocess.Popen` and watched through a pidfd: asyncio's own subprocesses cost several
  times as much to start, and wait for the end of the output, which a daemon can hold open forever.
- Processes that a call leaves in the background, such as a server started with `&`, run until the session is
  closed, which calls `stop_background`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ostler.core.lazy import lazy_module
from ostler.core.processes import (
    OwnedGroup,
    ProcessLimits,
    kill_processes_of,
    on_exit,
    process_environment,
)
from ostler.core.secrets import MaskedStream, tool_environment
from ostler.core.tool import ToolContext
from ostler.schema.errors import ToolFailed, UsageError

if TYPE_CHECKING:
    from ostler.core import process_limits
    from ostler.core.confinement import Confinement
else:
    process_limits = lazy_module("ostler.core.process_limits")

READ_SIZE = 64 * 1024
GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""
_KILL_WAIT = 1.0
_IDLE_WAIT = 0.1
_MAX_DRAIN = 1.0


@asynccontextmanager
async def child_process(
    command: Sequence[str],
    *,
    context: ToolContext,
    cwd: Path,
    on_output: Callable[[bytes], None],
    stdin: int = subprocess.DEVNULL,
    confinement: Confinement | None = None,
) -> AsyncIterator[ChildProcess]:
    """Runs a command. If an exception leaves the block, the whole process group is ended first."""
    child = ChildProcess(
        command,
        session=context.session,
        call=context.call,
        cwd=cwd,
        on_output=on_output,
        stdin=stdin,
        limits=context.process_limits,
        confinement=confinement,
    )
    try:
        await context.own_process(child.id)
        yield child
    except BaseException:
        await child.end()
        raise
    finally:
        child.close_unless_kept()


class ChildProcess:
    """See `child_process`. `on_output` gets pieces of at most `READ_SIZE` bytes, one per turn of the loop, so
    that a command which prints without end does not block everything else. Only with `keeps_keys`, for a
    person's own commands, are the variables with keys passed on, and keys in the output not masked."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        session: str,
        call: str,
        cwd: Path,
        on_output: Callable[[bytes], None],
        stdin: int = subprocess.DEVNULL,
        keeps_keys: bool = False,
        limits: ProcessLimits | None = None,
        confinement: Confinement | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._call = call
        self._on_output = on_output
        self._masked = None if keeps_keys else MaskedStream()
        self._bytes_read = 0
        self._is_kept = False
        self._problem: Exception | None = None
        self._ended = asyncio.Event()
        self._output_ended: asyncio.Future[None] = self._loop.create_future()
        self._output, output = os.pipe()
        try:
            os.set_blocking(self._output, False)
            inherited = dict(os.environ) if keeps_keys else tool_environment()
            environment = {**inherited, **process_environment(session, call)}
            self._group = OwnedGroup(
                command,
                cwd=cwd,
                stdin=stdin,
                stdout=output,
                stderr=output,
                environment=environment,
                limits=limits,
                confinement=confinement,
            )
        except BaseException as error:
            os.close(self._output)
            if isinstance(error, UsageError):
                raise ToolFailed(error.message) from None
            raise
        finally:
            os.close(output)
        self._child, self.id = self._group.process, self._group.id
        self._loop.add_reader(self._output, self._read)
        self._unwatch = on_exit(self.id.pid, self._reap)
        self._limits, self._exceeded = limits, ""
        if self._group.limited:
            self._group.limited.watch(self._take_exceeded)

    @property
    def returncode(self) -> int | None:
        """Negative for a signal, as in `subprocess`."""
        return self._child.returncode

    @property
    def is_running(self) -> bool:
        """Whether something that the command started is still running."""
        return not self._output_ended.done() or group_is_alive(self.id.pid)

    @property
    def exceeded(self) -> str:
        """The limit that ended it, in words; empty if none did."""
        if self._exceeded or self._limits is None:
            return self._exceeded
        code = self.returncode or 0
        number = -code if code < 0 else code - 128  # as a shell reports it
        together = self._group.limited.exceeded() if code and self._group.limited else ""
        return together or process_limits.signal_reason(number, self._limits)

    async def wait(self) -> None:
        """Waits until the command itself has exited; raises what `on_output` raised. Its background processes
        may hold the output open, so it is read until nothing arrives for a moment, not to its end."""
        await self._ended.wait()
        if self._problem:
            raise self._problem
        limit = self._loop.time() + _MAX_DRAIN
        while not self._output_ended.done() and self._loop.time() < limit:
            before = self._bytes_read
            await asyncio.wait([self._output_ended], timeout=_IDLE_WAIT)
            if self._bytes_read == before:
                break
        self._pass_on_rest()
        if self._problem:
            raise self._problem
        if self._group.limited and self.is_running:
            await self._group.limited.until_steady(_IDLE_WAIT)

    async def end(self) -> None:
        """Terminates the group, and kills it after a grace period. A cancellation skips the waiting."""
        try:
            self.id.signal_group(signal.SIGTERM)
            await self._until_group_is_gone(GRACE)
        finally:
            if group_is_alive(self.id.pid):
                self.id.kill_group()
            # Processes that left the group still carry the call's name in their environment.
            await asyncio.to_thread(kill_processes_of, self._session, self._call)
            await self._until_group_is_gone(_KILL_WAIT)
            self._drain_now()
            self._pass_on_rest()

    def keep_reading(self) -> None:
        """Keeps reading and drops what background processes print: a closed pipe would kill them, a full one
        would block them."""
        self._is_kept = True
        self._on_output = _ignore

    def close(self) -> None:
        """Stops watching. On Linux this kills what is left of the group."""
        self._close_output()
        self._unwatch()
        self._group.close()
        self._child.poll()

    def close_unless_kept(self) -> None:
        if not self._is_kept:
            self.close()

    def _take_exceeded(self, reason: str) -> None:
        self._exceeded = reason

    def _reap(self) -> None:
        self._child.wait()
        self._drain_now()
        self._ended.set()

    def _drain_now(self) -> None:
        """Reads what is in the pipe now, and no more: others may be writing into it."""
        for _ in range(16):
            if self._output_ended.done() or not self._read():
                return

    def _read(self) -> bool:
        try:
            piece = os.read(self._output, READ_SIZE)
        except BlockingIOError:
            return False
        if not piece:
            self._close_output()
            return False
        self._bytes_read += len(piece)
        self._pass_on(self._masked.feed(piece) if self._masked else piece)
        return True

    def _pass_on(self, piece: bytes) -> None:
        if not piece:
            return
        try:
            self._on_output(piece)
        except Exception as error:
            self._on_output = _ignore
            self._problem = error
            self._ended.set()

    def _pass_on_rest(self) -> None:
        """Passes on what might have become a key: nothing more of it is waited for."""
        if self._masked:
            self._pass_on(self._masked.end())

    def _close_output(self) -> None:
        if not self._output_ended.done():
            self._pass_on_rest()
            self._output_ended.set_result(None)
            self._loop.remove_reader(self._output)
            os.close(self._output)

    async def _until_group_is_gone(self, limit: float) -> None:
        end = self._loop.time() + limit
        pause = 0.001
        while group_is_alive(self.id.pid) and self._loop.time() < end:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.05)


def group_is_alive(group: int) -> bool:
    """Whether a process group has a running member; a zombie does not count."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if sys.platform != "linux":
        return True
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it exited in the meantime
        if int(fields[2]) == group and fields[0] not in "ZX":
            return True
    return False


def _ignore(piece: bytes) -> None:
    pass


_MEMORY_KEY = "ostler.tools.child_process"


class BackgroundProcess(Protocol):
    """A process that outlives its call."""

    @property
    def is_running(self) -> bool: ...

    async def end(self) -> None: ...

    def close(self) -> None:
        """Called when nothing of it runs any more."""


def keep_in_background(memory: dict[str, Any], child: ChildProcess) -> None:
    """Keeps a command's background processes running after its call has ended."""
    child.keep_reading()
    keep_running(memory, child)


def keep_running(memory: dict[str, Any], process: BackgroundProcess) -> None:
    """Keeps a process running until the session is closed."""
    processes: list[BackgroundProcess] = memory.setdefault(_MEMORY_KEY, [])
    for other in [other for other in processes if not other.is_running]:
        other.close()
        processes.remove(other)
    processes.append(process)


async def stop_background(memory: dict[str, Any]) -> None:
    """Ends all background processes, with their groups."""
    processes: list[BackgroundProcess] = memory.pop(_MEMORY_KEY, [])
    await asyncio.gather(*(_end(process) for process in processes))


async def _end(process: BackgroundProcess) -> None:
    try:
        await process.end()
    finally:
        process.close()
