"""What a shell command consists of."""

from __future__ import annotations

import re

import msgspec


class Command(msgspec.Struct, frozen=True):
    """A program or builtin with its words; a word is None where it is known only when it runs."""

    words: tuple[str | None, ...]
    source: str
    assignments: tuple[str, ...] = ()
    """Those before it that may change what it does, as they stand: `PATH=.`"""
    only_restricts: bool = False
    """What denies or asks counts for it, but another part must be allowed in its place."""


class Writes(msgspec.Struct, frozen=True):
    """A redirection into a file."""

    path: str
    source: str


class Reads(msgspec.Struct, frozen=True):
    path: str
    source: str


class Unclear(msgspec.Struct, frozen=True):
    """Something that cannot be judged before it runs."""

    why: str
    source: str


Part = Command | Writes | Reads | Unclear


class TakenApart(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]
    folder: str | None = "."
    """Where the parts run, relative to where the whole does; None where that is uncertain."""


_HARMLESS_NAMES = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|CI|COLUMNS|LINES|RUST_BACKTRACE"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE"
)


def is_harmless_name(name: str) -> bool:
    """Whether setting this variable changes at most how something is shown."""
    return _HARMLESS_NAMES.fullmatch(name) is not None
