"""A child process that reads and writes lines, in a process group of its own. Subclasses define what a line
means: extensions in other languages, and agents that speak JSON."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ostler.core.processes import OwnedGroup, ProcessLimits, on_exit

_WRITE_SIZE = 64 * 1024
_READS_AT_EXIT = 64

_EXIT_WAIT = 2.0
"""Seconds that a process has to exit after it closed a pipe, or was killed."""


class LineSplitter:
    """Splits a stream of bytes into lines. A line over the limit is dropped and reported as None."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._partial = bytearray()
        self._is_skipping = False

    def feed(self, piece: bytes) -> Iterator[bytes | None]:
        """The lines that are complete now, without their line ends; None for each that was too long."""
        *complete, partial = piece.split(b"\n")
        for part in complete:
            self._append(part)
            yield None if self._is_skipping else bytes(self._partial).removesuffix(b"\r")
            self._partial.clear()
            self._is_skipping = False
        self._append(partial)

    def _append(self, part: bytes) -> None:
        if self._is_skipping or len(self._partial) + len(part) > self._limit:
            self._is_skipping = True
            self._partial.clear()
        else:
            self._partial += part


class LineProcess(ABC):
    """Starts a program and exchanges lines with it through the event loop.

    - `ended` is its exit status, negative for a signal, set once its last output was read. What is left of
      its group is killed.
    - It does not outlive us: its input ends, and on Linux the kernel kills the group.

    Raises `UsageError` when the program cannot be started.
    """

    max_line = 64 * 1024 * 1024
    read_size = 64 * 1024

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        limits: ProcessLimits | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._splitter = LineSplitter(self.max_line)
        self._unwritten = bytearray()
        self._is_paused = False
        self._is_closing_input = False
        self.problem = ""
        """Why we killed it, if we did."""
        self.ended: asyncio.Future[int] = self._loop.create_future()
        self._group = OwnedGroup(
            command, cwd=cwd, environment=environment, stdin=subprocess.PIPE, limits=limits
        )
        if self._group.limited:
            self._group.limited.watch(self.kill)
        self.id = self._group.id
        child = self._group.process
        assert child.stdin and child.stdout and child.stderr
        self._stdin = child.stdin
        descriptors = [pipe.fileno() for pipe in (child.stdin, child.stdout, child.stderr)]
        for descriptor in descriptors:
            os.set_blocking(descriptor, False)
        self._input, self._output, self._errors = descriptors
        self._loop.add_reader(self._output, self._read)
        self._loop.add_reader(self._errors, self._read_errors)
        on_exit(self.id.pid, self._reap)

    @abstractmethod
    def take_line(self, line: bytes | None) -> None:
        """Gets each line of standard output; None for a line that is too long."""

    @abstractmethod
    def take_stderr(self, piece: bytes) -> None: ...

    def more_to_write(self) -> bytes:
        """Called when everything was written; empty when nothing waits."""
        return b""

    def input_closed(self) -> None:  # noqa: B027  # a subclass may ignore it
        """Called when it has closed its standard input."""

    def write(self, data: bytes = b"") -> None:
        """Writes in order, as fast as the process reads."""
        is_idle = not self._unwritten
        if self._input >= 0:
            self._unwritten += data
            if is_idle:
                self._write()

    def close_input(self) -> None:
        """Ends its input. What it has not read yet is dropped."""
        if self._input >= 0:
            self._loop.remove_writer(self._input)
            self._input = -1
            self._unwritten.clear()
            self._stdin.close()

    def pause(self) -> None:
        """Stops reading its lines until `resume`."""
        if not self._is_paused and not self.ended.done():
            self._is_paused = True
            self._loop.remove_reader(self._output)

    def resume(self) -> None:
        if self._is_paused and not self.ended.done():
            self._is_paused = False
            self._loop.add_reader(self._output, self._read)

    def kill(self, problem: str = "") -> None:
        if not self.ended.done():
            self.problem = self.problem or problem
            self._group.id.kill_group()

    def kill_soon(self, problem: str) -> None:
        """A process that closes a pipe is usually about to exit."""
        if not self.ended.done() and not self._is_closing_input:
            self._loop.call_later(_EXIT_WAIT, self.kill, problem)

    async def stop_within(self, exits_alone: float, exits_when_terminated: float) -> None:
        """Waits for it to exit now that its input ends, then terminates its group, then kills it. A
        cancellation skips the waiting."""
        try:
            await asyncio.wait([self.ended], timeout=exits_alone)
            if not self.ended.done():
                self._group.id.signal_group(signal.SIGTERM)
                await asyncio.wait([self.ended], timeout=exits_when_terminated)
        finally:
            self.kill()
            await asyncio.wait([self.ended], timeout=_EXIT_WAIT)

    def _reap(self) -> None:
        self._group.id.kill_group()  # before it is reaped: until then no other process can get its pid
        status = self._group.process.wait()
        for read in (self._read, self._read_errors):
            for _ in range(_READS_AT_EXIT):
                if not read():
                    break
        for descriptor in (self._output, self._errors):
            self._loop.remove_reader(descriptor)
        self.close_input()
        self._group.close()
        self.ended.set_result(status)

    def _read(self) -> bool:
        piece = self._piece_of(self._output)
        if piece is None:
            return False
        if not piece:
            self._loop.remove_reader(self._output)
            self.kill_soon("it closed its standard output")
            return False
        for line in self._splitter.feed(piece):
            self.take_line(line)
        return True

    def _read_errors(self) -> bool:
        piece = self._piece_of(self._errors)
        if piece:
            self.take_stderr(piece)
        elif piece == b"":
            self._loop.remove_reader(self._errors)
        return bool(piece)

    def _piece_of(self, descriptor: int) -> bytes | None:
        """None when there is nothing to read now, empty at the end."""
        try:
            return os.read(descriptor, self.read_size)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _write(self) -> None:
        while self._input >= 0:
            if not self._unwritten:
                self._unwritten += self.more_to_write()
            if not self._unwritten:
                self._loop.remove_writer(self._input)
                if self._is_closing_input:
                    self.close_input()
                return
            try:
                written = os.write(self._input, self._unwritten[:_WRITE_SIZE])
            except BlockingIOError:
                self._loop.add_writer(self._input, self._write)
                return
            except OSError:
                self.close_input()
                self.input_closed()
                return
            del self._unwritten[:written]
