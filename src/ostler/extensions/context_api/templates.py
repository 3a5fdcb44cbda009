"""`context.templates`: text with names in braces, arguments of commands, and conditions on the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from ostler.context.slash_commands import is_command
from ostler.context.templates import InvalidTemplate, for_model, matches_model
from ostler.schema.errors import UsageError
from ostler.schema.text import Word, joined, split_words

if TYPE_CHECKING:
    from ostler.extensions.extension_context import ExtensionContext

_NAME = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}\}", re.ASCII)
_NUMBER = re.compile(r"-[0-9.]+", re.ASCII)


class Template(msgspec.Struct, frozen=True):
    """A text with names in braces: `Review {{file}}.`"""

    name: str
    text: str
    names: tuple[str, ...]
    """The names in braces, each once, in order."""


class ArgumentPattern(msgspec.Struct, frozen=True):
    """The arguments of a command."""

    positional: tuple[str, ...] = ()
    """Names for the words, in order."""
    rest: str = ""
    """The name for all remaining words."""
    flags: Mapping[str, str] = {}
    """Flags with the names for their values: `{"--base": "base"}`."""


class Arguments(msgspec.Struct, frozen=True):
    """The arguments of a command line."""

    values: dict[str, str]
    """The values by the names of the pattern; missing arguments are absent."""
    flags: dict[str, str]
    """The values of flags by their names; `true` for one without a value."""
    rest: str
    """The remaining words, as they were written."""
    words: tuple[str, ...]
    """All words."""
    problem: str = ""
    """The unknown flags; everything else was read."""


class ModelCondition(msgspec.Struct, frozen=True):
    """One text for some models, another for the others."""

    condition: str
    """Patterns with commas between them: `anthropic/*,gpt-?`."""
    text: str
    otherwise: str = ""


class Templates:
    """`context.templates`."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context

    def parse(self, name: str, text: str) -> Template:
        return Template(name, text, tuple(dict.fromkeys(_NAME.findall(text))))

    def render(self, template: Template | str, values: Mapping[str, str]) -> str:
        """The text with these values in it. A name without a value stays as it is."""
        text = template if isinstance(template, str) else template.text
        return _NAME.sub(lambda match: str(values.get(match[1], match[0])), text)

    def arguments(self, text: str, pattern: ArgumentPattern) -> Arguments:
        """Parses a command line by a pattern; it never fails. Words are separated by blanks, and may be
        quoted. A leading `/name` is the command. The value of a flag is the next word, unless that looks like
        a flag, or the text after `=`. After `--` all words are positional."""
        words = list(split_words(text))
        if words and not words[0].is_literal and is_command(words[0].text):
            words = words[1:]
        flags, unknown, positional = _flags(words, pattern.flags)
        values = dict(zip(pattern.positional, [word.text for word in positional], strict=False))
        rest = joined(positional[len(pattern.positional) :])
        if pattern.rest and rest:
            values[pattern.rest] = rest
        names = ", ".join(pattern.flags) or "none"
        problem = f"unknown flags: {', '.join(unknown)}; the flags are: {names}" if unknown else ""
        return Arguments({**values, **flags}, flags, rest, tuple(word.text for word in words), problem)

    def words(self, text: str, count: int) -> list[str]:
        """The whole text, the first words (empty for missing ones), and the remaining text."""
        words = split_words(text)
        first = [word.text for word in words[:count]]
        return [text, *first, *[""] * (count - len(first)), joined(words[count:])]

    def matches(self, condition: str, model: str = "") -> bool:
        """Whether one of the patterns, separated by commas, matches the model, by default the current one.
        `*` is anything and `?` one character; the whole of `provider/id` or of the id must match."""
        patterns = [one.strip() for one in condition.split(",")]
        name = model or self._context.model
        return any(matches_model(one, name) for one in patterns if one)

    def choose(self, condition: ModelCondition, model: str = "") -> str:
        return condition.text if self.matches(condition.condition, model) else condition.otherwise

    def for_model(self, text: str, model: str = "") -> str:
        """Replaces each `<if-model is="…">A<else>B</if-model>` by the part for the model, except in code.
        Conditions may be nested. Raises `UsageError` for an incomplete one."""
        try:
            return for_model(text, model or self._context.model)
        except InvalidTemplate as error:
            raise UsageError(f"line {error.line}: {error}") from None


def _flags(words: Sequence[Word], names: Mapping[str, str]) -> tuple[dict[str, str], list[str], list[Word]]:
    """The values of flags, the unknown flags, and the other words."""
    flags: dict[str, str] = {}
    unknown: list[str] = []
    others: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _is_flag(word):
            others.append(word)
            continue
        if word.text == "--":
            return flags, unknown, [*others, *words[at:]]
        flag, equals, value = word.text.partition("=")
        if flag not in names:
            unknown.append(flag)
        elif equals:
            flags[names[flag]] = value
        elif at < len(words) and not _is_flag(words[at]):
            flags[names[flag]] = words[at].text
            at += 1
        else:
            flags[names[flag]] = "true"
    return flags, unknown, others


def _is_flag(word: Word) -> bool:
    starts_like_one = word.text.startswith("-") and word.text != "-" and not word.is_literal
    return starts_like_one and not _NUMBER.fullmatch(word.text)
