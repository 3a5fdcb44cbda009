"""Slash commands: a prompt `/name arguments` expands to a prompt template from a Markdown file.

A template that comes with a project is only text: it runs nothing, chooses no model and attaches no files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ostler.context.files import FileSearch, Unusable, printable_path, read_bytes
from ostler.context.markdown import InvalidFrontMatter, read_front_matter
from ostler.context.templates import (
    InvalidTemplate,
    Parameter,
    Template,
    fill,
    how_to_use,
    parse,
    unknown_names,
)
from ostler.schema.errors import UsageError
from ostler.schema.text import Word, split_words
from ostler.store.paths import configuration_file, project_folder

_COMMAND = re.compile(r"/(?:([A-Za-z][A-Za-z0-9_-]*):)?([A-Za-z0-9_][A-Za-z0-9_.-]*)(?=\s|\Z)")


class ExpandedPrompt(msgspec.Struct, frozen=True):
    """The text for the model."""

    text: str
    source: str = ""
    """The template's file; empty if a person typed all of it."""
    is_own: bool = True
    """Whether the person typed it or has it in their own folder; False for a project's template."""
    used: tuple[str, ...] = ()


class Kind(msgspec.Struct, frozen=True):
    """One kind of slash commands."""

    names: Collection[str]
    expand: Callable[[str, Sequence[Word]], ExpandedPrompt]
    """Makes the text from one of the names and the words after it. Raises `UsageError`."""


def expand_command(
    typed: str | Sequence[str], kinds: Mapping[str, Kind], others: Collection[str] = ()
) -> ExpandedPrompt:
    """The typed text, or the text that its slash command expands to.

    `typed` is a text, or the words that a shell split it into, which keep their blanks. `kinds` are by
    prefix: `skill` is for `/skill:NAME`, and the empty one for `/NAME`. An existing path and `//name` are not
    commands. Raises `UsageError` for an unknown name, with suggestions that include the `others`.
    """
    parts = (typed,) if isinstance(typed, str) else tuple(typed)
    text = " ".join(parts).strip()
    if text.startswith("//") and _COMMAND.match(text, 1):
        return ExpandedPrompt(text[1:])
    command = _COMMAND.match(text)
    if command is None:
        return ExpandedPrompt(text)
    prefix, name = command[1] or "", command[2]
    kind = kinds.get(prefix)
    if kind and name in kind.names:
        first, *more = [part for part in parts if part.strip()]
        words = [*split_words(first.lstrip()[len(command[0]) :]), *map(Word, more)]
        return kind.expand(name, words)
    if Path(command[0]).exists():  # `/tmp` and the like
        return ExpandedPrompt(text)
    raise UsageError(_unknown(command[0], kinds, others))


def is_command(word: str) -> bool:
    """Whether it is written as a slash command is."""
    return _COMMAND.fullmatch(word) is not None


def _unknown(command: str, kinds: Mapping[str, Kind], others: Collection[str]) -> str:
    """Suggests the commands that begin with the name, then those with a similar name."""
    from difflib import get_close_matches

    typed = command.rpartition(":")[2].removeprefix("/")
    names_of = {
        (f"/{prefix}:{name}" if prefix else f"/{name}"): name
        for prefix, kind in kinds.items()
        for name in kind.names
    }
    names_of |= {one: one.removeprefix("/").rpartition(":")[2] for one in others}
    commands = sorted(names_of)
    prefixed = [one for one in commands if names_of[one].startswith(typed)]
    close = get_close_matches(typed, {*names_of.values()}, 3, cutoff=0.65)
    similar = [one for name in close for one in commands if names_of[one] == name]
    if near := list(dict.fromkeys([*prefixed, *similar]))[:3]:
        hint = f"did you mean {' or '.join(near)}?"
    elif commands:
        hint = f"the commands are {', '.join(commands[:8])}{', …' if len(commands) > 8 else ''}."
    else:
        hint = "there are no templates; .ostler/prompts/NAME.md would be one."
    return f"there is no {command}: {hint} Type /{command} to send it as text"


PROMPT_FOLDERS = (".ostler/prompts", ".agents/prompts")
"""In a project's folders; the first one wins."""

LARGEST_FILE = 256 * 1024
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_NOT_SUPPORTED = ("allowed-tools", "hooks", "model")


class PromptFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    usage: str
    scope: Literal["project", "user"]
    source: str
    """The path of the file."""
    body: str
    template: Template


class PromptFiles(msgspec.Struct, frozen=True):
    by_name: dict[str, PromptFile]
    unusable: dict[str, str]
    """Why the template of a name cannot be used."""
    problems: tuple[str, ...]
    """Problems with files, one line each, starting with the file's path."""


def find_prompts(cwd: Path, root: Path, own: Path) -> PromptFiles:
    """The templates for work in `cwd`: the project's, the nearest folder first, then those in `own`.

    A file that cannot be used keeps its name: a later file of that name does not replace it.
    """
    search = _PromptSearch()
    search.search(cwd.resolve(), root.resolve(), (own.resolve(),))
    return PromptFiles(search.prompts, search.unusable, tuple(search.problems))


def prompt_commands(files: PromptFiles, model: str) -> Kind:
    """The templates as slash commands, for a model named `provider/id`."""

    def expand(name: str, words: Sequence[Word]) -> ExpandedPrompt:
        if name in files.unusable:
            raise UsageError(files.unusable[name])
        file = files.by_name[name]
        filled = fill(file.template, words, model)
        if not filled.text.strip():
            raise UsageError(f"/{name} is empty for {model}: {file.source}")
        return ExpandedPrompt(filled.text, file.source, file.scope == "user", filled.used)

    return Kind({*files.by_name, *files.unusable}, expand)


class _PromptSearch(FileSearch):
    def __init__(self) -> None:
        super().__init__("template", PROMPT_FOLDERS)
        self.prompts: dict[str, PromptFile] = {}
        self.unusable: dict[str, str] = {}

    def file_of(self, entry: Path) -> Path | None:
        is_taken = entry.stem in self.prompts or entry.stem in self.unusable
        return None if is_taken else super().file_of(entry)

    def add(self, path: Path, project: Path | None, problems: list[str]) -> None:
        self.prompts[path.stem] = _prompt_file(path, project, problems)

    def reject(self, path: Path, error: Unusable, problems: list[str]) -> list[str]:
        self.unusable[path.stem] = f"{printable_path(path)}: {error}"
        return [str(error)]


def _prompt_file(path: Path, project: Path | None, problems: list[str]) -> PromptFile:
    if not _NAME.fullmatch(path.stem):
        raise Unusable("the name of a template may have only letters, digits, - and _")
    content = _content(path, project)
    try:
        document = read_front_matter(content)
    except InvalidFrontMatter as error:
        raise Unusable(str(error)) from None
    fields, body = document.fields, document.body
    try:
        pieces = parse(body.strip())
    except InvalidTemplate as error:
        before = content.count("\n") - body.lstrip().count("\n")
        raise Unusable(f"line {before + error.line}: {error}") from None
    template = Template(
        name=path.stem, pieces=pieces, parameters=_parameters(fields), hint=_text(fields, "argument-hint")
    )
    problems += [f"its `{name}` is not supported" for name in _NOT_SUPPORTED if name in fields]
    undeclared = "is not among its arguments and flags, and stays as it is"
    problems += [f"{{{{{name}}}}} {undeclared}" for name in unknown_names(template)]
    return PromptFile(
        name=path.stem,
        description=_text(fields, "description") or _first_line(body),
        usage=how_to_use(template),
        scope="user" if project is None else "project",
        source=str(path),
        body=body.strip(),
        template=template,
    )


def _content(path: Path, project: Path | None) -> str:
    content = read_bytes(path, project, LARGEST_FILE)
    if content is None:
        raise Unusable("it is a link to nothing")
    try:
        return content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise Unusable("it is not UTF-8") from None


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return (value or "").strip()
    raise Unusable(f"`{name}` is a text: put quotes around it")


def _first_line(body: str) -> str:
    first = body.strip().partition("\n")[0].lstrip("# ")
    return first if len(first) <= 100 else f"{first[:99]}…"


def _parameters(fields: dict[str, Any]) -> tuple[Parameter, ...]:
    arguments, flags = fields.get("arguments") or {}, fields.get("flags") or {}
    if isinstance(arguments, list):
        arguments = dict.fromkeys(map(str, arguments))
    for name, table in (("arguments", arguments), ("flags", flags)):
        if not isinstance(table, dict):
            raise Unusable(f"`{name}` is a table of names and defaults")
    parameters = [_parameter(name, value, has_position=True) for name, value in arguments.items()]
    parameters += [_parameter(name, value, has_position=False) for name, value in flags.items()]
    names = [one.name for one in parameters]
    for name in names:
        if not _PARAMETER.fullmatch(name) or name == "ARGUMENTS":
            raise Unusable(f"{name!r} cannot be the name of an argument: letters, digits, - and _ can")
        if names.count(name) > 1:
            raise Unusable(f"{name!r} is declared twice")
    return tuple(parameters)


def _parameter(name: str, default: Any, *, has_position: bool) -> Parameter:
    if isinstance(default, list | dict):
        raise Unusable(f"the default of {name!r} is a text, a number, true or false")
    if has_position:
        return Parameter(name=name, default=None if default is None else _as_text(default))
    default = default if isinstance(default, bool) else "" if default is None else _as_text(default)
    return Parameter(name=name, default=default, has_position=False)


def _as_text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def own_prompts() -> Path:
    return configuration_file().parent / "prompts"


def prompts_here(cwd: Path) -> PromptFiles:
    return find_prompts(cwd, project_folder(cwd), own_prompts())
