"""What a template declares, and how words become values: by position, as `name=value`, as `--name value`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ostler.context.words import Word
from ostler.vocabulary.errors import UsageError

_BOOLEANS = {"true": True, "false": False}


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """An argument, which can be given by position, or a flag, which cannot."""

    name: str
    default: str | bool | None = None
    """Nothing: it must be given. A flag whose default is true or false takes no value."""
    has_position: bool = True


class Given(msgspec.Struct, frozen=True, kw_only=True):
    words: tuple[Word, ...]
    """Those that are neither flags nor `name=value`."""
    named: Mapping[str, str | bool]
    missing: tuple[str, ...]
    room: int
    """How many words the declared arguments take."""


def assign(parameters: Sequence[Parameter], words: Sequence[Word], command: str) -> Given:
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
    return Given(words=tuple(rest), named=named, missing=tuple(missing), room=len(open_))


def usage(command: str, parameters: Sequence[Parameter], words: Sequence[str]) -> str:
    arguments = [one for one in parameters if one.has_position]
    shown = [_upper(one.name) if one.default is None else f"[{_upper(one.name)}]" for one in arguments]
    flags = [_flag(one) for one in parameters if not one.has_position]
    return " ".join([f"/{command}", *shown, *words, *flags])


def is_given(value: str | bool) -> bool:
    return value is not False and value != ""


def said(value: str | bool) -> str:
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
