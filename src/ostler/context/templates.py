"""Prompt templates: a text with placeholders for the arguments that a person types after its name.

    $1 ${1}                     one word; ${1:-main} has a default, ${1:+text} is used if the word is given
    $@ $ARGUMENTS ${@:2}        all words, or from the second on; ${@:2:3} are three of them
    $+                          all words, at least one
    {{file}} ${file}            an argument or a flag that the template declares
    <if-model is="a/*,b">…<else>…</if-model>

Code, between backticks or in fences, is not expanded. `\\$` and `\\{{` are a literal `$` and literal braces.
Declared arguments are given by position, as `name=value` or as `--name value`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

import msgspec

from ostler.context.markdown import outside_code
from ostler.schema.errors import UsageError
from ostler.schema.text import Word, joined

_BOOLEANS = {"true": True, "false": False}


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """An argument, which can be given by position, or a flag, which cannot."""

    name: str
    default: str | bool | None = None
    """Nothing: it must be given. A flag whose default is true or false takes no value."""
    has_position: bool = True


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    words: tuple[Word, ...]
    """Words that are neither flags nor `name=value`."""
    named: Mapping[str, str | bool]
    missing: tuple[str, ...]
    positions: int
    """The number of words that declared arguments take."""


def _assign(parameters: Sequence[Parameter], words: Sequence[Word], command: str) -> Arguments:
    """Assigns the words to the parameters; words after `--`, or without any parameters, are only words.

    Raises `UsageError` for a flag that is not declared, or has no value.
    """
    named, others = _named(parameters, words, command) if parameters else ({}, list(words))
    open_ = [one for one in parameters if one.has_position and one.name not in named]
    for parameter, word in zip(open_, others, strict=False):
        named[parameter.name] = word.text
    missing = []
    for parameter in parameters:
        if parameter.name not in named and parameter.default is None:
            missing.append(parameter.name.upper())
        elif parameter.name not in named and parameter.default is not None:
            named[parameter.name] = parameter.default
    return Arguments(words=tuple(others), named=named, missing=tuple(missing), positions=len(open_))


def _named(
    parameters: Sequence[Parameter], words: Sequence[Word], command: str
) -> tuple[dict[str, str | bool], list[Word]]:
    by_name = {one.name: one for one in parameters}
    named: dict[str, str | bool] = {}
    others: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.is_literal:
            others.append(word)
            continue
        if word.text == "--":
            others += words[at:]
            break
        is_flag = word.text.startswith("--")
        name, equals, value = word.text.removeprefix("--").partition("=")
        parameter = by_name.get(name)
        if parameter and equals:
            named[name] = _valued(parameter, value)
        elif parameter and is_flag and isinstance(parameter.default, bool):
            named[name] = True
        elif parameter and is_flag:
            if at == len(words) or (words[at].text.startswith("--") and not words[at].is_literal):
                raise UsageError(f"/{command}: --{name} needs a value")
            named[name] = words[at].text
            at += 1
        elif is_flag and not equals and (negated := _negated(name, by_name)):
            named[negated] = False
        elif is_flag:
            flags = ", ".join(f"--{one}" for one in by_name)
            raise UsageError(f"/{command} has no flag --{name}; it has: {flags} (quotes make it a word)")
        else:
            others.append(word)
    return named, others


def _valued(parameter: Parameter, value: str) -> str | bool:
    if not isinstance(parameter.default, bool):
        return value
    if value.lower() not in _BOOLEANS:
        raise UsageError(f"{parameter.name} is true or false, not {value!r}")
    return _BOOLEANS[value.lower()]


def _negated(name: str, by_name: Mapping[str, Parameter]) -> str:
    """The flag that `--no-name` turns off."""
    parameter = by_name.get(name.removeprefix("no-")) if name.startswith("no-") else None
    return parameter.name if parameter and isinstance(parameter.default, bool) else ""


_TAG = r'<if-model[ \t]+is="(?P<{0}is>[^"\n]*)"[ \t]*>|(?P<{0}else><else[ \t]*/?>)|(?P<{0}end></if-model>)'

_PLACE = re.compile(
    rf"""
      \\(?P<escaped>\$|\{{\{{)
    | \$(?P<number>[1-9][0-9]{{0,3}})(?![0-9])
    | \$(?P<all>[@+]|ARGUMENTS\b)
    | \$\{{(?:
          (?P<slice>@|ARGUMENTS):(?P<first>[0-9]{{1,4}})(?::(?P<count>[0-9]{{1,4}}))?
        | (?P<named>@|[1-9][0-9]{{0,3}}|[A-Za-z_][A-Za-z0-9_-]*)
          (?::(?P<operator>[-+])(?P<other>(?:[^}}\\\n]|\\.)*))?
      )\}}
    | \{{\{{[ \t]*(?P<braced>[A-Za-z_][A-Za-z0-9_-]*)[ \t]*\}}\}}
    | ^[ \t]*(?:{_TAG.format("line_")})[ \t]*(?:\n|\Z)   # a tag alone on its line takes the line along
    | {_TAG.format("")}
    | (?P<broken></?if-model\b)
    """,
    re.VERBOSE | re.MULTILINE | re.ASCII,
)

_ESCAPED = re.compile(r"\\([}\\])")


class InvalidTemplate(Exception):
    """What is wrong, in one line, and the number of the line in the text."""

    def __init__(self, line: int, complaint: str) -> None:
        super().__init__(complaint)
        self.line = line


class Place(msgspec.Struct, frozen=True):
    """A placeholder."""

    source: str
    """Its text in the template, which stays if its name is not declared."""
    what: str
    """`@`, `+`, a number or a name."""
    first: int = 1
    count: int | None = None
    operator: str = ""
    other: str = ""


class If(msgspec.Struct, frozen=True):
    patterns: tuple[str, ...]
    line: int


class Else(msgspec.Struct, frozen=True):
    source: str
    line: int


class End(msgspec.Struct, frozen=True):
    line: int


Piece: TypeAlias = "str | Place | If | Else | End"


class Template(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    pieces: tuple[Piece, ...]
    parameters: tuple[Parameter, ...] = ()
    hint: str = ""
    """The author's hint about what to type after its name."""


class FilledTemplate(msgspec.Struct, frozen=True):
    text: str
    used: tuple[str, ...]
    """The placeholders that were replaced: `@`, `+`, numbers and names, each once."""


def parse(text: str) -> tuple[Piece, ...]:
    """The pieces of a template's text. Raises `InvalidTemplate` for an incomplete condition."""
    pieces = tuple(_pieces(text, _piece))
    _check_conditions(pieces)
    return pieces


def fill(template: Template, words: Sequence[Word], model: str) -> FilledTemplate:
    """The text for these words and this model. Raises `UsageError` if the words do not fit.

    If a template has no placeholders for words, they are added below its text.
    """
    pieces = _resolved(template, model)
    places = [one for one in pieces if isinstance(one, Place)]
    arguments = _assign(template.parameters, words, template.name)
    has_positions = any(one.has_position for one in template.parameters)
    takes_words = has_positions or any(_is_of_words(one) for one in places)
    if takes_words:
        _check_number(template, places, arguments)
    text = "".join(one if isinstance(one, str) else _replacement(one, arguments) for one in pieces)
    used = [one.what for one in places]
    if arguments.words and not takes_words:
        text = f"{text.rstrip()}\n\n{joined(arguments.words)}".lstrip()
        used.append("@")
    return FilledTemplate(text, tuple(dict.fromkeys(used)))


def for_model(text: str, model: str) -> str:
    """The text with only its conditions resolved. Raises as `parse` does."""
    pieces = tuple(_pieces(text, _condition))
    _check_conditions(pieces)
    return "".join(one if isinstance(one, str) else one.source for one in _for_model(pieces, model))


def how_to_use(template: Template, model: str = "") -> str:
    """One line: `/review FILE [--base TEXT]`."""
    return _usage(template, [one for one in _resolved(template, model) if isinstance(one, Place)])


def unknown_names(template: Template) -> list[str]:
    """The names between braces that are not declared."""
    names = {one.name for one in template.parameters}
    braced = [one.what for one in template.pieces if isinstance(one, Place) and one.source[0] == "{"]
    return [name for name in dict.fromkeys(braced) if name not in names]


def _pieces(text: str, make: Callable[[re.Match[str]], Piece]) -> Iterator[Piece]:
    at = 0
    for begin, end in outside_code(text):
        for match in _PLACE.finditer(text, begin, end):
            yield text[at : match.start()]
            at = match.end()
            yield make(match)
    yield text[at:]


def _condition(match: re.Match[str]) -> Piece:
    piece = _piece(match)
    return piece if isinstance(piece, If | Else | End) else match[0]


def _piece(match: re.Match[str]) -> Piece:
    source = match[0]
    if match["escaped"]:
        return match["escaped"]
    if what := match["number"] or match["all"] or match["braced"] or match["named"]:
        other = _ESCAPED.sub(r"\1", match["other"] or "")
        what = "@" if what == "ARGUMENTS" else what
        return Place(source, what, operator=match["operator"] or "", other=other)
    if match["slice"]:
        count = match["count"]
        return Place(source, "@", max(int(match["first"]), 1), int(count) if count is not None else None)
    line = match.string.count("\n", 0, match.start()) + 1
    if match["line_end"] or match["end"]:
        return End(line)
    if match["line_else"] or match["else"]:
        return Else(source, line)
    patterns = match["line_is"] if match["is"] is None else match["is"]
    if patterns is None:
        raise InvalidTemplate(line, 'a condition is <if-model is="PATTERN,…"> … <else> … </if-model>')
    return If(tuple(one.strip() for one in patterns.split(",") if one.strip()), line)


def _check_conditions(pieces: Sequence[Piece]) -> None:
    open_: list[tuple[int, bool]] = []
    for piece in pieces:
        if isinstance(piece, If):
            open_.append((piece.line, False))
        elif isinstance(piece, Else) and open_:
            line, has_else = open_[-1]
            if has_else:
                raise InvalidTemplate(piece.line, f"the condition of line {line} has a second <else>")
            open_[-1] = line, True
        elif isinstance(piece, End):
            if not open_:
                raise InvalidTemplate(piece.line, "</if-model> ends a condition that never began")
            open_.pop()
    if open_:
        raise InvalidTemplate(open_[-1][0], "the condition that begins here has no </if-model>")


def _resolved(template: Template, model: str) -> list[str | Place]:
    """The pieces for this model; a placeholder whose name is not declared becomes text."""
    names = {one.name for one in template.parameters}
    positions = [one.name for one in template.parameters if one.has_position]
    resolved: list[str | Place] = []
    for piece in _for_model(template.pieces, model):
        if isinstance(piece, Place) and piece.what.isdecimal() and int(piece.what) <= len(positions):
            piece = msgspec.structs.replace(piece, what=positions[int(piece.what) - 1])
        if isinstance(piece, Place) and not _is_of_words(piece) and piece.what not in names:
            piece = piece.source
        resolved.append(piece)
    return resolved


def _for_model(pieces: Sequence[Piece], model: str) -> Iterator[str | Place]:
    holding: list[bool] = []
    for piece in pieces:
        if isinstance(piece, If):
            holding.append(any(matches_model(pattern, model) for pattern in piece.patterns))
        elif isinstance(piece, End):
            holding.pop()
        elif isinstance(piece, Else) and holding:
            holding[-1] = not holding[-1]
        elif all(holding):
            yield piece.source if isinstance(piece, Else) else piece


def matches_model(pattern: str, model: str) -> bool:
    """Whether a pattern with `*` and `?` matches `provider/id`, or the id alone."""
    literal = pattern.replace("[", "[[]")
    return fnmatchcase(model, literal) or fnmatchcase(model.partition("/")[2], literal)


def _is_of_words(place: Place) -> bool:
    return place.what in "@+" or place.what.isdecimal()


def _replacement(place: Place, arguments: Arguments) -> str:
    value = _value(place, arguments)
    is_set = value is not False and value != ""
    if place.operator == "-" and not is_set:
        return place.other
    if place.operator == "+":
        return place.other if is_set else ""
    return value if isinstance(value, str) else str(value).lower()


def _value(place: Place, arguments: Arguments) -> str | bool:
    if place.what in "@+":
        end = None if place.count is None else place.first - 1 + place.count
        return joined(arguments.words[place.first - 1 : end])
    if place.what.isdecimal():
        number = int(place.what)
        return arguments.words[number - 1].text if number <= len(arguments.words) else ""
    return arguments.named[place.what]


def _check_number(template: Template, places: Sequence[Place], arguments: Arguments) -> None:
    """Raises if words are missing, or if there are more words than placeholders."""
    usage = f"usage: {_usage(template, places)}"
    if arguments.missing:
        raise UsageError(f"/{template.name} needs {' and '.join(arguments.missing)}; {usage}")
    needed, number = _needed(places), len(arguments.words)
    if number < needed:
        words = "a word" if needed == 1 else f"{needed} words"
        raise UsageError(f"/{template.name} needs {words} after it, not {number}; {usage}")
    if any(one.what in "@+" for one in places):
        return
    room = max([int(one.what) for one in places if one.what.isdecimal()] + [arguments.positions])
    if number > room:
        word = arguments.words[room].text
        raise UsageError(
            f"/{template.name} has no place for {word!r} (quotes make several words one); {usage}"
        )


def _needed(places: Sequence[Place]) -> int:
    numbers = [int(one.what) for one in places if one.what.isdecimal() and not one.operator]
    return max([*numbers, *[1 for one in places if one.what == "+"]], default=0)


def _usage(template: Template, places: Sequence[Place]) -> str:
    if template.hint and not template.parameters:
        return f"/{template.name} {template.hint}"
    needed = _needed(places)
    numbers = {int(one.what) for one in places if one.what.isdecimal()}
    words = [f"WORD{one}" if one <= needed else f"[WORD{one}]" for one in sorted(numbers)]
    if any(one.what == "+" for one in places):
        words.append("WORD…" if needed == 1 else "[WORD…]")
    elif any(one.what == "@" for one in places):
        words.append("[WORD…]")
    arguments = [one for one in template.parameters if one.has_position]
    names = [one.name.upper() if one.default is None else f"[{one.name.upper()}]" for one in arguments]
    flags = [_flag_usage(one) for one in template.parameters if not one.has_position]
    return " ".join([f"/{template.name}", *names, *words, *flags])


def _flag_usage(parameter: Parameter) -> str:
    if isinstance(parameter.default, bool):
        return f"[--{'no-' if parameter.default else ''}{parameter.name}]"
    return f"[--{parameter.name} TEXT]"
