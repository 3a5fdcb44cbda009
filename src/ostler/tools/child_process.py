"""Runs a command in its own process group, and tracks the processes that it leaves in the background.

It uses `subprocess.Popen` and a pidfd: asyncio's subprocesses take several times as long to start, and wait
for the end of the output, which a daemon can hold open for ever. A background process may live until its
session is closed, which calls `stop_background`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from ostler.core.processes import ProcessId, kill_processes_of, process_environment, signal_group, start_time
from ostler.core.tool import ToolContext
from ostler.schema.errors import ToolFailed

READ_SIZE = 64 * 1024

GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""

_KILL_WAIT = 1.0

_QUIET = 0.1

_MAX_DRAIN = 1.0


@asynccontextmanager
async def child_process(
    command: Sequence[str], *, context: ToolContext, cwd: Path, on_output: Callable[[bytes], None]
) -> AsyncIterator[ChildProcess]:
    """Runs a command. If the block ends early, above all by cancellation, the whole group is killed first."""
    child = ChildProcess(command, session=context.session, call=context.call, cwd=cwd, on_output=on_output)
    try:
        await context.own_process(child.id)
        yield child
    except BaseException:
        await child.end()
        raise
    finally:
        child.close_unless_kept()


class ChildProcess:
    """See `child_process`. `on_output` gets pieces of at most `READ_SIZE` bytes, one per iteration of
    the loop, so that a command that prints endlessly does not block it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        session: str,
        call: str,
        cwd: Path,
        on_output: Callable[[bytes], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._call = call
        self._on_output = on_output
        self._bytes_read = 0
        self._kept = False
        self._problem: Exception | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._output_ended: asyncio.Future[None] = self._loop.create_future()
        self._pidfd = -1
        self._output, writing = os.pipe()
        try:
            os.set_blocking(self._output, False)
            self._child = _spawn(command, process_environment(session, call), cwd, writing)
        except BaseException:
            os.close(self._output)
            raise
        finally:
            os.close(writing)
        self.id = ProcessId.of(self._child.pid)
        self._loop.add_reader(self._output, self._read)
        self._watch()

    @property
    def returncode(self) -> int | None:
        """As in `subprocess`: negative for a signal."""
        return self._child.returncode

    @property
    def is_running(self) -> bool:
        """Whether processes that the command started are still alive."""
        return not self._output_ended.done() or group_is_alive(self.id.pid)

    async def wait(self) -> None:
        """Waits until the command has ended; raises what `on_output` raises.

        Background processes may hold the output open, so it is read until nothing arrives for a moment, not
        to its end."""
        await asyncio.wait([self._ended])
        if self._problem:
            raise self._problem
        limit = self._loop.time() + _MAX_DRAIN
        while not self._output_ended.done() and self._loop.time() < limit:
            before = self._bytes_read
            await asyncio.wait([self._output_ended], timeout=_QUIET)
            if self._bytes_read == before:
                return

    async def end(self) -> None:
        """Ends the group: SIGTERM, then SIGKILL after a grace period. A cancellation shortens the wait."""
        try:
            self._signal(signal.SIGTERM)
            await self._until_group_is_gone(GRACE)
        finally:
            if group_is_alive(self.id.pid):
                self._signal(signal.SIGKILL)
            # Those that left the group still carry the call's name in their environment.
            await asyncio.to_thread(kill_processes_of, self._session, self._call)
            await self._until_group_is_gone(_KILL_WAIT)
            self._drain_now()

    def keep_reading(self) -> None:
        """Keeps reading and discards what the background processes print: a closed pipe would kill them, a
        full one would block them."""
        self._kept = True
        self._on_output = _ignore

    def close(self) -> None:
        self._close_output()
        self._unwatch()
        self._child.poll()

    def close_unless_kept(self) -> None:
        if not self._kept:
            self.close()

    def _watch(self) -> None:
        if sys.platform == "linux" and hasattr(os, "pidfd_open"):  # Pythons for every Linux, as uv's, lack it
            with suppress(OSError):  # an old kernel, or a sandbox that does not know it
                self._pidfd = os.pidfd_open(self._child.pid)
                self._loop.add_reader(self._pidfd, self._reap)
                return
        threading.Thread(target=self._wait_in_thread, daemon=True).start()

    def _unwatch(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _wait_in_thread(self) -> None:
        self._child.wait()
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._reap)

    def _reap(self) -> None:
        self._unwatch()
        self._child.wait()
        self._drain_now()
        if not self._ended.done():
            self._ended.set_result(None)

    def _signal(self, number: signal.Signals) -> None:
        present = start_time(self.id.pid)
        if not present or present == self.id.started:  # else the pid is somebody else's by now
            signal_group(self.id.pid, number)

    def _drain_now(self) -> None:
        """The bytes in the pipe now, and no more: other processes may be writing into it."""
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
        try:
            self._on_output(piece)
        except Exception as error:
            self._on_output = _ignore
            self._problem = error
            if not self._ended.done():
                self._ended.set_result(None)
        return True

    def _close_output(self) -> None:
        if not self._output_ended.done():
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
    """Whether a process group has a living member; zombies do not count."""
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
            continue  # it ended meanwhile
        if int(fields[2]) == group and fields[0] not in "ZX":
            return True
    return False


def _spawn(command: Sequence[str], marks: dict[str, str], cwd: Path, output: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env={**os.environ, **marks},
            start_new_session=True,
        )
    except OSError as error:
        if not cwd.is_dir():
            raise ToolFailed(f"the working directory {cwd} no longer exists") from None
        raise ToolFailed(f"cannot start {command[0]}: {error.strerror}") from None
    except ValueError:
        raise ToolFailed("the command contains a NUL character") from None


def _ignore(piece: bytes) -> None:
    pass


_MEMORY_KEY = "ostler.tools.child_process"


class BackgroundProcess(Protocol):
    """A process that outlives its tool call."""

    @property
    def is_running(self) -> bool:
        """Whether it is still running."""
        ...

    async def end(self) -> None: ...

    def close(self) -> None:
        """Ends it, and waits until it has ended."""


def keep_in_background(memory: dict[str, Any], child: ChildProcess) -> None:
    """Keeps a command's background processes alive after its call has ended."""
    child.keep_reading()
    keep_running(memory, child)


def keep_running(memory: dict[str, Any], one: BackgroundProcess) -> None:
    """It is ended with the session."""
    processes: list[BackgroundProcess] = memory.setdefault(_MEMORY_KEY, [])
    ended = [other for other in processes if not other.is_running]
    for other in ended:
        other.close()
        processes.remove(other)
    processes.append(one)


async def stop_background(memory: dict[str, Any]) -> None:
    """Ends all background processes, with their groups."""
    processes: list[BackgroundProcess] = memory.pop(_MEMORY_KEY, [])
    await asyncio.gather(*(_end(one) for one in processes))


async def _end(one: BackgroundProcess) -> None:
    try:
        await one.end()
    finally:
        one.close()
