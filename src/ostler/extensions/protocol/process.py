"""The process of an extension: its manifest, its bounded outbox and its log file."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from ostler.core.line_process import LineProcess
from ostler.core.processes import ProcessLimits, describe_exit
from ostler.extensions.protocol.frames import MAX_LINE, Gap, Shutdown, line_of
from ostler.schema.errors import ConfigurationError, UsageError

LIVE_FRAMES, LIVE_BYTES = 1_000, 1024 * 1024
"""Beyond this, deltas and live values are dropped."""
MAX_FRAMES, MAX_BYTES = 10_000, 32 * 1024 * 1024
"""Beyond this, the extension is considered stuck."""


class FellBehind(Exception):
    """The extension does not read its frames."""


class Outbox:
    """A bounded queue of lines. Live lines are dropped first; a `gap` replaces them."""

    def __init__(self) -> None:
        self._lines: deque[tuple[bytes, bool]] = deque()
        self._bytes = 0
        self._dropped = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def facts(self) -> int:
        """The number of lines that are not live."""
        return sum(not live for _, live in self._lines)

    def put(self, line: bytes, *, live: bool = False) -> None:
        """Raises `FellBehind` when there is no room for a line that must not be dropped."""
        if live and (len(self._lines) >= LIVE_FRAMES or self._bytes + len(line) > LIVE_BYTES):
            self._dropped += 1
            return
        if self._dropped:
            self._append(line_of(Gap("live", self._dropped)), False)
            self._dropped = 0
        self._append(line, live)
        if len(self._lines) > MAX_FRAMES or self._bytes > MAX_BYTES:
            self._drop_live()
            if len(self._lines) > MAX_FRAMES or self._bytes > MAX_BYTES:
                raise FellBehind

    def take(self) -> bytes:
        line, _ = self._lines.popleft()
        self._bytes -= len(line)
        return line

    def _append(self, line: bytes, live: bool) -> None:
        self._lines.append((line, live))
        self._bytes += len(line)

    def _drop_live(self) -> None:
        lines, self._lines, self._bytes = self._lines, deque(), 0
        dropped = 0
        for line, live in lines:
            if live:
                dropped += 1
                continue
            if dropped:
                self._append(line_of(Gap("live", dropped)), False)
                dropped = 0
            self._append(line, False)
        self._dropped += dropped


_WRITE_SIZE = 64 * 1024


class ExtensionProcess(LineProcess):
    """One run of an extension's program. `on_line` gets its lines, None for one that is too long."""

    max_line = MAX_LINE
    read_size = 16 * 1024  # it may contain thousands of short lines, for which everything else waits

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        *,
        on_line: Callable[[bytes | None], None],
        on_stderr: Callable[[bytes], None],
        limits: ProcessLimits | None = None,
    ) -> None:
        self._on_line = on_line
        self._on_stderr = on_stderr
        self._outbox = Outbox()
        try:
            super().__init__(command, cwd=cwd, limits=limits)
        except UsageError as error:
            raise ConfigurationError(error.message) from None

    @property
    def unsent(self) -> int:
        """The number of frames that were not sent, live ones not counted."""
        return self._outbox.facts

    @property
    def end_reason(self) -> str:
        """Why it ended."""
        return self.problem or f"it {describe_exit(self.ended.result())}"

    def send(self, line: bytes, *, live: bool = False) -> None:
        """Sends lines in order, each as a whole."""
        if self._input < 0 or self.problem or self._is_closing_input:
            return
        try:
            self._outbox.put(line, live=live)
        except FellBehind:
            self.kill("it does not read its input")
        else:
            self.write()

    async def stop(self, exits_alone: float, exits_when_terminated: float) -> None:
        """Asks it to shut down, then terminates its group, then kills it."""
        if self.ended.done():
            return
        self.problem = ""
        self.send(line_of(Shutdown()))
        self._is_closing_input = True
        self.write()
        await self.stop_within(exits_alone, exits_when_terminated)

    def take_line(self, line: bytes | None) -> None:
        self._on_line(line)

    def take_stderr(self, piece: bytes) -> None:
        self._on_stderr(piece)

    def more_to_write(self) -> bytes:
        lines = bytearray()
        while self._outbox and len(lines) < _WRITE_SIZE:
            lines += self._outbox.take()
        return bytes(lines)

    def input_closed(self) -> None:
        self.kill_soon("it closed its standard input")


MAX_LOG_BYTES = 1024 * 1024
"""A file of this size is rotated; one older file is kept."""


class ExtensionLog:
    """The log file of an extension: its standard error, and the problems with it. Errors of writing it are
    ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1

    def write(self, piece: bytes) -> None:
        with suppress(OSError):
            size = os.fstat(self._descriptor()).st_size
            if size and size + len(piece) > MAX_LOG_BYTES:
                self.close()
                self.path.replace(self.path.with_suffix(".log.1"))
            os.write(self._descriptor(), piece)

    def note(self, text: str, level: str = "ostler") -> None:
        """Writes one line, with the time."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.write(f"{time} [{level}] {' '.join(text.splitlines())}\n".encode(errors="replace"))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _descriptor(self) -> int:
        if self._file < 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return self._file


MANIFEST = "extension.json"


class Manifest(msgspec.Struct, frozen=True):
    """`extension.json`: the name of an extension in another language, and how to start it."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    exec: Annotated[str, Meta(min_length=1)]
    args: tuple[str, ...] = ()
    version: str = ""
    language: str = ""
    description: str = ""
    enabled: bool = True


def read_manifest(folder: Path) -> Manifest:
    """Raises `ConfigurationError` if it is missing or invalid."""
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise ConfigurationError(f"{path} does not exist") from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def command_of(manifest: Manifest, folder: Path) -> list[str]:
    """The program and its arguments. The manifest names an absolute path, one relative to its folder, or a
    program on PATH. Raises `ConfigurationError` if there is no such program."""
    from shutil import which  # not cached like `find_program`: the program may be installed meanwhile

    name = manifest.exec
    if os.sep in name:
        program = str(folder / name)
        if not os.access(program, os.X_OK) or Path(program).is_dir():
            raise ConfigurationError(f"{program} is missing or not executable (chmod +x)")
    else:
        program = which(name) or ""
        if not program:
            raise ConfigurationError(f"there is no program {name!r} in PATH; write ./{name} for a file here")
    return [program, *manifest.args]


def named_outside(manifest: Manifest, folder: Path, project: Path) -> Path | None:
    """A file of the project, outside of the extension, that the command names: it could change without a
    review."""
    words = [word for named in (manifest.exec, *manifest.args) for word in (named, named.partition("=")[2])]
    for word in filter(None, words):
        path = (folder / word).resolve()
        if path.exists() and path.is_relative_to(project) and not path.is_relative_to(folder):
            return path
    return None
