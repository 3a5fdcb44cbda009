"""`ostler agents`: the named agents that work here can be given to."""

from __future__ import annotations

from pathlib import Path

from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import one_line, table
from ostler.faces.cli.directory import short_path, working_directory
from ostler.faces.cli.saying import print_json, say
from ostler.runs.agents import INHERIT, PLACES, Agents, AgentSpec, find_agents
from ostler.runs.home import configuration_file

HEADINGS = ("NAME", "MODEL", "TOOLS", "FROM", "DESCRIPTION")


def run(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler agents",
        description="Named agents, from Markdown files of this project and your own. "
        "What is wrong with a file is said on standard error.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args(arguments)
    cwd = working_directory()
    agents = find_agents(cwd)
    if options.json:
        for name in sorted(agents.found):
            print_json(agents.found[name])
    else:
        for line in table(HEADINGS, rows_of(agents, cwd)):
            print(line)
    for notice in notices_of(agents):
        say(notice)
    return 0


def rows_of(agents: Agents, cwd: Path) -> list[tuple[str, ...]]:
    return [_row(agents.found[name], cwd) for name in sorted(agents.found)]


def notices_of(agents: Agents) -> list[str]:
    """What is wrong, or where agents would be found."""
    if agents.found or agents.problems:
        return [one_line(problem) for problem in agents.problems]
    own = configuration_file().parent / "agents"
    return [f"there are no agents; they are files like {PLACES[0]}/NAME.md here, or {own}/NAME.md"]


def _row(agent: AgentSpec, cwd: Path) -> tuple[str, ...]:
    return (
        agent.name,
        one_line(agent.model) or INHERIT,
        "all" if agent.tools is None else ",".join(agent.tools) or "none",
        one_line(short_path(Path(agent.source), cwd)),
        one_line(agent.description),
    )
