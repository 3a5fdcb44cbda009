"""`ostler agents`: the named agents that work here can be given to, and those of other vendors."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

import msgspec

from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import one_line, table
from ostler.faces.cli.directory import short_path, working_directory
from ostler.faces.cli.saying import print_json, say
from ostler.runs.agents import AGENT_FOLDERS, INHERIT, Agents, AgentSpec, find_agents
from ostler.runs.home import configuration_file
from ostler.runs.settings import load_settings

AGENT_HEADINGS = ("NAME", "MODEL", "TOOLS", "FROM", "DESCRIPTION")
OF_OTHER_VENDORS = ("OTHER VENDORS", "TYPE", "TRANSPORT", "COMMAND", "DESCRIPTION")


class OtherVendorsAgent(msgspec.Struct, frozen=True, kw_only=True):
    """One that the tool `agent` can start by its name."""

    name: str
    description: str
    type: str
    transport: str
    command: tuple[str, ...]
    scope: Literal["terminal"] = "terminal"


def agents_command(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler agents",
        description="Named agents, from Markdown files of this project and your own; then those of other "
        "vendors that are configured. What is wrong with a file is said on standard error.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--installed", action="store_true", help="also other vendors' that are on PATH")
    options = parser.parse_args(arguments)
    cwd = working_directory()
    agents = find_agents(cwd)
    others = _of_other_vendors(cwd, with_installed=options.installed)
    if options.json:
        for one in (*(agents.found[name] for name in sorted(agents.found)), *others):
            print_json(one)
    else:
        for line in table(AGENT_HEADINGS, agent_rows(agents, cwd)):
            print(line)
        if agents.found and others:
            print()
        for line in table(OF_OTHER_VENDORS, [_row_of_other(one) for one in others]):
            print(line)
    for notice in agent_notices(agents) if agents.problems or not others else ():
        say(notice)
    return 0


def _of_other_vendors(cwd: Path, *, with_installed: bool) -> list[OtherVendorsAgent]:
    configured = load_settings(cwd, {}).settings.terminal_agents
    if not configured and not with_installed:
        return []
    from ostler.terminals.agent_commands import agent_commands

    found = agent_commands(configured, with_installed=with_installed)
    return [
        OtherVendorsAgent(
            name=name,
            description=one.description,
            type=one.type,
            transport=one.transport,
            command=one.command,
        )
        for name, one in sorted(found.items())
    ]


def agent_rows(agents: Agents, cwd: Path) -> list[tuple[str, ...]]:
    return [_agent_row(agents.found[name], cwd) for name in sorted(agents.found)]


def agent_notices(agents: Agents) -> list[str]:
    """What is wrong, or where agents would be found."""
    if agents.found or agents.problems:
        return [one_line(problem) for problem in agents.problems]
    own = configuration_file().parent / "agents"
    return [f"there are no agents; they are files like {AGENT_FOLDERS[0]}/NAME.md here, or {own}/NAME.md"]


def _agent_row(agent: AgentSpec, cwd: Path) -> tuple[str, ...]:
    return (
        agent.name,
        one_line(agent.model) or INHERIT,
        "all" if agent.tools is None else ",".join(agent.tools) or "none",
        one_line(short_path(Path(agent.source), cwd)),
        one_line(agent.description),
    )


def _row_of_other(agent: OtherVendorsAgent) -> tuple[str, ...]:
    command = one_line(shlex.join(agent.command))
    return one_line(agent.name), agent.type, agent.transport, command, one_line(agent.description)
