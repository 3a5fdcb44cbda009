"""`ostler skills`: the skills that can be used here."""

from __future__ import annotations

from pathlib import Path

from ostler.context.skills import FILE, PLACES, Skill
from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import one_line, table
from ostler.faces.cli.directory import short_path, working_directory
from ostler.faces.cli.saying import print_json, say
from ostler.runs.guidance import own_folder, skills_in

HEADINGS = ("NAME", "BY", "FROM", "DESCRIPTION")


def run(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler skills",
        description="Skills of this project and your own. A project's are used once you trust them. "
        "What is wrong with a file is said on standard error.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args(arguments)
    cwd = working_directory()
    skills = skills_in(cwd)
    found = [skills.found[name] for name in sorted(skills.found)]
    if options.json:
        for one in found:
            print_json(one)
    else:
        for line in table(HEADINGS, [_row(one, cwd) for one in found]):
            print(line)
    for notice in skills.notices:
        say(one_line(notice))
    if not found and not skills.notices:
        own = own_folder() / "skills"
        places = f"{PLACES[0]}/NAME/{FILE} here, or {own}/NAME/{FILE}"
        say(f"there are no skills; they are files like {places}")
    return 0


def _row(skill: Skill, cwd: Path) -> tuple[str, ...]:
    by = "model, you" if skill.for_model else "you"
    return skill.name, by, one_line(short_path(Path(skill.source), cwd)), one_line(skill.description)
