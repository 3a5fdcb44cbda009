"""A program that reads and writes lines of JSON, in a process group of its own."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from ostler.core.line_process import LineSplitter
from ostler.core.processes import ProcessId, on_exit, process_environment, signal_group, start_time
from ostler.drivers.driver import ProtocolAgentSpec
from ostler.drivers.pty_process import OWNED_AS, die_together, kill_strays
from ostler.drivers.session import end_reason
from ostler.schema.errors import OstlerError, UsageError

LONGEST_LINE = 64 * 1024 * 1024

_READ_SIZE = 64 * 1024

_READS_AT_THE_END = 1024

_LINES_KEPT, _LONGEST_KEPT = 20, 500

_ENDS_BY_ITSELF, _ENDS_WHEN_ASKED, _KILL_WAIT = 1.0, 2.0, 2.0


class LineProcess:
    """One agent's program and whatever it starts.

    - `on_message` gets each line of its standard output that is a JSON object. Other lines are kept beside
      what it writes to standard error: `complaint` has the last of both.
    - `ended` is done when the program has ended and its last line was given out: its exit status, negative
      for a signal. What it left of its group is killed.
    - It does not outlive us: however we end, its input ends, and on Linux the kernel kills the group. Those
      that left the group carry the session's name in their environment.
    """

    def __init__(
        self,
        agent: ProtocolAgentSpec,
        command: list[str],
        session: str,
        on_message: Callable[[dict[str, Any]], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._name = agent.command[0] if agent.command else ""
        self._session = session
        self._on_message = on_message
        self._splitter, self._error_splitter = LineSplitter(LONGEST_LINE), LineSplitter(LONGEST_LINE)
        self._said: deque[str] = deque(maxlen=_LINES_KEPT)
        self._unwritten = bytearray()
        self._is_paused = False
        self.ended: asyncio.Future[int] = self._loop.create_future()
        owned, self._owner = os.pipe()  # the writing end is ours: it closes when we end
        try:
            self._child = _spawn(agent, command, session, owned)
        except BaseException:
            os.close(self._owner)
            raise
        else:
            die_together(owned, self._child.pid)
        finally:
            os.close(owned)
        self.id = ProcessId.of(self._child.pid)
        assert self._child.stdin and self._child.stdout and self._child.stderr
        self._input = self._child.stdin.fileno()
        self._output = self._child.stdout.fileno()
        self._errors = self._child.stderr.fileno()
        self._end_input_last()
        for descriptor in (self._input, self._output, self._errors):
            os.set_blocking(descriptor, False)
        self._loop.add_reader(self._output, self._read)
        self._loop.add_reader(self._errors, self._read_errors)
        on_exit(self._child.pid, self._reap)

    @property
    def last_stderr(self) -> str:
        """What it said at last that is no message."""
        return "\n".join(self._said)

    def problem(self, what: str) -> OstlerError:
        """An error that says why, as far as the program told."""
        if self.ended.done():
            what = f"{what}: {self._name} {end_reason(self.ended.result())}"
        said = self._said[-1] if self._said else ""
        return OstlerError(f"{what}; it last said: {said}" if said else what)

    def send(self, message: dict[str, Any]) -> None:
        """In order, as fast as it reads."""
        if self._input < 0:
            return
        self._unwritten += msgspec.json.encode(message) + b"\n"
        self._write()

    def pause(self) -> None:
        """It is not read until `resume`: whoever takes what it says is behind."""
        if not self._is_paused and not self.ended.done():
            self._is_paused = True
            self._loop.remove_reader(self._output)

    def resume(self) -> None:
        if self._is_paused and not self.ended.done():
            self._is_paused = False
            self._loop.add_reader(self._output, self._read)

    async def stop(self) -> None:
        """Ends its input, then asks it to end, and then does not ask. Afterwards nothing of it is left,
        wherever it went. A cancellation only hurries it."""
        try:
            self._close_input()
            await asyncio.wait([self.ended], timeout=_ENDS_BY_ITSELF)
            if not self.ended.done():
                self._signal(signal.SIGTERM)
                await asyncio.wait([self.ended], timeout=_ENDS_WHEN_ASKED)
        finally:
            self.kill()
            await kill_strays(self._session)
            await asyncio.wait([self.ended], timeout=_KILL_WAIT)

    def kill(self) -> None:
        """Ends its group at once."""
        if not self.ended.done():
            self._signal(signal.SIGKILL)

    # --- its life -------------------------------------------------------------------------------------

    def _end_input_last(self) -> None:
        """Of our descriptors the one with the highest number closes first. If its input ended before, the
        program could leave at once, and nobody would be left to tell the rest of its group by."""
        highest = max(self._input, self._output, self._errors)
        first, self._owner = self._owner, fcntl.fcntl(self._owner, fcntl.F_DUPFD_CLOEXEC, highest + 1)
        os.close(first)

    def _reap(self) -> None:
        self._signal(signal.SIGKILL)  # before it is reaped: until then its number is nobody else's
        status = self._child.wait()
        for read in (self._read, self._read_errors):
            for _ in range(_READS_AT_THE_END):
                if not read():
                    break
        for descriptor in (self._output, self._errors):
            self._loop.remove_reader(descriptor)
        self._close_input()
        assert self._child.stdout and self._child.stderr
        self._child.stdout.close()
        self._child.stderr.close()
        os.close(self._owner)
        self.ended.set_result(status)

    def _signal(self, number: signal.Signals) -> None:
        present = start_time(self.id.pid)
        if not present or present == self.id.started:  # else the number is somebody else's by now
            signal_group(self.id.pid, number)

    # --- its pipes ------------------------------------------------------------------------------------

    def _read(self) -> bool:
        piece = _piece_of(self._output)
        if piece is None:
            return False
        if not piece:
            self._loop.remove_reader(self._output)
            self._loop.call_later(
                _KILL_WAIT, self.kill
            )  # unless it is about to end, nobody hears it any more
            return False
        for line in self._splitter.feed(piece):
            self._take(line)
        return True

    def _take(self, line: bytes | None) -> None:
        if line is None:
            self._keep(f"a line of more than {LONGEST_LINE} bytes".encode())
            self.kill()
            return
        message = _object_in(line)
        if message is None:
            self._keep(line)
        else:
            self._on_message(message)

    def _read_errors(self) -> bool:
        piece = _piece_of(self._errors)
        if piece == b"":
            self._loop.remove_reader(self._errors)
        for line in self._error_splitter.feed(piece or b""):
            self._keep(line or b"")
        return bool(piece)

    def _keep(self, line: bytes) -> None:
        said = line[: 4 * _LONGEST_KEPT].decode("utf-8", "replace").strip()[:_LONGEST_KEPT]
        if said:
            self._said.append(said)

    def _write(self) -> None:
        try:
            written = os.write(self._input, self._unwritten[:_READ_SIZE]) if self._unwritten else 0
        except BlockingIOError:
            written = 0
        except OSError:  # nobody will read it any more
            self._close_input()
            return
        del self._unwritten[:written]
        if self._unwritten:
            self._loop.add_writer(self._input, self._write)
        else:
            self._loop.remove_writer(self._input)

    def _close_input(self) -> None:
        if self._input >= 0:
            self._loop.remove_writer(self._input)
            self._input = -1
            self._unwritten.clear()
            assert self._child.stdin
            self._child.stdin.close()


def _spawn(agent: ProtocolAgentSpec, command: list[str], session: str, owned: int) -> subprocess.Popen[bytes]:
    if not agent.command or not agent.command[0]:
        raise UsageError("no command was given: name the agent's program")
    if not agent.cwd.is_dir():
        raise UsageError(f"the working directory {agent.cwd} does not exist")
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=agent.cwd,
            env={**os.environ, **agent.environment, **process_environment(session, OWNED_AS)},
            start_new_session=True,
            pass_fds=(owned,),
        )
    except FileNotFoundError:
        raise UsageError(f"cannot start {command[0]}: there is no such program") from None
    except OSError as error:
        raise UsageError(f"cannot start {command[0]}: {error.strerror}") from None
    except ValueError:
        raise UsageError("the command contains a NUL character") from None


def _piece_of(descriptor: int) -> bytes | None:
    """None when there is nothing to read now, empty when there never will be."""
    try:
        return os.read(descriptor, _READ_SIZE)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _object_in(line: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(line)
    except msgspec.DecodeError:
        try:  # JavaScript cuts strings between two halves of a character, and writes the half
            found = _whole(json.loads(line.decode("utf-8", "replace")))
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


def _whole(value: Any) -> Any:
    """The value with characters that can be stored."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_whole(key): _whole(one) for key, one in value.items()}
        case list():
            return [_whole(one) for one in value]
    return value
