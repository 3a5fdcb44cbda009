"""Templates and arguments, for extensions: names in braces, words and flags, conditions on the model."""

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
    """What stands in braces, each once, in order."""


class ArgumentPattern(msgspec.Struct, frozen=True):
    """How the words behind a command are meant."""

    positional: tuple[str, ...] = ()
    """Names for the words, in order."""
    rest: str = ""
    """The name for all that is left."""
    flags: Mapping[str, str] = {}
    """Flags as they are written, with the names for their values: `{"--base": "base"}`."""


class Arguments(msgspec.Struct, frozen=True):
    """What the words say."""

    values: dict[str, str]
    """By the names of the pattern; what was not said is absent."""
    flags: dict[str, str]
    """The values of flags, by their names; `true` for one that has none."""
    rest: str
    """The words that no name was left for, as they were written."""
    words: tuple[str, ...]
    """All of them."""
    problem: str = ""
    """What the pattern does not know. The rest was read all the same."""


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
        return _NAME.sub(lambda found: str(values.get(found[1], found[0])), text)

    def arguments(self, text: str, pattern: ArgumentPattern) -> Arguments:
        """The words of a text by a pattern; it never fails.

        Words are apart by blanks, and whole between quotes. A `/name` at the beginning is the command and
        no argument. A flag takes the next word as its value, unless that looks like a flag; so does
        `--flag=value`. Behind `--` everything is a word.
        """
        words = list(split_words(text))
        if words and not words[0].is_literal and is_command(words[0].text):
            words = words[1:]
        flags, unknown, left = _flags(words, pattern.flags)
        values = dict(zip(pattern.positional, [word.text for word in left], strict=False))
        rest = joined(left[len(pattern.positional) :])
        if pattern.rest and rest:
            values[pattern.rest] = rest
        known = ", ".join(pattern.flags) or "none"
        problem = f"unknown flags: {', '.join(unknown)}; the flags are: {known}" if unknown else ""
        return Arguments({**values, **flags}, flags, rest, tuple(word.text for word in words), problem)

    def words(self, text: str, count: int) -> list[str]:
        """The whole text, the first words (empty where there are not so many), and what is left."""
        words = split_words(text)
        first = [word.text for word in words[:count]]
        return [text, *first, *[""] * (count - len(first)), joined(words[count:])]

    def matches(self, condition: str, model: str = "") -> bool:
        """Whether one of the patterns, with commas between them, fits the present model or the one named.

        `*` is anything and `?` one character, everything else only itself; the whole of `provider/id` or
        of the id must fit.
        """
        patterns = [one.strip() for one in condition.split(",")]
        name = model or self._context.model
        return any(matches_model(one, name) for one in patterns if one)

    def choose(self, condition: ModelCondition, model: str = "") -> str:
        return condition.text if self.matches(condition.condition, model) else condition.otherwise

    def for_model(self, text: str, model: str = "") -> str:
        """The text with each `<if-model is="…">A<else>B</if-model>` decided; all else stays as it is.

        Conditions may be nested; what is in code stays. Raises `UsageError` for one that is not whole.
        """
        try:
            return for_model(text, model or self._context.model)
        except InvalidTemplate as error:
            raise UsageError(f"line {error.line}: {error}") from None


def _flags(words: Sequence[Word], known: Mapping[str, str]) -> tuple[dict[str, str], list[str], list[Word]]:
    """The values of flags, those that nobody knows, and the words that are left."""
    flags: dict[str, str] = {}
    unknown: list[str] = []
    left: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _is_flag(word):
            left.append(word)
            continue
        if word.text == "--":
            return flags, unknown, [*left, *words[at:]]
        flag, equals, value = word.text.partition("=")
        if flag not in known:
            unknown.append(flag)
        elif equals:
            flags[known[flag]] = value
        elif at < len(words) and not _is_flag(words[at]):
            flags[known[flag]] = words[at].text
            at += 1
        else:
            flags[known[flag]] = "true"
    return flags, unknown, left


def _is_flag(word: Word) -> bool:
    is_written_so = word.text.startswith("-") and word.text != "-" and not word.is_literal
    return is_written_so and not _NUMBER.fullmatch(word.text)
