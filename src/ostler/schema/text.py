"""The words behind a command, as a person types them: apart by blanks, whole between quotes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

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


def plural(number: int, what: str) -> str:
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


ELLIPSIS = "…"


_OBEYED = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
"""What a terminal would obey, what reorders or hides what is read, and what cannot be encoded.

The joiners U+200C and U+200D stay: scripts and emoji need them.
"""


def printable(text: str) -> str:
    """The text without what a terminal would obey. Newlines and tabs stay, and a joiner where it joins."""
    if text.isprintable():  # as most of it is
        return text
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "\u200d" in text:
        text = _idle_joiner().sub("", text)
    return _obeyed().sub("\ufffd", text)


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth, width  # where only ASCII is printed, nobody waits for its tables

    columns = wcswidth(text)
    return columns if columns >= 0 else width(text)


@cache
def _idle_joiner() -> re.Pattern[str]:
    """Between other things than letters that join and emoji it joins nothing, but is counted as if it did."""
    letter, emoji = "\u0590-\u1fff", "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
    return re.compile(f"(?<![{letter}{emoji}])\u200d|(?<=[{emoji}])\u200d(?![{emoji}])")


@cache
def _obeyed() -> re.Pattern[str]:
    return re.compile(_OBEYED)


def split_at(text: str, room: int, *, at_least_one: bool = False) -> tuple[str, str]:
    """What fits into so many cells, and the rest. No character is cut in two."""
    if text.isascii():
        return text[:room], text[room:]
    from wcwidth import iter_graphemes

    end = 0
    for grapheme in iter_graphemes(text):
        size = cells(grapheme)
        if size > room and not (at_least_one and end == 0):
            break
        room -= size
        end += len(grapheme)
    return text[:end], text[end:]


def cut(text: str, width: int) -> str:
    """The beginning that fits, marked where it was cut."""
    if cells(text) <= width:
        return text
    return split_at(text, width - 1)[0] + ELLIPSIS if width > 0 else ""


def cut_start(text: str, width: int) -> str:
    """The end that fits, marked where it was cut."""
    if cells(text) <= width:
        return text
    end = text[-width + 1 :] if width > 1 else ""
    while cells(end) > width - 1:
        end = end[1:]
    return ELLIPSIS + end


def one_line(text: str) -> str:
    return printable(" ".join(text.split()))
