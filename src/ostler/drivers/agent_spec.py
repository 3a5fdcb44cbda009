"""Which agent to start and how to drive it: its spec, its type, and the agents configured or installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from ostler.core.processes import find_program
from ostler.schema.errors import ConfigurationError, UsageError

Transport = Literal["pty", "acp", "stream-json"]

StoredDriver = Literal["terminal", "acp", "stream-json"]
"""A transport's name in a session's log."""

AGENT_TYPES = (
    "claude",
    "goose",
    "aider",
    "codex",
    "gemini",
    "copilot",
    "amp",
    "cursor",
    "auggie",
    "amazonq",
    "opencode",
    "pi",
    "custom",
)

_COMMANDS = {**{name: name for name in AGENT_TYPES}, "cursor-agent": "cursor", "q": "amazonq"}

# Programs that run a package, and the agents in these packages.
_RUNNERS = {"npx", "bunx", "uvx"}
_PACKAGES = {
    "@anthropic-ai/claude-code": "claude",
    "@openai/codex": "codex",
    "@google/gemini-cli": "gemini",
    "@github/copilot": "copilot",
    "@sourcegraph/amp": "amp",
    "@augmentcode/auggie": "auggie",
    "opencode-ai": "opencode",
    "@earendil-works/pi-coding-agent": "pi",
    "aider-chat": "aider",
}


def detect(command: str | Sequence[str], named: str = "") -> str:
    """The agent type of a command line, unless the user `named` one."""
    if named:
        if named not in _COMMANDS:
            raise UsageError(f"invalid agent type: {named}")
        return _COMMANDS[named]
    parts = command.split() if isinstance(command, str) else command
    words = [word for word in parts if not word.startswith("-")]
    program = words[0].rpartition("/")[2] if words else ""
    if program in _RUNNERS and len(words) > 1:
        return _of_package(words[1])
    return _COMMANDS.get(program, "custom")


def _of_package(package: str) -> str:
    name, at, _version = package.rpartition("@")
    unversioned = name if at and name else package
    return _PACKAGES.get(unversioned) or _COMMANDS.get(unversioned, "custom")


class Timing(msgspec.Struct, frozen=True):
    """How long things take on a screen, in seconds."""

    look_interval: float = 0.025
    # A frame counts as complete when nothing more arrived for `quiet`, or after `longest_frame` in any case.
    # A program that announces the beginning and end of a frame gets more time.
    quiet: float = 0.016
    longest_frame: float = 0.048
    longest_announced_frame: float = 0.150
    stability: float = 2.0
    # The echo of a message: looked for at growing intervals, then it must not change.
    echo_timeout: float = 2.0
    echo_first_poll: float = 0.050
    echo_longest_poll: float = 0.500
    echo_settle: float = 1.0
    # After Enter the screen has to change; Enter is repeated for programs that missed it.
    processing_timeout: float = 15.0
    processing_first_look: float = 0.025
    enter_again: float = 3.0
    # A message is accepted for a stable screen that may move again: it does not wait forever.
    longest_queued: float = 15.0
    # An agent whose input box is not known is ready when its screen has not changed for so long.
    ready_after: float = 10.0
    # A dialog: one that is announced need not stand still for long, one that cannot be read must for longer.
    announced_dialog: float = 0.2
    unreadable_dialog: float = 10.0
    # A key has to move the mark, and Enter has to close the dialog.
    dialog_key: float = 2.0
    dialog_closes: float = 5.0


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which agent to start, and how to drive it."""

    command: Sequence[str]
    cwd: Path
    transport: Transport = "pty"
    agent_type: str = ""
    """Detected from the command when empty."""
    environment: Mapping[str, str] = {}  # each struct gets its own
    initial_prompt: str = ""
    conversation: str = ""
    """Without a screen: the agent's own id of an earlier conversation to continue."""
    start_timeout: float = 60.0
    """Without a screen: seconds to start, since some agents update themselves first."""
    columns: int = 80
    rows: int = 1000
    ready_regex: str = ""
    ready_after: float | None = None
    emulator: str = ""
    timing: Timing = Timing()

    @property
    def type(self) -> str:
        return detect(self.command, self.agent_type)

    @property
    def stored_driver(self) -> StoredDriver:
        return "terminal" if self.transport == "pty" else self.transport


PROGRAMS = {name: name for name in AGENT_TYPES if name != "custom"} | {
    "amazonq": "q",
    "cursor": "cursor-agent",
}


class ConfiguredAgent(Protocol):
    """An agent as a user configures it; empty values follow from its name."""

    @property
    def command(self) -> tuple[str, ...]: ...
    @property
    def type(self) -> str: ...
    @property
    def transport(self) -> Transport: ...
    @property
    def description(self) -> str: ...


class AgentCommand(msgspec.Struct, frozen=True):
    """A command that the tool `agent` can start by name."""

    command: tuple[str, ...]
    type: str
    transport: Transport = "pty"
    description: str = ""


def agent_commands(
    configured: Mapping[str, ConfiguredAgent], *, with_installed: bool
) -> dict[str, AgentCommand]:
    """Agents by name. A configured agent wins over an installed one."""
    agents = {name: _configured(name, settings) for name, settings in configured.items()}
    if with_installed:
        for name, program in PROGRAMS.items():
            if name not in agents and find_program(program):
                agents[name] = AgentCommand((program,), name)
    return agents


def _configured(name: str, settings: ConfiguredAgent) -> AgentCommand:
    command = settings.command or (PROGRAMS.get(name, name),)
    try:
        agent_type = detect(command, settings.type)
    except UsageError as error:
        types = ", ".join(AGENT_TYPES)
        raise ConfigurationError(f"terminal_agents.{name}: {error.message}; the types are: {types}") from None
    return AgentCommand(command, agent_type, settings.transport, settings.description.strip())
