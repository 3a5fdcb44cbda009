"""`ostler prompts`: the prompt templates that `/name` stands for here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ostler.context.prompt_files import PROMPT_FOLDERS, PromptFile, PromptFiles, find_prompts
from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import one_line, printable, table
from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.saying import print_json, say
from ostler.runs.home import configuration_file
from ostler.runs.permission_memory import project_folder
from ostler.vocabulary.errors import NotFound

PROMPT_HEADINGS = ("USAGE", "FROM", "DESCRIPTION")


class _Listed(msgspec.Struct, frozen=True):
    name: str
    description: str
    usage: str
    scope: str
    source: str
    body: str


def prompts_command(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler prompts",
        description="Prompt templates, from Markdown files of this project and your own: "
        "`ostler -p /NAME WORD…` says one. What is wrong with a file is said on standard error.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    show = commands.add_parser("show", help="the text of a template", prog="ostler prompts show")
    show.add_argument("name", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    show.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="as a JSON object")
    options = parser.parse_args(arguments)
    cwd = working_directory()
    files = prompts_here(cwd)
    if options.command == "show":
        _show(_named(files, options.name.removeprefix("/")), as_json=options.json)
        return 0
    _list([files.found[name] for name in sorted(files.found)], cwd, as_json=options.json)
    for problem in files.problems:
        say(problem)
    if not files.found and not files.problems:
        own = own_prompts()
        say(f"there are no templates; they are files like {PROMPT_FOLDERS[0]}/NAME.md here, or {own}/NAME.md")
    return 0


def own_prompts() -> Path:
    return configuration_file().parent / "prompts"


def prompts_here(cwd: Path) -> PromptFiles:
    return find_prompts(cwd, project_folder(cwd), own_prompts())


def _named(files: PromptFiles, name: str) -> PromptFile:
    if name in files.unusable:
        raise NotFound(files.unusable[name])
    if name not in files.found:
        names = ", ".join(sorted(files.found)) or "none"
        raise NotFound(f"there is no template {name!r}; there is: {names}")
    return files.found[name]


def _show(file: PromptFile, *, as_json: bool) -> None:
    if as_json:
        print_json(_listed(file))
        return
    say(f"{file.source}; usage: {file.usage}")
    print(printable(file.body))


def _list(files: Sequence[PromptFile], cwd: Path, *, as_json: bool) -> None:
    if as_json:
        for one in files:
            print_json(_listed(one))
        return
    for line in table(PROMPT_HEADINGS, [_prompt_row(one, cwd) for one in files]):
        print(line)


def _listed(file: PromptFile) -> _Listed:
    return _Listed(file.name, file.description, file.usage, file.scope, file.source, file.body)


def _prompt_row(file: PromptFile, cwd: Path) -> tuple[str, ...]:
    return one_line(file.usage), one_line(_short(file, cwd)), one_line(file.description)


def _short(file: PromptFile, cwd: Path) -> str:
    source = Path(file.source)
    return str(source.relative_to(cwd)) if source.is_relative_to(cwd) else file.source
