"""`ostler permissions` and `ostler trust`: permission rules, and consent to a project's files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ostler.app.console import ask_person, has_terminal
from ostler.app.options import Parser
from ostler.app.remembered_rules import lines_of, revoke_rule, stored_rules
from ostler.app.settings import (
    PROJECT_FILE,
    ProjectFile,
    load_settings,
    project_paths,
    read_project_file,
    working_directory,
)
from ostler.context import skills
from ostler.context.files import Unusable, quoted_path
from ostler.context.instructions import skills_in
from ostler.extensions.loader.code_files import ProjectExtension
from ostler.extensions.loader.discovery import DiscoveredExtension, ExtensionSearch, find_extensions, kind_of
from ostler.permissions.guard import configured_rules, dry_run
from ostler.permissions.memory import remember
from ostler.permissions.rules import PROFILES, parse_rule
from ostler.permissions.trust import distrust, is_trusted, trust, trust_edits, trusted_folders
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.schema.text import one_line, plural
from ostler.sessions.agents import find_agents, project_of
from ostler.store.paths import PROJECT_EXTENSIONS, project_folder


def permissions_command(arguments: list[str]) -> int:
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")):
        arguments = ["list", *arguments]
    options = _permissions_parser().parse_args(arguments)
    options.command(options)
    return 0


def _permissions_parser() -> Parser:
    parser = Parser(
        prog="ostler permissions",
        description="Lists, adds, revokes and tests permission rules. A rule is TOOL or TOOL(PATTERN), such "
        "as bash(git status), edit(src/**) or fetch(example.com).",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    one = commands.add_parser("list", help="list the rules that apply in this directory (the default)")
    one.add_argument("--session", metavar="ID", default="", help="only rules of this session")
    one.add_argument("--json", action="store_true", help="print one JSON object per line")
    one.set_defaults(command=_list_permissions)
    for effect, about in (
        ("allow", "run matching calls without asking"),
        ("ask", "ask before matching calls run"),
        ("deny", "never run matching calls"),
    ):
        one = commands.add_parser(effect, help=about)
        one.add_argument("rule", metavar="RULE")
        scope = one.add_mutually_exclusive_group()
        scope.add_argument("--project", action="store_true", help="in this project only (default)")
        scope.add_argument("--user", action="store_true", help="everywhere")
        one.set_defaults(command=_add, effect=effect)
    one = commands.add_parser("revoke", help="remove a stored rule")
    one.add_argument("rule", metavar="RULE|NUMBER", help="as `ostler permissions` lists it")
    one.add_argument("--session", metavar="ID", default="", help="a rule of this session")
    one.set_defaults(command=_revoke)
    one = commands.add_parser("test", help="show whether a call would run, and why")
    one.add_argument("call", metavar="'TOOL: WHAT'", help="for example 'bash: git push' or 'edit: src/a.py'")
    one.add_argument("--permissions", choices=PROFILES, help="under this profile")
    one.add_argument("--json", action="store_true", help="print one JSON object")
    one.set_defaults(command=_test)
    return parser


def _list_permissions(options: argparse.Namespace) -> None:
    known = list(stored_rules(working_directory(), options.session))
    if options.json:
        for one in known:
            sys.stdout.buffer.write(msgspec.json.encode(one) + b"\n")
        return
    if not known:
        print("ostler: there are no rules here; only the profile applies", file=sys.stderr)
    for line in lines_of(known):
        print(line)


def _add(options: argparse.Namespace) -> None:
    project = None if options.user else project_folder(working_directory())
    parse_rule(options.rule, options.effect)
    is_new = remember(options.rule, options.effect, project)
    place = f"in {project}" if project else "everywhere"
    print(f"{options.effect} {one_line(options.rule)}, {place}{'' if is_new else ' (already stored)'}")


def _revoke(options: argparse.Namespace) -> None:
    known = list(stored_rules(working_directory(), options.session))
    if options.rule.isdecimal():
        chosen = [one for one in known if one.number == int(options.rule)]
    else:
        chosen = [one for one in known if one.rule == options.rule]
    if not chosen:
        raise UsageError(f"there is no rule {options.rule!r} here; see `ostler permissions list`")
    if len(chosen) > 1:
        numbers = ", ".join(str(one.number) for one in chosen)
        raise UsageError(f"there are several rules {options.rule}: give one of the numbers {numbers}")
    revoke_rule(chosen[0])
    print(f"revoked {chosen[0].effect} {one_line(chosen[0].rule)} ({chosen[0].scope})")


def _test(options: argparse.Namespace) -> None:
    tool, colon, what = options.call.partition(":")
    if not colon or not tool.strip() or not what.strip():
        raise UsageError("write the call as TOOL: WHAT, for example 'bash: git push'")
    cwd = working_directory()
    settings = load_settings(cwd, {"permissions": options.permissions}).settings
    rules = configured_rules(settings.allow, settings.ask, settings.deny)
    outcome = dry_run(tool.strip(), what.strip(), settings.permissions, rules, cwd)
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        return
    print(f"{outcome.verdict}{': ' if outcome.reason else ''}{one_line(outcome.reason)}")
    if outcome.parts:
        print(f"  because of {'; '.join(outcome.parts)}")
    for scope, offered in outcome.remember.items():
        print(f"  {scope} would remember {', '.join(map(one_line, offered))}")


SECRET = ("api_key", "headers")


def trust_command(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler trust",
        description=f"Shows what a project's {PROJECT_FILE}, extensions, agents and skills may do only with "
        "your consent, and gives it. Consent covers the files as they are now: a changed file needs it "
        "again.",
    )
    parser.add_argument("folder", metavar="DIR", nargs="?", help="the project (default: this directory)")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--remove", action="store_true", help="withdraw consent")
    choice.add_argument("--edits", action="store_true", help="trust its extensions even after they change")
    choice.add_argument("--list", action="store_true", help="list trusted folders")
    options = parser.parse_args(arguments)
    if options.list:
        if options.folder:
            parser.error("--list takes no directory")
        _list_trusted()
        return 0
    if options.remove:
        _remove(Path(options.folder or working_directory()).resolve())
    else:
        _consent(working_directory(options.folder), edits=options.edits)
    return 0


class Wanted(msgspec.Struct, frozen=True):
    """What a project's file needs consent for."""

    file: Path
    folder: Path
    """The project's, by which consent is withdrawn."""
    trusted: Path
    """The path that consent is stored under."""
    content: bytes
    lines: tuple[str, ...]
    does: str = "sets"


def _consent(folder: Path, *, edits: bool = False) -> None:
    project = read_project_file(folder)
    wanted = [
        *_wanted_by_project_file(project),
        *_wanted_by_extensions(folder),
        *_wanted_by_agents(folder),
        *_wanted_by_skills(folder),
    ]
    if project is None and not wanted and not edits:
        raise UsageError(
            f"there is no {PROJECT_FILE} in {folder} or the folders of its repository above it, "
            "and no extension, agent or skill that needs your consent"
        )
    if project is not None and not wanted and not edits:
        print(f"{project.path} sets nothing that needs your consent")
        return
    for one in wanted:
        print(f"{one.file} {one.does}:")
        for line in one.lines:
            print(f"  {line}")
    root = project_folder(folder)
    if edits:
        print(f"every extension in {root} may run, even after it changes, and new ones, too")
    if has_terminal() and not ask_person("do you trust it?"):
        print("nothing was changed")
        return
    for one in wanted:
        trust(one.trusted, one.content)
    if edits:
        trust_edits(root)
    for trusted in dict.fromkeys([*(one.folder for one in wanted), *([root] if edits else ())]):
        print(f"trusted; `ostler trust --remove {quoted_path(trusted)}` withdraws it")


def _wanted_by_project_file(project: ProjectFile | None) -> Iterator[Wanted]:
    if project is None or not project.risky:
        return
    folder = project.path.parent
    lines = (line for name in sorted(project.risky) for line in _lines(name, name, project.values[name]))
    yield Wanted(project.path, folder, folder, project.content, tuple(lines))


def _wanted_by_extensions(folder: Path) -> Iterator[Wanted]:
    for one in extensions_to_trust(folder):
        if one.is_trusted:
            continue
        found = one.candidate
        assert found.project is not None
        lines = tuple(one_line(line) for line in one.lines())
        yield Wanted(found.path, found.project, found.path, one.content, lines, "runs with your rights")


def _wanted_by_agents(folder: Path) -> Iterator[Wanted]:
    for one in find_agents(folder).models_to_trust:
        yield Wanted(
            one.path, project_of(one.path), one.path, one.content, (f"{one.field} = {one_line(one.model)}",)
        )


def _wanted_by_skills(folder: Path) -> Iterator[Wanted]:
    for one in skills_in(folder).to_trust:
        rest = f"{plural(len(one.content.splitlines()), 'line')} in all, read when the skill is used"
        lines = (f"{one.name}: {one_line(one.description)}", rest)
        project = skills.project_of(one.path)
        yield Wanted(one.path, project, one.path, one.content, lines, "tells the model")


def _lines(path: str, name: str, value: Any) -> Iterator[str]:
    """A line for each value, with its full name."""
    if isinstance(value, dict) and name not in SECRET:
        for inner, one in value.items():
            yield from _lines(f"{path}.{inner}", inner, one)
    else:
        yield f"{one_line(path)} = {_shown(name, value)}"


def _shown(name: str, value: Any) -> str:
    if name in SECRET:
        return "(a key, not shown)" if name == "api_key" else "(not shown)"
    text = str(value)
    if name == "base_url" and "@" in text:
        before, _, after = text.rpartition("@")
        text = f"{before.partition('//')[0]}//(password, not shown)@{after}"
    return one_line(text)


def _remove(folder: Path) -> None:
    """Withdraws consent from the folder or its project, even if its file is gone."""
    trusted = [Path(name) for name in trusted_folders()]
    for candidate in (folder, *folder.parents):
        if given := [one for one in trusted if candidate in (one, *_projects_of(one))]:
            for one in given:
                distrust(one)
            print(f"{candidate} is no longer trusted")
            return
    print(f"ostler: {folder} was not trusted", file=sys.stderr)


def _projects_of(path: Path) -> tuple[Path, ...]:
    """The folders by which consent for a path is withdrawn, besides the path itself."""
    if _is_text(path):
        is_skill = path.parent.parent.name == "skills"
        return (skills.project_of(path) if is_skill else project_of(path),)
    if not _is_extension(path):
        return ()
    around = [one.parent for one in path.parents if one.name == PROJECT_EXTENSIONS.parts[0]]
    return (*around, project_folder(path.parent))


def _is_extension(path: Path) -> bool:
    if path.suffix == ".py" or PROJECT_EXTENSIONS.parts[0] in path.parts:
        return True
    return kind_of(path) is not None and not (path / PROJECT_FILE).is_file()


def _is_text(path: Path) -> bool:
    """Whether it is an agent or a skill, rather than a folder or an extension."""
    return path.suffix == ".md" and not path.is_dir()


def _list_trusted() -> None:
    for folder in trusted_folders():
        print(f"{folder}{_note(Path(folder))}")


def _note(folder: Path) -> str:
    if _is_text(folder):
        return _note_on_text(folder)
    if folder.parts[-2:] == PROJECT_EXTENSIONS.parts:
        return "  (even after changes)"
    if _is_extension(folder):
        return _note_on_extension(folder)
    try:
        project: ProjectFile | None = read_project_file(folder)
    except ConfigurationError:
        return "  (changed since)"
    if project is None or project.path.parent != folder:
        return f"  (has no {PROJECT_FILE} any more)"
    return "" if is_trusted(folder, project.content) else "  (changed since)"


def _note_on_extension(path: Path) -> str:
    kind = kind_of(path)
    if kind is None:
        return "  (is not an extension any more)"
    try:
        files = ProjectExtension(DiscoveredExtension(path.name, "project", path, kind, project=path.parent))
    except Unusable:
        return "  (changed since)"
    return "" if is_trusted(path, files.content) else "  (changed since)"


def _note_on_text(file: Path) -> str:
    try:
        return "" if is_trusted(file, file.read_bytes()) else "  (changed since)"
    except OSError:
        return "  (cannot be read)"


def extensions_to_trust(cwd: Path) -> list[ProjectExtension]:
    """The usable extensions of a project, trusted or not."""
    wanted = project_paths(cwd)
    found: list[ProjectExtension] = []
    for one in find_extensions(ExtensionSearch(cwd, configured=tuple(wanted), of_project=wanted)):
        if one.project is not None and not one.problem:
            with suppress(Unusable):
                found.append(ProjectExtension(one))
    return found
