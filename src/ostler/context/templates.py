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


class GivenArguments(msgspec.Struct, frozen=True, kw_only=True):
    words: tuple[Word, ...]
    """Those that are neither flags nor `name=value`."""
    named: Mapping[str, str | bool]
    missing: tuple[str, ...]
    room: int
    """How many words the declared arguments take."""


def assign(parameters: Sequence[Parameter], words: Sequence[Word], command: str) -> GivenArguments:
    """Raises `UsageError` for a flag that is not declared, or has no value.

    Where nothing is declared, all words are words. Behind `--`, too.
    """
    named, rest = _named(parameters, words, command) if parameters else ({}, list(words))
    open_ = [one for one in parameters if one.has_position and one.name not in named]
    for parameter, word in zip(open_, rest, strict=False):
        named[parameter.name] = word.text
    missing = []
    for parameter in parameters:
        if parameter.name not in named and parameter.default is None:
            missing.append(_upper(parameter.name))
        elif parameter.name not in named and parameter.default is not None:
            named[parameter.name] = parameter.default
    return GivenArguments(words=tuple(rest), named=named, missing=tuple(missing), room=len(open_))


def usage(command: str, parameters: Sequence[Parameter], words: Sequence[str]) -> str:
    arguments = [one for one in parameters if one.has_position]
    shown = [_upper(one.name) if one.default is None else f"[{_upper(one.name)}]" for one in arguments]
    flags = [_flag(one) for one in parameters if not one.has_position]
    return " ".join([f"/{command}", *shown, *words, *flags])


def is_given(value: str | bool) -> bool:
    return value is not False and value != ""


def spoken_value(value: str | bool) -> str:
    return value if isinstance(value, str) else "true" if value else "false"


def _named(
    parameters: Sequence[Parameter], words: Sequence[Word], command: str
) -> tuple[dict[str, str | bool], list[Word]]:
    known = {one.name: one for one in parameters}
    named: dict[str, str | bool] = {}
    rest: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.is_literal:
            rest.append(word)
            continue
        if word.text == "--":
            rest += words[at:]
            break
        is_flag = word.text.startswith("--")
        name, equals, value = word.text.removeprefix("--").partition("=")
        parameter = known.get(name)
        if parameter and equals:
            named[name] = _valued(parameter, value)
        elif parameter and is_flag and isinstance(parameter.default, bool):
            named[name] = True
        elif parameter and is_flag:
            if at == len(words) or _looks_like_a_flag(words[at]):
                raise UsageError(f"/{command}: --{name} needs a value")
            named[name] = words[at].text
            at += 1
        elif is_flag and not equals and (negated := _negated(name, known)):
            named[negated] = False
        elif is_flag:
            flags = ", ".join(f"--{one}" for one in known)
            raise UsageError(f"/{command} has no flag --{name}; it has: {flags} (quotes make it a word)")
        else:
            rest.append(word)
    return named, rest


def _valued(parameter: Parameter, value: str) -> str | bool:
    if not isinstance(parameter.default, bool):
        return value
    if value.lower() not in _BOOLEANS:
        raise UsageError(f"{parameter.name} is true or false, not {value!r}")
    return _BOOLEANS[value.lower()]


def _looks_like_a_flag(word: Word) -> bool:
    return word.text.startswith("--") and not word.is_literal


def _negated(name: str, known: Mapping[str, Parameter]) -> str:
    """The flag that `--no-name` turns off."""
    parameter = known.get(name.removeprefix("no-")) if name.startswith("no-") else None
    return parameter.name if parameter and isinstance(parameter.default, bool) else ""


def _upper(name: str) -> str:
    return name.upper()


def _flag(parameter: Parameter) -> str:
    if isinstance(parameter.default, bool):
        return f"[--{'no-' if parameter.default else ''}{parameter.name}]"
    return f"[--{parameter.name} TEXT]"


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
    """Says in one line what is wrong, and in which line of the text."""

    def __init__(self, line: int, complaint: str) -> None:
        super().__init__(complaint)
        self.line = line


class Place(msgspec.Struct, frozen=True):
    """Where something is put in."""

    source: str
    """How it is written: that stays where a name is not declared."""
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
    """What to say behind its name, in its author's words."""


class FilledTemplate(msgspec.Struct, frozen=True):
    text: str
    used: tuple[str, ...]
    """What was put in: `@`, `+`, numbers and names, each once."""


def parse(text: str) -> tuple[Piece, ...]:
    """The pieces of a template's text. Raises `InvalidTemplate` where a condition is not whole."""
    pieces = tuple(_pieces(text, _piece))
    _check_conditions(pieces)
    return pieces


def fill(template: Template, words: Sequence[Word], model: str) -> FilledTemplate:
    """The text for these words and this model. Raises `UsageError` where the words do not fit.

    Words that a template has no place for at all are said below its text.
    """
    pieces = _resolved(template, model)
    places = [one for one in pieces if isinstance(one, Place)]
    given = assign(template.parameters, words, template.name)
    takes_words = _declares_positions(template) or any(_is_of_words(one) for one in places)
    if takes_words:
        _check_number(template, places, given)
    text = "".join(one if isinstance(one, str) else _put_in(one, given) for one in pieces)
    used = [one.what for one in places]
    if given.words and not takes_words:
        text = f"{text.rstrip()}\n\n{joined(given.words)}".lstrip()
        used.append("@")
    return FilledTemplate(text, tuple(dict.fromkeys(used)))


def for_model(text: str, model: str) -> str:
    """The text with its conditions decided, and all else as it is. Raises as `parse` does."""
    pieces = tuple(_pieces(text, _condition))
    _check_conditions(pieces)
    return "".join(one if isinstance(one, str) else one.source for one in _for_model(pieces, model))


def how_to_use(template: Template, model: str = "") -> str:
    """One line: `/review FILE [--base TEXT]`."""
    return _usage(template, [one for one in _resolved(template, model) if isinstance(one, Place)])


def unknown_names(template: Template) -> list[str]:
    """What stands between braces and is not declared."""
    names = {one.name for one in template.parameters}
    found = [one.what for one in template.pieces if isinstance(one, Place) and one.source[0] == "{"]
    return [name for name in dict.fromkeys(found) if name not in names]


# --- from text to pieces ----------------------------------------------------------------------------


def _pieces(text: str, make: Callable[[re.Match[str]], Piece]) -> Iterator[Piece]:
    at = 0
    for begin, end in outside_code(text):
        for found in _PLACE.finditer(text, begin, end):
            yield text[at : found.start()]
            at = found.end()
            yield make(found)
    yield text[at:]


def _condition(found: re.Match[str]) -> Piece:
    piece = _piece(found)
    return piece if isinstance(piece, If | Else | End) else found[0]


def _piece(found: re.Match[str]) -> Piece:
    source = found[0]
    if found["escaped"]:
        return found["escaped"]
    if what := found["number"] or found["all"] or found["braced"]:
        return Place(source, _canonical(what))
    if found["slice"]:
        count = found["count"]
        return Place(source, "@", max(int(found["first"]), 1), int(count) if count is not None else None)
    if what := found["named"]:
        other = _ESCAPED.sub(r"\1", found["other"] or "")
        return Place(source, _canonical(what), operator=found["operator"] or "", other=other)
    line = found.string.count("\n", 0, found.start()) + 1
    if found["line_end"] or found["end"]:
        return End(line)
    if found["line_else"] or found["else"]:
        return Else(source, line)
    patterns = found["line_is"] if found["is"] is None else found["is"]
    if patterns is None:
        raise InvalidTemplate(line, 'a condition is <if-model is="PATTERN,…"> … <else> … </if-model>')
    return If(tuple(one.strip() for one in patterns.split(",") if one.strip()), line)


def _canonical(what: str) -> str:
    return "@" if what == "ARGUMENTS" else what


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


# --- from pieces to the text for one model and some words -------------------------------------------


def _resolved(template: Template, model: str) -> list[str | Place]:
    """The pieces that count: those whose conditions hold, and of the names those that are declared."""
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
    """`*` is anything and `?` one character; against `provider/id`, and against the id alone."""
    literal = pattern.replace("[", "[[]")
    return fnmatchcase(model, literal) or fnmatchcase(model.partition("/")[2], literal)


def _is_of_words(place: Place) -> bool:
    return place.what in "@+" or place.what.isdecimal()


def _declares_positions(template: Template) -> bool:
    return any(one.has_position for one in template.parameters)


def _put_in(place: Place, given: GivenArguments) -> str:
    value = _value(place, given)
    if place.operator == "-" and not is_given(value):
        return place.other
    if place.operator == "+":
        return place.other if is_given(value) else ""
    return spoken_value(value)


def _value(place: Place, given: GivenArguments) -> str | bool:
    if place.what in "@+":
        end = None if place.count is None else place.first - 1 + place.count
        return joined(given.words[place.first - 1 : end])
    if place.what.isdecimal():
        number = int(place.what)
        return given.words[number - 1].text if number <= len(given.words) else ""
    return given.named[place.what]


def _check_number(template: Template, places: Sequence[Place], given: GivenArguments) -> None:
    """Raises where words are missing, or there are more than places for them."""
    usage = f"usage: {_usage(template, places)}"
    if given.missing:
        raise UsageError(f"/{template.name} needs {' and '.join(given.missing)}; {usage}")
    needed, room = _needed(places), _room(places, given)
    if len(given.words) < needed:
        behind = "a word" if needed == 1 else f"{needed} words"
        raise UsageError(f"/{template.name} needs {behind} behind it, not {len(given.words)}; {usage}")
    if room is not None and len(given.words) > room:
        word = given.words[room].text
        raise UsageError(
            f"/{template.name} has no place for {word!r} (quotes make several words one); {usage}"
        )


def _needed(places: Sequence[Place]) -> int:
    numbers = [int(one.what) for one in places if one.what.isdecimal() and not one.operator]
    return max([*numbers, *[1 for one in places if one.what == "+"]], default=0)


def _room(places: Sequence[Place], given: GivenArguments) -> int | None:
    """How many words there are places for; nothing where any number will do."""
    if any(one.what in "@+" for one in places):
        return None
    return max([int(one.what) for one in places if one.what.isdecimal()] + [given.room])


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
    return usage(template.name, template.parameters, words)
