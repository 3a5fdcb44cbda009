"""The process of an agent that speaks JSON, one message a line."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from ostler.core.line_process import LineProcess, LineSplitter
from ostler.core.processes import describe_exit, process_environment
from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.pty_process import NO_COMMAND, OWNED_AS, kill_strays
from ostler.schema.errors import OstlerError, UsageError

_STDERR_LINES, _MAX_STDERR_LINE = 20, 500
_EXITS_ALONE, _EXITS_WHEN_TERMINATED = 1.0, 2.0


class JsonProcess(LineProcess):
    """Starts an agent; `on_message` gets each line of its standard output that is a JSON object.

    Other lines count as standard error.
    """

    def __init__(
        self, spec: AgentSpec, command: list[str], session: str, on_message: Callable[[dict[str, Any]], None]
    ) -> None:
        if not spec.command or not spec.command[0]:
            raise UsageError(NO_COMMAND)
        self._name = spec.command[0]
        self._session = session
        self._on_message = on_message
        self._error_splitter = LineSplitter(self.max_line)
        self._error_lines: deque[str] = deque(maxlen=_STDERR_LINES)
        environment = {**os.environ, **spec.environment, **process_environment(session, OWNED_AS)}
        super().__init__(command, cwd=spec.cwd, environment=environment)

    @property
    def last_stderr(self) -> str:
        return "\n".join(self._error_lines)

    def error(self, problem: str) -> OstlerError:
        """An error with the exit status and the last line of standard error."""
        if self.ended.done():
            problem = f"{problem}: {self._name} {describe_exit(self.ended.result())}"
        last_line = f"; it last said: {self._error_lines[-1]}" if self._error_lines else ""
        return OstlerError(problem + last_line)

    def send(self, message: dict[str, Any]) -> None:
        self.write(msgspec.json.encode(message) + b"\n")

    async def stop(self) -> None:
        """Ends its input, then terminates its group, then kills it, and those that left the group."""
        try:
            self.close_input()
            await self.stop_within(_EXITS_ALONE, _EXITS_WHEN_TERMINATED)
        finally:
            await kill_strays(self._session)

    def take_line(self, line: bytes | None) -> None:
        if line is None:
            self._add_error_line(f"a line of more than {self.max_line} bytes".encode())
            self.kill()
        elif (message := _object_in(line)) is not None:
            self._on_message(message)
        else:
            self._add_error_line(line)

    def take_stderr(self, piece: bytes) -> None:
        for line in self._error_splitter.feed(piece):
            self._add_error_line(line or b"")

    def _add_error_line(self, line: bytes) -> None:
        text = line[: 4 * _MAX_STDERR_LINE].decode("utf-8", "replace").strip()[:_MAX_STDERR_LINE]
        if text:
            self._error_lines.append(text)


def _object_in(line: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(line)
    except msgspec.DecodeError:
        try:  # JavaScript cuts strings within a surrogate pair, and writes one half
            value = _without_surrogates(json.loads(line.decode("utf-8", "replace")))
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _without_surrogates(value: Any) -> Any:
    """The value with text that can be stored."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
        case list():
            return [_without_surrogates(item) for item in value]
    return value
