"""The words behind a command, as a person types them: apart by blanks, whole between quotes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import combining, east_asian_width

import msgspec

_GAP = re.compile(r"\s*")

_QUOTED = {'"': re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL), "'": re.compile(r"'([^']*)'")}

_ESCAPED = re.compile(r"\\([\s\"'\\])")

_ESCAPED_IN_QUOTES = re.compile(r'\\(["\\])')


class Word(msgspec.Struct, frozen=True):
    text: str
    gap: str = " "
    """The blanks before it, so that words can be put together again as they were."""
    is_literal: bool = False
    """It begins with a quote or an escape: it is no flag and no `name=value`."""


def split_words(text: str) -> tuple[Word, ...]:
    """Never fails: a quote that nothing closes, or that stands inside of a word, is a character like others.

    A quote opens at the beginning of a word and behind its first `=`; `""` is an empty word. A backslash
    takes the meaning from a blank, a quote or a backslash, but not between single quotes.
    """
    words: list[Word] = []
    at = 0
    while True:
        gap = _GAP.match(text, at)
        assert gap is not None
        if gap.end() == len(text):
            return tuple(words)
        word, at = _word(text, gap.end())
        words.append(Word(word, gap[0], text[gap.end()] in "\"'\\"))


def joined(words: Sequence[Word]) -> str:
    """The words in one text, with the blanks that were between them."""
    return "".join(word.gap + word.text if at else word.text for at, word in enumerate(words))


def _word(text: str, at: int) -> tuple[str, int]:
    pieces: list[str] = []
    may_open = True
    may_assign = True
    while at < len(text) and not text[at].isspace():
        character = text[at]
        if may_open and character in _QUOTED and (quoted := _QUOTED[character].match(text, at)):
            pieces.append(quoted[1] if character == "'" else _ESCAPED_IN_QUOTES.sub(r"\1", quoted[1]))
            at = quoted.end()
            may_open = may_assign = False
            continue
        if escaped := _ESCAPED.match(text, at):
            pieces.append(escaped[1])
            at = escaped.end()
        else:
            pieces.append(character)
            at += 1
        may_open = may_assign and character == "="
        may_assign = may_assign and character != "="
    return "".join(pieces), at


ELLIPSIS = "…"


def printable(text: str) -> str:
    """The text without what a terminal would obey: escape codes, and marks that reorder what is read."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def width_of(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, width: int) -> str:
    """The beginning that fits, marked where it was cut."""
    if width_of(text) <= width:
        return text
    kept, used = [], width_of(ELLIPSIS)
    for c in text:
        used += width_of(c)
        if used > width:
            break
        kept.append(c)
    return "".join(kept) + ELLIPSIS if width > 0 else ""


def cut_left(text: str, width: int) -> str:
    """The end that fits: of a path it says more than the beginning."""
    return cut(text[::-1], width)[::-1]


def counted(number: int, what: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


_SHORTEST_ID = 8

_UNITS = ((7 * 86400, "w"), (86400, "d"), (3600, "h"), (60, "m"))


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Of each id the shortest beginning that no other has."""
    short: dict[str, str] = {}
    ordered = sorted(ids)
    for before, one, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        alike = max(_alike(one, before), _alike(one, after))
        short[one] = one[: max(alike + 1, _SHORTEST_ID)]
    return short


def _alike(one: str, other: str) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def age(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "now"
