"""The words behind a command, as a person types them: apart by blanks, whole between quotes."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
