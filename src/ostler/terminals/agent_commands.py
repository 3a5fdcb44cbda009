"""The agents of other vendors that the tool `agent` can start by name: those configured, those installed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ostler.runs.settings import TerminalAgentSettings
from ostler.terminals.agent_types import AGENT_TYPES, detect
from ostler.terminals.driven import Transport
from ostler.tools.programs import find_program
from ostler.vocabulary.errors import ConfigurationError, UsageError

PROGRAMS = {name: name for name in AGENT_TYPES if name != "custom"} | {
    "amazonq": "q",
    "cursor": "cursor-agent",
}


class AgentCommand(msgspec.Struct, frozen=True):
    """What is started, and how its screen is read."""

    command: tuple[str, ...]
    type: str
    transport: Transport = "pty"
    description: str = ""


def agent_commands(
    configured: Mapping[str, TerminalAgentSettings], *, with_installed: bool
) -> dict[str, AgentCommand]:
    """By name. What is configured goes before what is installed."""
    found = {name: _configured(name, settings) for name, settings in configured.items()}
    if with_installed:
        for name, program in PROGRAMS.items():
            if name not in found and find_program(program):
                found[name] = AgentCommand((program,), name)
    return found


def _configured(name: str, settings: TerminalAgentSettings) -> AgentCommand:
    command = settings.command or (PROGRAMS.get(name, name),)
    try:
        agent_type = detect(command, settings.type)
    except UsageError as error:
        known = ", ".join(AGENT_TYPES)
        raise ConfigurationError(f"terminal_agents.{name}: {error.message}; the types are: {known}") from None
    return AgentCommand(command, agent_type, settings.transport, settings.description.strip())
