"""Slash commands: a prompt that begins with `/name` says something that was written down before."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from ostler.context.words import Word, split_words
from ostler.vocabulary.errors import UsageError

_COMMAND = re.compile(r"/(?:([A-Za-z][A-Za-z0-9_-]*):)?([A-Za-z0-9_][A-Za-z0-9_.-]*)(?=\s|\Z)")


class Expanded(msgspec.Struct, frozen=True):
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
    expand: Callable[[str, Sequence[Word]], Expanded]
    """Makes the text from one of the names and the words behind it. Raises `UsageError`."""


def expand_prompt(
    typed: str | Sequence[str], kinds: Mapping[str, Kind], others: Collection[str] = ()
) -> Expanded:
    """What was typed, or what its slash command stands for.

    `typed` is a text, or the words that a shell made of it: those keep their blanks. `kinds` has the
    prefix of each kind: with `skill` there is `/skill:NAME`, and the one with no prefix has `/NAME`.
    A path that exists and `//name` are no commands. Raises `UsageError` for a name that nothing has; one
    of the `others`, which are none of ours, may be meant.
    """
    parts = (typed,) if isinstance(typed, str) else tuple(typed)
    text = " ".join(parts).strip()
    if text.startswith("//") and _COMMAND.match(text, 1):
        return Expanded(text[1:])
    command = _COMMAND.match(text)
    if command is None:
        return Expanded(text)
    prefix, name = command[1] or "", command[2]
    kind = kinds.get(prefix)
    if kind and name in kind.names:
        return kind.expand(name, _words_behind(command[0], parts))
    if Path(command[0]).exists():  # `/tmp` and the like
        return Expanded(text)
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
    return f"there is no {command}: {hint}; /{command} says it as it is"
