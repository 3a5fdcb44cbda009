"""Text for people and terminals: words and quotes, plurals, ages, printable and truncated lines."""

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
    """The whitespace before it, so that `joined` can restore the text."""
    is_literal: bool = False
    """It begins with a quote or an escape, so it is neither a flag nor `name=value`."""


def split_words(text: str) -> tuple[Word, ...]:
    """Splits at whitespace outside quotes. Never fails: an unclosed quote, or one inside a word, is literal.

    A quote opens at the start of a word and after its first `=`; `""` is an empty word. A backslash escapes
    whitespace, a quote or a backslash, but not between single quotes.
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
    """The words as one text, with the whitespace that was between them."""
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
    """For each id its shortest unique prefix."""
    short: dict[str, str] = {}
    ordered = sorted(ids)
    for before, one, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        size = _SHORTEST_ID
        while size < len(one) and (before.startswith(one[:size]) or after.startswith(one[:size])):
            size += 1
        short[one] = one[:size]
    return short


def age(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "now"


ELLIPSIS = "…"

_CONTROL = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
"""Control characters, characters that reorder or hide text, and those that cannot be encoded.

The joiners U+200C and U+200D stay: scripts and emoji need them.
"""


def printable(text: str) -> str:
    """The text without control characters. Newlines and tabs stay, and joiners that join something."""
    if text.isprintable():  # the usual case
        return text
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "\u200d" in text:
        text = _useless_joiner().sub("", text)
    return _control().sub("\ufffd", text)


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth, width  # its tables are slow to load, and ASCII does not need them

    columns = wcswidth(text)
    return columns if columns >= 0 else width(text)


@cache
def _useless_joiner() -> re.Pattern[str]:
    """A joiner that joins neither letters nor emoji: `wcwidth` would count it as if it did."""
    letter, emoji = "\u0590-\u1fff", "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
    return re.compile(f"(?<![{letter}{emoji}])\u200d|(?<=[{emoji}])\u200d(?![{emoji}])")


@cache
def _control() -> re.Pattern[str]:
    return re.compile(_CONTROL)


def split_at(text: str, room: int, *, at_least_one: bool = False) -> tuple[str, str]:
    """The part that fits into so many cells, and the remainder. No character is split."""
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
    """The start that fits, with an ellipsis if it was cut."""
    if cells(text) <= width:
        return text
    return split_at(text, width - 1)[0] + ELLIPSIS if width > 0 else ""


def cut_start(text: str, width: int) -> str:
    """The end that fits, with an ellipsis if it was cut."""
    if cells(text) <= width:
        return text
    end = text[-width + 1 :] if width > 1 else ""
    while cells(end) > width - 1:
        end = end[1:]
    return ELLIPSIS + end


def one_line(text: str) -> str:
    return printable(" ".join(text.split()))
