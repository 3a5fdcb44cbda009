"""Which agent a command starts: the name decides how its screen is read."""
# MERGED: The agents of other vendors that the tool `agent` can start by name: those configured, those
# MERGED: installed.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from ostler.core.processes import find_program
from ostler.schema.errors import ConfigurationError, UsageError

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


_COMMANDS = {
    **{name: name for name in AGENT_TYPES},
    "cursor-agent": "cursor",
    "q": "amazonq",
}


# Programs that start another one, and what the packages they are given contain.
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
    """The agent type of a command line; `named` is what the user called it, and wins."""
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


PROGRAMS = {name: name for name in AGENT_TYPES if name != "custom"} | {
    "amazonq": "q",
    "cursor": "cursor-agent",
}


class ConfiguredAgent(Protocol):
    """An agent as a user configures it; what is empty is found by its name."""

    @property
    def command(self) -> tuple[str, ...]: ...
    @property
    def type(self) -> str: ...
    @property
    def transport(self) -> Transport: ...
    @property
    def description(self) -> str: ...


class AgentCommand(msgspec.Struct, frozen=True):
    """What is started, and how its screen is read."""

    command: tuple[str, ...]
    type: str
    transport: Transport = "pty"
    description: str = ""


def agent_commands(
    configured: Mapping[str, ConfiguredAgent], *, with_installed: bool
) -> dict[str, AgentCommand]:
    """By name. What is configured goes before what is installed."""
    found = {name: _configured(name, settings) for name, settings in configured.items()}
    if with_installed:
        for name, program in PROGRAMS.items():
            if name not in found and find_program(program):
                found[name] = AgentCommand((program,), name)
    return found


def _configured(name: str, settings: ConfiguredAgent) -> AgentCommand:
    command = settings.command or (PROGRAMS.get(name, name),)
    try:
        agent_type = detect(command, settings.type)
    except UsageError as error:
        known = ", ".join(AGENT_TYPES)
        raise ConfigurationError(f"terminal_agents.{name}: {error.message}; the types are: {known}") from None
    return AgentCommand(command, agent_type, settings.transport, settings.description.strip())


Transport = Literal["pty", "acp", "stream-json"]
