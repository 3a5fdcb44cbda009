"""`ostler permissions` and `ostler trust`: permission rules, and consent to a project's files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ostler.app.console import ask_consent, has_terminal, print_json, print_lines, print_stderr
from ostler.app.options import Parser, add_json, command_adder, default_to_list
from ostler.app.question_queue import WIDER
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
    options = _permissions_parser().parse_args(default_to_list(arguments))
    options.command(options)
    return 0


def _permissions_parser() -> Parser:
    parser = Parser(
        prog="ostler permissions",
        description="Lists, adds, revokes and tests permission rules. A rule is TOOL or TOOL(PATTERN), such "
        "as bash(git status), edit(src/**) or fetch(example.com).",
    )
    add = command_adder(parser)
    one = add("list", "list the rules that apply in this directory (the default)", _list_permissions)
    one.add_argument("--session", metavar="ID", default="", help="only rules of this session")
    add_json(one)
    for effect, about in (
        ("allow", "run matching calls without asking"),
        ("ask", "ask before matching calls run"),
        ("deny", "never run matching calls"),
    ):
        one = add(effect, about, _add)
        one.add_argument("rule", metavar="RULE", help="TOOL or TOOL(PATTERN)")
        scope = one.add_mutually_exclusive_group()
        scope.add_argument("--project", action="store_true", help="in this project only (default)")
        scope.add_argument("--user", action="store_true", help="everywhere")
        one.set_defaults(effect=effect)
    one = add("revoke", "remove a stored rule", _revoke)
    one.add_argument("rule", metavar="RULE|NUMBER", help="as `ostler permissions` lists it")
    one.add_argument("--session", metavar="ID", default="", help="a rule of this session")
    one = add("test", "show whether a call would run, and why", _test)
    one.add_argument("call", metavar="'TOOL: WHAT'", help="for example 'bash: git push' or 'edit: src/a.py'")
    one.add_argument("--permissions", choices=PROFILES, help="under this profile")
    add_json(one, "print one JSON object")
    return parser


def _list_permissions(options: argparse.Namespace) -> None:
    rules = list(stored_rules(working_directory(), options.session))
    if options.json:
        print_json(*rules)
        return
    if not rules:
        print_stderr("there are no rules here; only the profile applies")
    print_lines(lines_of(rules))


def _add(options: argparse.Namespace) -> None:
    project = None if options.user else project_folder(working_directory())
    parse_rule(options.rule, options.effect)
    is_new = remember(options.rule, options.effect, project)
    place = f"in {project}" if project else "everywhere"
    print(f"{options.effect} {one_line(options.rule)}, {place}{'' if is_new else ' (already stored)'}")


def _revoke(options: argparse.Namespace) -> None:
    rules = stored_rules(working_directory(), options.session)
    if options.rule.isdecimal():
        matches = [one for one in rules if one.number == int(options.rule)]
    else:
        matches = [one for one in rules if one.rule == options.rule]
    if not matches:
        raise UsageError(f"there is no rule {options.rule!r} here; see `ostler permissions list`")
    if len(matches) > 1:
        numbers = ", ".join(str(one.number) for one in matches)
        raise UsageError(f"there are several rules {options.rule}: give one of the numbers {numbers}")
    revoke_rule(matches[0])
    print(f"revoked {matches[0].effect} {one_line(matches[0].rule)} ({matches[0].scope})")


def _test(options: argparse.Namespace) -> None:
    tool, colon, what = options.call.partition(":")
    if not colon or not tool.strip() or not what.strip():
        raise UsageError("write the call as TOOL: WHAT, for example 'bash: git push'")
    cwd = working_directory()
    settings = load_settings(cwd, {"permissions": options.permissions}).settings
    rules = configured_rules(settings.allow, settings.ask, settings.deny)
    outcome = dry_run(tool.strip(), what.strip(), settings.permissions, rules, cwd)
    if options.json:
        print_json(outcome)
        return
    print(f"{outcome.verdict}{': ' if outcome.reason else ''}{one_line(outcome.reason)}")
    for cause in outcome.causes or outcome.parts:
        print(f"  because of {one_line(cause)}")
    for scope, offered in outcome.remember.items():
        print(f"  {scope} would remember {', '.join(map(one_line, offered))}")
    for scope, offered in outcome.remember_wider.items():
        print(f"  {scope}{WIDER} would remember {', '.join(map(one_line, offered))}")


SECRET = ("api_key", "headers")


def trust_command(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler trust",
        description=f"Shows what a project's {PROJECT_FILE}, extensions, agents and skills may only do with "
        "your consent, and asks for it. A file that changes later needs your consent again.",
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
        print_lines(f"{folder}{_note(Path(folder))}" for folder in trusted_folders())
    elif options.remove:
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
    wanted = [*_wanted_by_project_file(project), *_wanted_by_extensions(folder), *_wanted_by_texts(folder)]
    if project is None and not wanted and not edits:
        raise UsageError(
            f"there is no {PROJECT_FILE} in {folder} or the folders of its repository above it, "
            "and no extension, agent or skill that needs your consent"
        )
    if project is not None and not wanted and not edits:
        print(f"{project.path} sets nothing that needs your consent")
        return
    for one in wanted:
        print_lines([f"{one.file} {one.does}:", *(f"  {line}" for line in one.lines)])
    root = project_folder(folder)
    if edits:
        print(f"every extension in {root} may run, even after it changes, and new ones, too")
    if has_terminal() and not ask_consent("do you trust it?"):
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
        path, project = one.candidate.path, one.candidate.project
        if project is not None and not one.is_trusted:
            lines = tuple(one_line(line) for line in one.lines())
            yield Wanted(path, project, path, one.content, lines, "runs with your rights")


def _wanted_by_texts(folder: Path) -> Iterator[Wanted]:
    """Agents and skills."""
    for agent in find_agents(folder).models_to_trust:
        lines: tuple[str, ...] = (f"{agent.field} = {one_line(agent.model)}",)
        yield Wanted(agent.path, project_of(agent.path), agent.path, agent.content, lines)
    for skill in skills_in(folder).to_trust:
        size = f"{plural(len(skill.content.splitlines()), 'line')} in all, read when the skill is used"
        lines = (f"{skill.name}: {one_line(skill.description)}", size)
        project = skills.project_of(skill.path)
        yield Wanted(skill.path, project, skill.path, skill.content, lines, "tells the model")


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
        if matches := [one for one in trusted if candidate in (one, *_projects_of(one))]:
            for one in matches:
                distrust(one)
            print(f"{candidate} is no longer trusted")
            return
    print_stderr(f"{folder} was not trusted")


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


def _note(path: Path) -> str:
    if path.parts[-2:] == PROJECT_EXTENSIONS.parts:
        return "  (even after changes)"
    try:
        if _is_text(path):
            content = path.read_bytes()
        elif _is_extension(path):
            if (kind := kind_of(path)) is None:
                return "  (is no longer an extension)"
            extension = DiscoveredExtension(path.name, "project", path, kind, project=path.parent)
            content = ProjectExtension(extension).content
        else:
            project = read_project_file(path)
            if project is None or project.path.parent != path:
                return f"  (no longer has an {PROJECT_FILE})"
            content = project.content
    except OSError:
        return "  (cannot be read)"
    except (ConfigurationError, Unusable):
        return "  (changed since)"
    return "" if is_trusted(path, content) else "  (changed since)"


def extensions_to_trust(cwd: Path) -> list[ProjectExtension]:
    """The usable extensions of a project, trusted or not."""
    paths = project_paths(cwd)
    extensions: list[ProjectExtension] = []
    for one in find_extensions(ExtensionSearch(cwd, configured=tuple(paths), of_project=paths)):
        if one.project is not None and not one.problem:
            with suppress(Unusable):
                extensions.append(ProjectExtension(one))
    return extensions
