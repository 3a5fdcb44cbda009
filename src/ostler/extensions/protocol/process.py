"""The process of an extension: lines in, lines out, and an end that is noticed at once."""
# MERGED: What waits to be written to an extension: bounded, and never out of order.
# MERGED: The log of one extension: its standard error, and what went wrong between it and us.
# MERGED: `extension.json`: what an extension in another language is called, and how it is started.

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ostler.core.line_process import LineSplitter
from ostler.core.processes import on_exit, signal_group
from ostler.extensions.protocol.frames import MAX_LINE, Gap, Shutdown, line_of
from ostler.schema.errors import ConfigurationError

LIVE_FRAMES, LIVE_BYTES = 1_000, 1024 * 1024
"""With this much waiting, deltas and live values are left out."""

MAX_FRAMES, MAX_BYTES = 10_000, 32 * 1024 * 1024
"""With this much waiting, the extension does not read any more."""


class FellBehind(Exception):
    """More waits than an extension that reads would ever let wait."""


class Outbox:
    """Lines in their order. Live ones give way first; where some are missing, a `gap` says so."""

    def __init__(self) -> None:
        self._lines: deque[tuple[bytes, bool]] = deque()
        self._bytes = 0
        self._lost = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def facts(self) -> int:
        return sum(not live for _, live in self._lines)

    def put(self, line: bytes, *, live: bool = False) -> None:
        """Raises `FellBehind` when there is no room for what may not be lost."""
        if live and (len(self._lines) >= LIVE_FRAMES or self._bytes + len(line) > LIVE_BYTES):
            self._lost += 1
            return
        if self._lost:
            self._append(line_of(Gap("live", self._lost)), False)
            self._lost = 0
        self._append(line, live)
        if len(self._lines) > MAX_FRAMES or self._bytes > MAX_BYTES:
            self._leave_out_live()
            if len(self._lines) > MAX_FRAMES or self._bytes > MAX_BYTES:
                raise FellBehind

    def take(self) -> bytes:
        line, _ = self._lines.popleft()
        self._bytes -= len(line)
        return line

    def _append(self, line: bytes, live: bool) -> None:
        self._lines.append((line, live))
        self._bytes += len(line)

    def _leave_out_live(self) -> None:
        waiting, self._lines, self._bytes = self._lines, deque(), 0
        missing = 0
        for line, live in waiting:
            if live:
                missing += 1
                continue
            if missing:
                self._append(line_of(Gap("live", missing)), False)
                missing = 0
            self._append(line, False)
        self._lost += missing


READ_SIZE = 16 * 1024
"""In one turn of the loop: thousands of short lines may be in it, and others wait."""

_WRITE_SIZE = 64 * 1024

_PIECES_AT_THE_END = 64

_KILL_WAIT = 2.0


class ExtensionProcess:
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
        on_exit(self.pid, self._reap)

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


MAX_LOG_BYTES = 1024 * 1024
"""A file that has grown so large becomes the previous one; of those one is kept."""


class ExtensionLog:
    """Appends to a file that stays small. That it cannot be written never stops an extension."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1

    def write(self, piece: bytes) -> None:
        with suppress(OSError):
            size = os.fstat(self._opened()).st_size
            if size and size + len(piece) > MAX_LOG_BYTES:
                self.close()
                self.path.replace(self.path.with_suffix(".log.1"))
            os.write(self._opened(), piece)

    def note(self, text: str, level: str = "ostler") -> None:
        """A line of its own, with the time."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.write(f"{moment} [{level}] {' '.join(text.splitlines())}\n".encode(errors="replace"))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _opened(self) -> int:
        if self._file < 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return self._file


MANIFEST = "extension.json"


class Manifest(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    exec: Annotated[str, Meta(min_length=1)]
    args: tuple[str, ...] = ()
    version: str = ""
    language: str = ""
    description: str = ""
    enabled: bool = True


def read_manifest(folder: Path) -> Manifest:
    """Raises `ConfigurationError` for one that is missing or wrong."""
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise ConfigurationError(f"there is no {path}") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def command_of(manifest: Manifest, folder: Path) -> list[str]:
    """The program and its arguments: an absolute path, one from the manifest's folder, or a name in PATH.

    Raises `ConfigurationError` where there is no such program.
    """
    from shutil import which  # only for extensions that are there

    named = manifest.exec
    if os.sep in named:
        program = str(folder / named)
        if not os.access(program, os.X_OK) or Path(program).is_dir():
            raise ConfigurationError(f"{program} is no program: is it there, and executable (chmod +x)?")
    else:
        program = which(named) or ""
        if not program:
            raise ConfigurationError(
                f"there is no program {named!r} in PATH; write ./{named} for a file here"
            )
    return [program, *manifest.args]


def named_outside(manifest: Manifest, folder: Path, project: Path) -> Path | None:
    """A file of the project that the command names and that is not the extension's own: it could change
    without anybody being asked."""
    words = [word for named in (manifest.exec, *manifest.args) for word in (named, named.partition("=")[2])]
    for word in filter(None, words):
        path = (folder / word).resolve()
        if path.exists() and path.is_relative_to(project) and not path.is_relative_to(folder):
            return path
    return None
