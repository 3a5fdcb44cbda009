"""The state file and the PID file, in agentapi's format."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from ostler.drivers.driver import AgentMessage, SavedState
from ostler.drivers.session import AgentSession
from ostler.models.credentials import write_privately
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.server.agentapi.events import for_html, timestamp, to_json

VERSION = 1

QUIET = 1.0
"""Seconds without a change after which it is saved."""

LONGEST_UNSAVED = 10.0
"""Seconds after which it is saved, however much the agent draws."""

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
    """The file exists, but cannot be read."""


def encode_state(saved: SavedState) -> bytes:
    messages = [_Message(one.id, one.text, one.role, timestamp(one.time)) for one in saved.messages]
    state = _State(VERSION, messages, saved.initial_prompt, saved.initial_prompt_sent)
    return for_html(to_json(state)) + b"\n"


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
    """None if the file does not exist. Raises `UnreadableState`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableState(f"failed to open state file: {error.strerror}") from None
    return decode_state(data)


def _read(time: str) -> float:
    return min(max(datetime.fromisoformat(time).timestamp(), 0.0), _LATEST)


class StateFile:
    """Saves the conversation soon after each change, and when `save` is called.

    A state that is in the file already is not written again. An unreadable file is renamed first.
    """

    def __init__(
        self,
        path: Path,
        agent: AgentSession,
        *,
        saved: SavedState | None,
        is_unreadable: bool,
        warn: Callable[[str], None],
    ) -> None:
        """`saved` is the state in the file."""
        self._path = path
        self._agent = agent
        self._saved = saved
        self._is_unreadable = is_unreadable
        self._warn = warn
        self._warning = ""
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
        state = self._agent.to_save()
        if state == self._saved:
            return
        try:
            if self._is_unreadable:
                with suppress(OSError):  # it was removed meanwhile
                    self._path.replace(f"{self._path}.unreadable")
            write_privately(self._path, encode_state(state))
        except ConfigurationError as error:
            warning = f"the conversation is not saved: {error.message}"
            if warning != self._warning:
                self._warning = warning
                self._warn(warning)
            return
        self._saved, self._is_unreadable, self._warning = state, False, ""

    def close(self) -> None:
        """Saves for the last time: what the agent prints while it ends is not part of the conversation."""
        self._stop()
        self.save()


@contextmanager
def pid_file(path: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """A file with our process id. Raises `UsageError` when it names another running process."""
    own = f"{os.getpid()}\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_stale(path, warn)
        _write(path, own)
    except OSError as error:
        raise UsageError(f"the pid file {path} cannot be written: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # it was removed meanwhile
            if path.read_text(encoding="utf-8") == own:
                path.unlink()


def _remove_stale(path: Path, warn: Callable[[str], None]) -> None:
    try:
        number = path.read_bytes().strip().decode(errors="replace")
    except FileNotFoundError:
        return
    if number.isdecimal() and number.isascii() and int(number) > 0:
        pid = int(number)
        if pid != os.getpid() and _is_running(pid):  # in a container each server may have the same pid
            raise UsageError(f"another instance is already running with PID {pid} (PID file: {path})")
        warn(f"the pid file {path} was left by process {pid}, which has ended")
    path.unlink()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _write(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"another instance is starting (PID file: {path})") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
