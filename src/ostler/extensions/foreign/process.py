"""The process of an extension: lines in, lines out, and an end that is noticed at once."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ostler.extensions.foreign.frames import MAX_LINE, Shutdown, line_of
from ostler.extensions.foreign.lines import LineSplitter
from ostler.extensions.foreign.outbox import FellBehind, Outbox
from ostler.kernel.exit_watch import when_ended
from ostler.kernel.processes import signal_group
from ostler.vocabulary.errors import ConfigurationError

READ_SIZE = 16 * 1024
"""In one turn of the loop: thousands of short lines may be in it, and others wait."""
_WRITE_SIZE = 64 * 1024
_PIECES_AT_THE_END = 64
_KILL_WAIT = 2.0


class ForeignProcess:
    """One life of an extension, in a process group of its own.

    - `on_line` gets its lines, None for one that was too long; `on_stderr` what it says beside them.
    - `ended` holds why it ended, once it has: then its whole group is gone.
    - It dies with us, however we end: its input ends, and on Linux the kernel kills its group.
    """

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        *,
        on_line: Callable[[bytes | None], None],
        on_stderr: Callable[[bytes], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_line = on_line
        self._on_stderr = on_stderr
        self._splitter = LineSplitter(MAX_LINE)
        self._outbox = Outbox()
        self._buffer = b""
        self._is_closing_input = False
        self._problem = ""
        self._owned, self._owner = os.pipe()  # the writing end is ours: it closes when we end
        self.ended: asyncio.Future[str] = self._loop.create_future()
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                start_new_session=True,
                pass_fds=(self._owned,),
            )
        except (OSError, ValueError) as error:
            os.close(self._owned)
            os.close(self._owner)
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigurationError(f"{command[0]} cannot be started: {reason}") from None
        self.pid = self._child.pid
        self._die_together()
        assert self._child.stdin and self._child.stdout and self._child.stderr
        self._input = self._child.stdin.fileno()
        self._output = self._child.stdout.fileno()
        self._errors = self._child.stderr.fileno()
        for descriptor in (self._input, self._output, self._errors):
            os.set_blocking(descriptor, False)
        self._loop.add_reader(self._output, self._read)
        self._loop.add_reader(self._errors, self._read_errors)
        when_ended(self.pid, self._reap)

    @property
    def unsent(self) -> int:
        """Frames that it has not been sent, but for live ones."""
        return self._outbox.facts

    def send(self, line: bytes, *, live: bool = False) -> None:
        """Lines are written in the order they are sent, each as a whole."""
        if self._input < 0 or self._problem or self._is_closing_input:
            return
        try:
            self._outbox.put(line, live=live)
        except FellBehind:
            self.fail("it does not read what it is sent")
            return
        if not self._buffer:
            self._write()

    def fail(self, problem: str) -> None:
        """Ends it: it cannot be worked with any more."""
        if not self.ended.done():
            self._problem = self._problem or problem
            signal_group(self.pid, signal.SIGKILL)

    async def stop(self, patience: float, after_asking: float) -> None:
        """Asks it to shut down, then asks its group to terminate, then does not ask."""
        if self.ended.done():
            return
        self._problem = ""
        self.send(line_of(Shutdown()))
        self._is_closing_input = True
        self._write()
        try:
            await asyncio.wait([self.ended], timeout=patience)
            if not self.ended.done():
                signal_group(self.pid, signal.SIGTERM)
                await asyncio.wait([self.ended], timeout=after_asking)
        finally:
            if not self.ended.done():
                signal_group(self.pid, signal.SIGKILL)
                await asyncio.wait([self.ended], timeout=_KILL_WAIT)

    # --- its life -------------------------------------------------------------------------------------

    def _die_together(self) -> None:
        """Linux sends a deadly signal to the group when our end of a pipe closes, also after `kill -9`.

        Elsewhere it has to notice that its input has ended.
        """
        if sys.platform == "linux":
            with suppress(OSError):  # a sandbox that does not know it
                fcntl.fcntl(self._owned, fcntl.F_SETOWN, -self.pid)
                fcntl.fcntl(self._owned, fcntl.F_SETSIG, signal.SIGKILL)
                flags = fcntl.fcntl(self._owned, fcntl.F_GETFL)
                fcntl.fcntl(self._owned, fcntl.F_SETFL, flags | os.O_ASYNC)
            # What has the highest number closes first. If its input ended before, it could leave at once,
            # and nobody would be left to tell the rest of the group by.
            assert self._child.stdin and self._child.stdout and self._child.stderr
            pipes = (self._child.stdin, self._child.stdout, self._child.stderr)
            highest = max(pipe.fileno() for pipe in pipes)
            first, self._owner = self._owner, fcntl.fcntl(self._owner, fcntl.F_DUPFD_CLOEXEC, highest + 1)
            os.close(first)
        os.close(self._owned)

    def _reap(self) -> None:
        signal_group(self.pid, signal.SIGKILL)  # what it leaves behind, as long as the number is its own
        status = self._child.wait()
        for read in (self._read, self._read_errors):
            for _ in range(_PIECES_AT_THE_END):
                if not read():
                    break
        for descriptor in (self._output, self._errors):
            self._loop.remove_reader(descriptor)
        self._close_input()
        assert self._child.stdout and self._child.stderr
        self._child.stdout.close()
        self._child.stderr.close()
        os.close(self._owner)
        self.ended.set_result(self._problem or _described(status))

    # --- its pipes ------------------------------------------------------------------------------------

    def _read(self) -> bool:
        piece = _piece_of(self._output)
        if piece is None:
            return False
        if not piece:
            self._loop.remove_reader(self._output)
            self._give_up_soon("it closed its standard output")
            return False
        for line in self._splitter.feed(piece):
            self._on_line(line)
        return True

    def _give_up_soon(self, problem: str) -> None:
        """A pipe has ended: usually because it exits, which is waited for."""
        if not self.ended.done() and not self._is_closing_input:
            self._loop.call_later(_KILL_WAIT, self.fail, problem)

    def _read_errors(self) -> bool:
        piece = _piece_of(self._errors)
        if piece:
            self._on_stderr(piece)
        elif piece == b"":
            self._loop.remove_reader(self._errors)
        return bool(piece)

    def _write(self) -> None:
        while self._input >= 0:
            while self._outbox and len(self._buffer) < _WRITE_SIZE:
                self._buffer += self._outbox.take()
            if not self._buffer:
                self._loop.remove_writer(self._input)
                if self._is_closing_input:
                    self._close_input()
                return
            try:
                written = os.write(self._input, self._buffer)
            except BlockingIOError:
                self._loop.add_writer(self._input, self._write)
                return
            except OSError:
                self._close_input()
                self._give_up_soon("it closed its standard input")
                return
            self._buffer = self._buffer[written:]

    def _close_input(self) -> None:
        if self._input >= 0:
            self._loop.remove_writer(self._input)
            self._input = -1
            assert self._child.stdin
            self._child.stdin.close()


def _piece_of(descriptor: int) -> bytes | None:
    """None when there is nothing to read now, empty when there never will be."""
    try:
        return os.read(descriptor, READ_SIZE)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _described(status: int) -> str:
    if status < 0:
        try:
            return f"it was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"it was ended by signal {-status}"
    return f"it exited with status {status}"
