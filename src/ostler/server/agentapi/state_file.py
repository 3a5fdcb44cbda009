"""The state file and the PID file, in agentapi's format."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from ostler.drivers.driver import AgentMessage, SavedState
from ostler.drivers.session import AgentSession
from ostler.models.credentials import write_privately
from ostler.schema.errors import ConfigurationError, UsageError

VERSION = 1

QUIET = 1.0
"""Seconds without a change after which it is saved."""

LONGEST_UNSAVED = 10.0
"""Seconds after which it is saved, however much the agent draws."""

# As Go writes them: whoever reads the file may be a page.
_ESCAPED = {character.encode(): f"\\u{ord(character):04x}".encode() for character in "<>&\u2028\u2029"}

_LATEST = 1e11
"""Seconds since 1970 of a time that can be written in any zone."""


class _Version(msgspec.Struct, frozen=True):
    version: int = 0


class _Message(msgspec.Struct, frozen=True):
    id: int
    message: str
    role: Literal["agent", "user"]
    time: str


class _State(msgspec.Struct, frozen=True):
    version: int
    messages: list[_Message] | None = None
    initial_prompt: str = ""
    initial_prompt_sent: bool = False


class UnreadableState(ConfigurationError):
    """It is there, and cannot be gone on with."""


def encode_state(saved: SavedState) -> bytes:
    messages = [_Message(one.id, one.text, one.role, _written(one.time)) for one in saved.messages]
    line = msgspec.json.encode(_State(VERSION, messages, saved.initial_prompt, saved.initial_prompt_sent))
    for plain, escaped in _ESCAPED.items():
        line = line.replace(plain, escaped)
    return line + b"\n"


def decode_state(data: bytes) -> SavedState:
    """Raises `UnreadableState`."""
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != VERSION:
            raise UnreadableState(f"unsupported state file version {version} (expected {VERSION})")
        state = msgspec.json.decode(data, type=_State)
        messages = [
            AgentMessage(one.id, one.role, one.message, _read(one.time)) for one in state.messages or ()
        ]
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise UnreadableState(f"failed to unmarshal state (corrupted or invalid JSON): {error}") from None
    return SavedState(tuple(messages), state.initial_prompt, state.initial_prompt_sent)


def read_state(path: Path) -> SavedState | None:
    """None when there is none yet. Raises `UnreadableState`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableState(f"failed to open state file: {error.strerror}") from None
    return decode_state(data)


def _read(time: str) -> float:
    return min(max(datetime.fromisoformat(time).timestamp(), 0.0), _LATEST)


def _written(time: float) -> str:
    """With the offset of this place, and no zeros at the end."""
    local = datetime.fromtimestamp(time, UTC).astimezone()
    fraction = f".{local.microsecond:06}".rstrip("0").rstrip(".")
    offset = local.isoformat(timespec="seconds")[19:]
    return f"{local:%Y-%m-%dT%H:%M:%S}{fraction}{'Z' if offset == '+00:00' else offset}"


class StateFile:
    """Keeps the file up to date with an agent: soon after each change, and whenever it is told to `save`.

    What is in the file already is not written again. A file that could not be read is set aside first.
    """

    def __init__(
        self,
        path: Path,
        agent: AgentSession,
        *,
        kept: SavedState | None,
        set_aside: bool,
        say: Callable[[str], None],
    ) -> None:
        """`kept` is what the file holds, `set_aside` that nobody could read it."""
        self._path = path
        self._agent = agent
        self._kept = kept
        self._set_aside = set_aside
        self._say = say
        self._said = ""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._unsaved_since = 0.0
        self._stop = agent.subscribe(self.changed)

    def changed(self) -> None:
        now = self._loop.time()
        if self._timer is None:
            self._unsaved_since = now
        else:
            self._timer.cancel()
        due = min(now + QUIET, self._unsaved_since + LONGEST_UNSAVED)
        self._timer = self._loop.call_at(due, self.save)

    def save(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        saved = self._agent.to_save()
        if saved == self._kept:
            return
        try:
            if self._set_aside:
                with suppress(OSError):  # it is gone by now
                    self._path.replace(f"{self._path}.unreadable")
            write_privately(self._path, encode_state(saved))
        except ConfigurationError as error:
            self._complain(f"the conversation is not saved: {error.message}")
            return
        self._kept, self._set_aside, self._said = saved, False, ""

    def close(self) -> None:
        """Saves it for the last time: how the agent takes its leave is not part of the conversation."""
        self._stop()
        self.save()

    def _complain(self, problem: str) -> None:
        if problem != self._said:
            self._said = problem
            self._say(problem)


@contextmanager
def pid_file(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Names us as long as this lasts. Raises `UsageError` when it names another that lives."""
    own = f"{os.getpid()}\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _give_way(path, say)
        _write(path, own)
    except OSError as error:
        raise UsageError(f"the pid file {path} cannot be written: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # somebody else's by now, or gone
            if path.read_text(encoding="utf-8") == own:
                path.unlink()


def _give_way(path: Path, say: Callable[[str], None]) -> None:
    """To whoever lives; what the dead have left is removed."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return
    number = found.strip().decode(errors="replace")
    if number.isdecimal() and number.isascii() and int(number) > 0:
        pid = int(number)
        if pid != os.getpid() and _lives(pid):  # in a container everybody has the same number
            raise UsageError(f"another instance is already running with PID {pid} (PID file: {path})")
        say(f"the pid file {path} was left by process {pid}, which has ended")
    path.unlink()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _write(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"another instance is starting at this moment (PID file: {path})") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
