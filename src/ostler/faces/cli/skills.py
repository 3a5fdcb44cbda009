"""`ostler skills`: the skills that can be used here."""

from __future__ import annotations

from pathlib import Path

from ostler.context.skills import FILE, SKILL_FOLDERS, Skill, Skills
from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import one_line, table
from ostler.faces.cli.directory import short_path, working_directory
from ostler.faces.cli.saying import print_json, say
from ostler.runs.guidance import own_folder, skills_in

SKILL_HEADINGS = ("NAME", "BY", "FROM", "DESCRIPTION")


def skills_command(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler skills",
        description="Skills of this project and your own. A project's are used once you trust them. "
        "What is wrong with a file is said on standard error.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args(arguments)
    cwd = working_directory()
    skills = skills_in(cwd)
    if options.json:
        for name in sorted(skills.found):
            print_json(skills.found[name])
    else:
        for line in table(SKILL_HEADINGS, skill_rows(skills, cwd)):
            print(line)
    for notice in skill_notices(skills):
        say(notice)
    return 0


def skill_rows(skills: Skills, cwd: Path) -> list[tuple[str, ...]]:
    return [_skill_row(skills.found[name], cwd) for name in sorted(skills.found)]


def skill_notices(skills: Skills) -> list[str]:
    """What is wrong, or where skills would be found."""
    if skills.found or skills.notices:
        return [one_line(notice) for notice in skills.notices]
    own = own_folder() / "skills"
    places = f"{SKILL_FOLDERS[0]}/NAME/{FILE} here, or {own}/NAME/{FILE}"
    return [f"there are no skills; they are files like {places}"]


def _skill_row(skill: Skill, cwd: Path) -> tuple[str, ...]:
    by = "model, you" if skill.for_model else "you"
    return skill.name, by, one_line(short_path(Path(skill.source), cwd)), one_line(skill.description)
