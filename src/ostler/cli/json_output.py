"""The output of `--json`: every fact and delta as a line, without blocking the run, and notices."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from ostler.app.console import real_stdout
from ostler.core.lazy import lazy_module
from ostler.schema.events import Event, Printed
from ostler.schema.facts import Fact, encode_lines
from ostler.sessions.session import Session

if TYPE_CHECKING:
    from ostler.cli import output
else:
    output = lazy_module("ostler.cli.output")

IN_MEMORY = 8 * 1024 * 1024
"""Bytes to buffer in memory for a slow reader; more go to a file."""

STALLED_SECONDS = 5.0
"""Seconds to wait for a reader that does not read, once the run is cancelled."""

_TICK = 0.02
_OF_NO_RUN = frozenset({"command_ran", "question_asked", "question_answered"})
"""Facts of extensions outside of runs, which are printed, too."""

_WITHOUT_NOTICE = frozenset(
    {
        "run_started",
        "user_message",
        "step_started",
        "model_called",
        "usage",
        "assistant_message",
        "step_ended",
        "run_ended",
    }
)


class JsonOutput:
    """Writes as much as fits into the pipe at once; a thread writes everything else, in order.

    The run must not wait for its reader: the event loop also renews the lease and handles signals. No line is
    dropped, so a reader that falls far behind costs disk space.
    """

    def __init__(self, session: Session) -> None:
        sys.stdout.flush()
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._out = real_stdout().fileno()
        # A terminal may report that it has room and still block; a pipe does not.
        self._has_room = None if os.isatty(self._out) else select.poll()
        if self._has_room:
            self._has_room.register(self._out, select.POLLOUT)
        self._lock = threading.Lock()
        self._backlog = Backlog()
        self._writer: threading.Thread | None = None
        self._taken = 0
        self._failure: OSError | None = None
        self._hurried = False

    def see(self, batch: Sequence[Fact | Event]) -> None:
        if isinstance(batch[0], Fact):
            facts = [
                fact for fact in batch if isinstance(fact, Fact) and (fact.run or fact.type in _OF_NO_RUN)
            ]
            self.write(b"".join([fact.line() + b"\n" for fact in facts]))
        else:
            self.write(encode_lines(batch))  # type: ignore[arg-type]

    def write(self, lines: bytes) -> None:
        if self._failure:
            raise self._failure
        try:
            if self._writer is None:
                lines = self._write_what_fits(lines)
            if lines:
                self._leave_to_writer(lines)
        except OSError as error:
            self._fail(error)
            raise

    def hurry(self) -> None:
        """Stops waiting long for a reader that does not read."""
        self._hurried = True

    async def finish(self) -> bool:
        """Waits until everything is written. False if the reader stopped reading; raises write errors."""
        taken, since = self._taken, self._loop.time()
        while self._writer is not None and not self._failure:
            await asyncio.sleep(_TICK)
            if taken != self._taken:
                taken, since = self._taken, self._loop.time()
            elif self._hurried and self._loop.time() - since >= STALLED_SECONDS:
                return False
        if self._failure:
            raise self._failure
        return True

    def _write_what_fits(self, lines: bytes) -> bytes:
        """Writes without blocking, and returns what did not fit."""
        if self._has_room is None:
            return lines
        start = 0
        while start < len(lines) and self._has_room.poll(0):
            start += os.write(self._out, lines[start : start + select.PIPE_BUF])
        return lines[start:] if start else lines

    def _leave_to_writer(self, lines: bytes) -> None:
        with self._lock:
            self._backlog.put(lines)
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_backlog, daemon=True)
                self._writer.start()

    def _write_backlog(self) -> None:
        try:
            while True:
                with self._lock:
                    piece = self._backlog.take()
                    if not piece:
                        self._writer = None
                        return
                for start in range(0, len(piece), select.PIPE_BUF):
                    self._taken += _write_all(self._out, piece[start : start + select.PIPE_BUF])
        except OSError as error:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._fail, error)

    def _fail(self, error: OSError) -> None:
        self._failure = error
        self._session.cancel("the output cannot be written, or its reader has closed it")


class Notices:
    """Prints notices to standard error. It holds the facts until the first one that may lead to a notice: a
    run of one answer has none, and loads nothing of what turns facts into text."""

    def __init__(self) -> None:
        self._held: list[Fact | Event] = []
        self._output: output.ConsoleOutput | None = None

    def see(self, batch: Sequence[Fact | Event]) -> None:
        if self._output is not None:
            self._output.see(batch)
            return
        printable = [item for item in batch if isinstance(item, Fact | Printed)]
        self._held += printable
        if all(isinstance(item, Fact) and item.type in _WITHOUT_NOTICE for item in printable):
            return
        self._output = output.ConsoleOutput("notices")
        self._output.see(self._held)
        self._held = []


class Backlog:
    """A queue of bytes: in memory first, then in an anonymous file."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._limit = in_memory
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._file: IO[bytes] | None = None
        self._start = 0
        self._end = 0

    def put(self, data: bytes) -> None:
        if self._start == self._end and self._size + len(data) <= self._limit:
            self._pieces.append(data)
            self._size += len(data)
            return
        if self._file is None:
            from tempfile import TemporaryFile

            self._file = TemporaryFile(buffering=0)  # noqa: SIM115  # closed when it was read
        os.lseek(self._file.fileno(), self._end, os.SEEK_SET)
        self._end += _write_all(self._file.fileno(), data)

    def take(self) -> bytes:
        """The next bytes; empty if there are none."""
        if self._pieces:
            piece = self._pieces.popleft()
            self._size -= len(piece)
            return piece
        if self._file is None or self._start == self._end:
            return b""
        piece = os.pread(self._file.fileno(), self._limit, self._start)
        self._start += len(piece)
        if self._start == self._end:
            self._start = self._end = 0
            self._file.close()
            self._file = None
        return piece


def _write_all(descriptor: int, data: bytes) -> int:
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
    return written
