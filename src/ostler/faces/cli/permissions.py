"""`ostler permissions`: what may run without asking, what was remembered, and how to take it back."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import aligned, one_line
from ostler.faces.cli.directory import working_directory
from ostler.runs.home import configuration_file, store_file
from ostler.runs.permission_memory import forget, project_folder, read_memory, remember
from ostler.runs.settings import RULES, load_settings, read_project_file, read_user_file
from ostler.runs.trust import is_trusted
from ostler.tools.permission_rules import parse_rule
from ostler.tools.permissions import PROFILES
from ostler.vocabulary.errors import NotFound, UsageError

NEWEST_SESSIONS = 20

Scope = Literal["configuration", "user", "project", "session"]


class Known(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule that counts here, and where it is kept."""

    number: int
    effect: str
    rule: str
    scope: Scope
    where: str
    note: str = ""


def permissions_command(arguments: list[str]) -> int:
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")):
        arguments = ["list", *arguments]
    options = _permissions_parser().parse_args(arguments)
    options.command(options)
    return 0


def _permissions_parser() -> Parser:
    parser = Parser(
        prog="ostler permissions",
        description="Rules for what may run: list, add, take back and try them. A rule is TOOL or "
        "TOOL(PATTERN), such as bash(git status), edit(src/**) or fetch(example.com).",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    one = commands.add_parser("list", help="list the rules that count in this directory (the default)")
    one.add_argument("--session", metavar="ID", default="", help="only those of this session")
    one.add_argument("--json", action="store_true", help="one JSON object a line")
    one.set_defaults(command=_list_permissions)
    for effect, about in (
        ("allow", "let it run without asking"),
        ("ask", "ask a person before it runs"),
        ("deny", "never let it run"),
    ):
        one = commands.add_parser(effect, help=about)
        one.add_argument("rule", metavar="RULE")
        scope = one.add_mutually_exclusive_group()
        scope.add_argument("--project", action="store_true", help="in this project only (default)")
        scope.add_argument("--user", action="store_true", help="everywhere")
        one.set_defaults(command=_add, effect=effect)
    one = commands.add_parser("revoke", help="take a rule back that was remembered")
    one.add_argument("rule", metavar="RULE|NUMBER", help="as `ostler permissions` lists it")
    one.add_argument("--session", metavar="ID", default="", help="one of this session")
    one.set_defaults(command=_revoke)
    one = commands.add_parser("test", help="say what would happen to a call, and why")
    one.add_argument("call", metavar="'TOOL: WHAT'", help="for example 'bash: git push' or 'edit: src/a.py'")
    one.add_argument("--permissions", choices=PROFILES, help="under this profile")
    one.add_argument("--json", action="store_true", help="as a JSON object")
    one.set_defaults(command=_test)
    return parser


def _list_permissions(options: argparse.Namespace) -> None:
    known = list(known_rules(working_directory(), options.session))
    if options.json:
        for one in known:
            sys.stdout.buffer.write(msgspec.json.encode(one) + b"\n")
        return
    if not known:
        print("ostler: there are no rules here; the profile alone decides", file=sys.stderr)
    for line in lines_of(known):
        print(line)


def lines_of(known: Sequence[Known]) -> list[str]:
    rows = [
        (str(one.number), one.effect, one_line(one.rule), one.scope, one_line(one.where), one.note)
        for one in known
    ]
    return list(aligned(rows)) if rows else []


def known_rules(cwd: Path, session: str) -> Iterator[Known]:
    found = _of_session(cwd, session) if session else _all(cwd)
    for number, (effect, rule, scope, where, note) in enumerate(found, 1):
        yield Known(number, effect, rule, scope, where, note)


KnownRule = tuple[str, str, Scope, str, str]


def _all(cwd: Path) -> Iterator[KnownRule]:
    project = project_folder(cwd)
    memory = read_memory()
    for one in memory.user:
        yield one.effect, one.rule, "user", "", ""
    for one in memory.of(project):
        yield one.effect, one.rule, "project", str(project), ""
    yield from _of_session(cwd, "")
    for effect in RULES:
        for rule in read_user_file().get(effect, ()):
            yield effect, rule, "configuration", str(configuration_file()), ""
    if (file := read_project_file(cwd)) is None:
        return
    is_ignored = not is_trusted(file.path.parent, file.content)
    for effect in RULES:
        note = "(ignored until `ostler trust`)" if effect == "allow" and is_ignored else ""
        for rule in file.values.get(effect, ()):
            yield effect, rule, "configuration", str(file.path), note


def _of_session(cwd: Path, session: str) -> Iterator[KnownRule]:
    if not store_file().exists():
        if session:
            raise NotFound(f"there is no session {session}")
        return
    for name, permissions in asyncio.run(_remembered_in_sessions(cwd, session)):
        for rule, effect in permissions.items():
            yield effect, rule, "session", name, ""


async def _remembered_in_sessions(cwd: Path, session: str) -> list[tuple[str, dict[str, str]]]:
    from ostler.kernel.state import fold
    from ostler.runs.stores import find_session, open_store

    store = open_store()
    try:
        if session:
            names = [await find_session(store, session)]
        else:
            names = [one.id for one in await store.sessions(cwd=str(cwd), limit=NEWEST_SESSIONS)]
        return [(name, fold(await store.read_opening(name)).permissions) for name in names]
    finally:
        await store.close()


def _add(options: argparse.Namespace) -> None:
    project = None if options.user else project_folder(working_directory())
    parse_rule(options.rule, options.effect)
    is_new = remember(options.rule, options.effect, project)
    place = f"in {project}" if project else "everywhere"
    print(f"{options.effect} {one_line(options.rule)}, {place}{'' if is_new else ' (was known)'}")


def _revoke(options: argparse.Namespace) -> None:
    known = list(known_rules(working_directory(), options.session))
    if options.rule.isdecimal():
        chosen = [one for one in known if one.number == int(options.rule)]
    else:
        chosen = [one for one in known if one.rule == options.rule]
    if not chosen:
        raise UsageError(
            f"there is no rule {options.rule!r} here; `ostler permissions` lists those there are"
        )
    if len(chosen) > 1:
        numbers = ", ".join(str(one.number) for one in chosen)
        raise UsageError(f"{options.rule} is there several times: say which of the numbers {numbers}")
    take_back(chosen[0])
    print(f"revoked {chosen[0].effect} {one_line(chosen[0].rule)} ({chosen[0].scope})")


def take_back(one: Known) -> None:
    if one.scope == "configuration":
        raise UsageError(f"{one.rule} is set in {one.where}: remove it there")
    if one.scope == "session":
        asyncio.run(_take_back_in_session(one.where, one.rule))
    else:
        forget(one.rule, Path(one.where) if one.scope == "project" else None)


async def _take_back_in_session(session: str, rule: str) -> None:
    """By its holder, if it has one; else here."""
    from ostler.faces.cli.requesting import ask_session, new_request_id
    from ostler.runs.stores import open_store
    from ostler.vocabulary.requests import RevokePermission

    store = open_store()
    try:
        await ask_session(store, session, RevokePermission(id=new_request_id(), by="cli", rule=rule))
    finally:
        await store.close()


def _test(options: argparse.Namespace) -> None:
    from ostler.runs.permissions import tried

    tool, colon, what = options.call.partition(":")
    if not colon or not tool.strip() or not what.strip():
        raise UsageError("say the call as TOOL: WHAT, for example 'bash: git push'")
    cwd = working_directory()
    loaded = load_settings(cwd, {"permissions": options.permissions})
    outcome = tried(tool.strip(), what.strip(), loaded.settings, cwd)
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        return
    print(f"{outcome.verdict}{': ' if outcome.reason else ''}{one_line(outcome.reason)}")
    if outcome.parts:
        print(f"  because of {'; '.join(outcome.parts)}")
    for scope, rules in outcome.remember.items():
        print(f"  {scope} would remember {', '.join(map(one_line, rules))}")
