"""`ostler agents`, `ostler skills` and `ostler prompts`: lists what is available in this directory."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Literal

import msgspec

from ostler.app.console import print_json, print_stderr, print_table
from ostler.app.options import Parser, add_json
from ostler.app.reports import (
    AGENT_HEADINGS,
    SKILL_HEADINGS,
    agent_notices,
    agent_rows,
    skill_notices,
    skill_rows,
)
from ostler.app.settings import load_settings, working_directory
from ostler.context.instructions import skills_in
from ostler.context.slash_commands import PROMPT_FOLDERS, PromptFile, PromptFiles, own_prompts, prompts_here
from ostler.drivers.agent_spec import agent_commands
from ostler.schema.errors import NotFound
from ostler.schema.text import one_line, printable
from ostler.sessions.agents import find_agents

OF_OTHER_VENDORS = ("OTHER VENDORS", "TYPE", "TRANSPORT", "COMMAND", "DESCRIPTION")


class OtherVendorsAgent(msgspec.Struct, frozen=True):
    """An agent of another vendor that the tool `agent` can start."""

    name: str
    description: str
    type: str
    transport: str
    command: tuple[str, ...]
    scope: Literal["terminal"] = "terminal"


def agents_command(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler agents",
        description="Lists subagents, from Markdown files of this project and your own, and the configured "
        "agents of other vendors. Problems with a file go to standard error.",
    )
    add_json(parser)
    about = "also agents of other vendors that are on PATH"
    parser.add_argument("--installed", action="store_true", help=about)
    options = parser.parse_args(arguments)
    cwd = working_directory()
    agents = find_agents(cwd)
    others = _of_other_vendors(cwd, with_installed=options.installed)
    if options.json:
        print_json(*(agents.by_name[name] for name in sorted(agents.by_name)), *others)
    else:
        print_table(AGENT_HEADINGS, agent_rows(agents, cwd))
        if agents.by_name and others:
            print()
        print_table(OF_OTHER_VENDORS, [_row_of_other(one) for one in others])
    for notice in agent_notices(agents) if agents.problems or not others else ():
        print_stderr(notice)
    return 0


def _of_other_vendors(cwd: Path, *, with_installed: bool) -> list[OtherVendorsAgent]:
    configured = load_settings(cwd, {}).settings.terminal_agents
    if not configured and not with_installed:
        return []
    agents = agent_commands(configured, with_installed=with_installed)
    return [
        OtherVendorsAgent(name, one.description, one.type, one.transport, one.command)
        for name, one in sorted(agents.items())
    ]


def _row_of_other(agent: OtherVendorsAgent) -> tuple[str, ...]:
    command = one_line(shlex.join(agent.command))
    return one_line(agent.name), agent.type, agent.transport, command, one_line(agent.description)


def skills_command(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler skills",
        description="Lists skills of this project and your own. A project's skills are used once you trust "
        "them. Problems with a file go to standard error.",
    )
    add_json(parser)
    options = parser.parse_args(arguments)
    cwd = working_directory()
    skills = skills_in(cwd)
    if options.json:
        print_json(*(skills.by_name[name] for name in sorted(skills.by_name)))
    else:
        print_table(SKILL_HEADINGS, skill_rows(skills, cwd))
    for notice in skill_notices(skills):
        print_stderr(notice)
    return 0


PROMPT_HEADINGS = ("USAGE", "FROM", "DESCRIPTION")


class _PromptRow(msgspec.Struct, frozen=True):
    name: str
    description: str
    usage: str
    scope: str
    source: str
    body: str


def prompts_command(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler prompts",
        description="Lists prompt templates, from Markdown files of this project and your own. "
        "`ostler -p /NAME WORD…` runs one. Problems with a file go to standard error.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    show = commands.add_parser("show", help="print the text of a template", prog="ostler prompts show")
    show.add_argument("name", metavar="NAME", help="its name, with or without the slash")
    add_json(parser)
    show.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object")
    options = parser.parse_args(arguments)
    cwd = working_directory()
    files = prompts_here(cwd)
    if options.command == "show":
        _show(_named(files, options.name.removeprefix("/")), as_json=options.json)
        return 0
    templates = [files.by_name[name] for name in sorted(files.by_name)]
    if options.json:
        print_json(*map(_listed, templates))
    else:
        rows = [(one.usage, _short(one.source, cwd), one.description) for one in templates]
        print_table(PROMPT_HEADINGS, [tuple(map(one_line, row)) for row in rows])
    for problem in files.problems:
        print_stderr(problem)
    if not files.by_name and not files.problems:
        own = own_prompts()
        print_stderr(f"there are no templates; create {PROMPT_FOLDERS[0]}/NAME.md here, or {own}/NAME.md")
    return 0


def _named(files: PromptFiles, name: str) -> PromptFile:
    if name in files.unusable:
        raise NotFound(files.unusable[name])
    if name not in files.by_name:
        names = ", ".join(sorted(files.by_name)) or "none"
        raise NotFound(f"there is no template {name!r}; the templates are: {names}")
    return files.by_name[name]


def _show(file: PromptFile, *, as_json: bool) -> None:
    if as_json:
        print_json(_listed(file))
        return
    print_stderr(f"{file.source}; usage: {file.usage}")
    print(printable(file.body))


def _listed(file: PromptFile) -> _PromptRow:
    return _PromptRow(file.name, file.description, file.usage, file.scope, file.source, file.body)


def _short(source: str, cwd: Path) -> str:
    path = Path(source)
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else source
