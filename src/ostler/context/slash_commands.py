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
    """What is said to the model."""

    text: str
    source: str = ""
    """The file that it came from; nothing where a person typed all of it."""
    is_own: bool = True
    """A person typed it or keeps it in his own folder; false where a project brought it along."""
    used: tuple[str, ...] = ()


class Kind(msgspec.Struct, frozen=True):
    """One kind of slash commands."""

    names: Collection[str]
    expand: Callable[[str, Sequence[Word]], ExpandedPrompt]
    """Makes the text from one of the names and the words behind it. Raises `UsageError`."""


def expand_command(
    typed: str | Sequence[str], kinds: Mapping[str, Kind], others: Collection[str] = ()
) -> ExpandedPrompt:
    """What was typed, or what its slash command stands for.

    `typed` is a text, or the words that a shell made of it: those keep their blanks. `kinds` has the
    prefix of each kind: with `skill` there is `/skill:NAME`, and the one with no prefix has `/NAME`.
    A path that exists and `//name` are no commands. Raises `UsageError` for a name that nothing has; one
    of the `others`, which are none of ours, may be meant.
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
        return kind.expand(name, _words_behind(command[0], parts))
    if Path(command[0]).exists():  # `/tmp` and the like
        return ExpandedPrompt(text)
    raise UsageError(_unknown(command[0], kinds, others))


def is_command(word: str) -> bool:
    """Whether it is written as a slash command is."""
    return _COMMAND.fullmatch(word) is not None


def _words_behind(command: str, parts: Sequence[str]) -> list[Word]:
    first, *others = [part for part in parts if part.strip()]
    return [*split_words(first.lstrip()[len(command) :]), *map(Word, others)]


def _unknown(command: str, kinds: Mapping[str, Kind], others: Collection[str]) -> str:
    """The nearest: what begins with it, of any kind, then what is spelled like it."""
    from difflib import get_close_matches

    begun = command.rpartition(":")[2].removeprefix("/")
    called = {
        (f"/{prefix}:{name}" if prefix else f"/{name}"): name
        for prefix, kind in kinds.items()
        for name in kind.names
    }
    called |= {one: one.removeprefix("/").rpartition(":")[2] for one in others}
    names = sorted(called)
    begins = [one for one in names if called[one].startswith(begun)]
    close = get_close_matches(begun, {*called.values()}, 3, cutoff=0.65)
    spelled = sorted((one for one in names if called[one] in close), key=lambda one: close.index(called[one]))
    near = list(dict.fromkeys([*begins, *spelled]))[:3]
    if near:
        hint = f"perhaps you mean {' or '.join(near)}"
    elif names:
        hint = f"there is {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
    else:
        hint = "there are no templates; .ostler/prompts/NAME.md would be one"
    return f"there is no {command}: {hint}; /{command} sends it verbatim"


PROMPT_FOLDERS = (".ostler/prompts", ".agents/prompts")
"""In a project's folders; the first one wins."""

LARGEST_FILE = 256 * 1024
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_NOT_FOLLOWED = ("allowed-tools", "hooks", "model")


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
    found: dict[str, PromptFile]
    unusable: dict[str, str]
    """Why the template of a name cannot be used."""
    problems: tuple[str, ...]
    """All that is wrong with files, a line each, which begins with the file's path."""


def find_prompts(cwd: Path, root: Path, own: Path) -> PromptFiles:
    """The templates for work in `cwd`: those of the project at `root`, the nearest folder first, then those
    in the user's `own` folder.

    A file that cannot be used keeps its name: what it was to stand before does not take its place.
    """
    search = _PromptSearch()
    search.search(cwd.resolve(), root.resolve(), (own.resolve(),))
    return PromptFiles(search.prompts, search.unusable, tuple(search.problems))


def prompt_commands(files: PromptFiles, model: str) -> Kind:
    """The templates as slash commands, for a model named `provider/id`."""

    def expand(name: str, words: Sequence[Word]) -> ExpandedPrompt:
        if name in files.unusable:
            raise UsageError(files.unusable[name])
        file = files.found[name]
        filled = fill(file.template, words, model)
        if not filled.text.strip():
            raise UsageError(f"/{name} has nothing to say to {model}: {file.source}")
        return ExpandedPrompt(filled.text, file.source, file.scope == "user", filled.used)

    return Kind({*files.found, *files.unusable}, expand)


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
        raise Unusable("the name of a template has letters, digits, - and _, and no others")
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
    problems += [f"its `{name}` is not followed here" for name in _NOT_FOLLOWED if name in fields]
    problems += [
        f"{{{{{name}}}}} is not among its arguments and flags, and stays as it is"
        for name in unknown_names(template)
    ]
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
