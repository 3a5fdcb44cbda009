"""What counts as a word in a search, and what is shown of a message that was found: in every store."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_BEFORE, _AFTER = 40, 120


def words_of(text: str) -> list[str]:
    """Letters and digits in a row, without case and accents; all else (quotes, emoji, …) parts words."""
    return _WORD.findall(_folded(text))


def excerpt(text: str, words: list[str]) -> str:
    """The place where the first of the words stands, on one line."""
    found = re.search(rf"(?<![^\W_]){re.escape(words[0])}", _folded(text))
    place = found.start() if found else 0
    start = max(0, place - _BEFORE)
    return ("… " if start else "") + " ".join(text[start : place + _AFTER].split())


def _folded(text: str) -> str:
    """As long as the text, give or take a few characters, so that a place in one is a place in the other."""
    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", plain).lower()
