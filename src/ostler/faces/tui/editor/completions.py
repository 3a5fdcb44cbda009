"""What can be completed where the cursor stands: a command, what comes behind it, or a mentioned path."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from ostler.context.markdown_code import outside_code
from ostler.faces.completing import fuzzy
from ostler.faces.completing.command_entries import CommandEntry
from ostler.faces.completing.mention_text import mention_of
from ostler.faces.completing.project_files import Found
from ostler.faces.tui.editor.shell_line import shell_line

MOST_ARGUMENTS = 100

_COMMAND = re.compile(r"\s*(/([A-Za-z0-9_.:?-]*))")
_MENTION = re.compile(r'(?<![A-Za-z0-9_.+\-/@\\%=&])@(?:"((?:[^"\\\n]|\\["\\])*)|((?:[^\s"\\]|\\[^\n])*))\Z')
_REST_OF_WORD = re.compile(r"""(?:[^\s"\\)\]}>,;!?']|\\[^\n])*""")
"""What closes a bracket or a sentence is not a part of the path that is replaced."""
_REST_OF_QUOTED = re.compile(r'(?:(?:[^"\\\n]|\\["\\])*")?')

CompleteArguments = Callable[[str, str], Awaitable[Sequence[str]]]
"""Given a command's name and what is typed behind it: all of what could stand there instead."""
SearchFiles = Callable[[str], Awaitable[Sequence[Found]]]
"""`ProjectFiles.search`, in a thread."""


class Wanted(msgspec.Struct, frozen=True):
    """What stands at the cursor. `begin` to `end` is what a completion replaces."""

    kind: Literal["command", "argument", "path"]
    query: str
    """What is typed of it, up to the cursor."""
    begin: int
    end: int
    command: str = ""
    """Whose argument it is."""


class Completion(msgspec.Struct, frozen=True):
    text: str
    """What is put in place of the range."""
    shown: str
    positions: tuple[int, ...] = ()
    """The letters of `shown` that matched."""
    description: str = ""
    cursor: int = 0
    """Where the cursor stands afterwards, counted from the beginning of the range."""


class Completions(msgspec.Struct, frozen=True):
    wanted: Wanted
    items: tuple[Completion, ...]


def wanted_at(text: str, cursor: int) -> Wanted | None:
    """None where there is nothing to complete: in a shell's line, in code, in plain words."""
    if shell_line(text):
        return None
    return _mention_at(text, cursor) or _command_at(text, cursor)


async def completions_at(
    text: str,
    cursor: int,
    commands: Sequence[CommandEntry],
    complete_arguments: CompleteArguments,
    search_files: SearchFiles,
) -> Completions | None:
    """None where there is nothing to choose from."""
    wanted = wanted_at(text, cursor)
    if wanted is None:
        return None
    following = text[wanted.end : wanted.end + 1]
    match wanted.kind:
        case "command":
            items = _commands(wanted.query, commands, following)
        case "argument":
            items = _arguments(wanted.query, await complete_arguments(wanted.command, wanted.query))
        case "path":
            items = [_path(found, following) for found in await search_files(wanted.query)]
    return Completions(wanted, tuple(items)) if items else None


def _mention_at(text: str, cursor: int) -> Wanted | None:
    mention = _MENTION.search(text, 0, cursor)
    if mention is None or not any(begin <= mention.start() < end for begin, end in outside_code(text)):
        return None
    quoted, plain = mention.groups()
    rest = (_REST_OF_WORD if quoted is None else _REST_OF_QUOTED).match(text, cursor)
    assert rest is not None
    query = re.sub(r"\\(.)", r"\1", plain if quoted is None else quoted)
    return Wanted("path", query, mention.start(), rest.end())


def _command_at(text: str, cursor: int) -> Wanted | None:
    command = _COMMAND.match(text)
    if command is None or cursor <= command.start(1):
        return None
    begin, end = command.span(1)
    if cursor <= end:
        is_whole = text[end : end + 1] in ("", " ", "\n", "\t")
        return Wanted("command", text[begin + 1 : cursor], begin, end) if is_whole else None
    if not text[end].isspace():
        return None
    typed = text[end:cursor]
    query = typed.lstrip(" \t")
    if "\n" in typed:
        return None
    return Wanted("argument", query, cursor - len(query), cursor, command[2])


def _commands(query: str, commands: Sequence[CommandEntry], following: str) -> list[Completion]:
    """By name; one that is only found by an alias says so."""
    names = [(one, name) for one in commands for name in (one.name, *one.aliases)]
    best: dict[str, Completion] = {}
    for found in _in_order(query, [name for _, name in names]):
        command, name = names[found.place]
        if name == command.name or command.name not in best:
            best[command.name] = _command(command, name, found.match.positions, following)
    return list(best.values())


def _in_order(query: str, names: Sequence[str]) -> Sequence[fuzzy.Ranked]:
    """What begins with the query first, then what is like it; as they were given, when there is none."""
    found = fuzzy.best(query, names, len(names))
    if not query:
        return sorted(found, key=lambda one: one.place)
    return sorted(found, key=lambda one: not one.text.lower().startswith(query.lower()))


def _command(command: CommandEntry, name: str, positions: tuple[int, ...], following: str) -> Completion:
    is_alias = name != command.name
    word = f"/{command.name}"
    text, cursor = _with_blank(word, following) if command.arguments else (word, len(word))
    shown = f"{word} {command.arguments}".rstrip()
    if is_alias:
        shown += f" (/{name})"
    shift = len(shown) - len(name) - 1 if is_alias else 1
    return Completion(text, shown, tuple(place + shift for place in positions), command.description, cursor)


def _with_blank(word: str, following: str) -> tuple[str, int]:
    """The word so that one can type on, and where: behind a blank, which may be there already."""
    if following in ("", "\n"):
        return f"{word} ", len(word) + 1
    return word, len(word) + following.isspace()


def _arguments(query: str, offered: Sequence[str]) -> list[Completion]:
    return [
        Completion(found.text, found.text, found.match.positions, cursor=len(found.text))
        for found in _in_order(query, offered)[:MOST_ARGUMENTS]
        if found.text != query
    ]


def _path(found: Found, following: str) -> Completion:
    """A folder leaves the cursor where one types on into it."""
    mention = mention_of(found.path)
    if found.path.endswith("/"):
        return Completion(mention, found.path, found.positions, cursor=len(mention) - mention.endswith('"'))
    text, cursor = _with_blank(mention, following)
    return Completion(text, found.path, found.positions, cursor=cursor)
