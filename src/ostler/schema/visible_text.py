"""Text that a person decides about, with every character visible that could deceive a reader.

- Characters without a shape of their own, that reorder the text, or that look like an ASCII sign are named:
  `⟨U+202E⟩`. So are the letters of another script in a word that mixes scripts (`p⟨U+0430⟩ypal`).
- A long run of whitespace is counted: `⟨200 spaces⟩`, `⟨30 blank lines⟩`.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

import msgspec

LONG_RUN = 16
"""Spaces between two words of a line that are counted instead of drawn; tabs count as eight."""

LONG_INDENT = 60
BLANK_LINES = 4

_RUN = re.compile(r"[ \t]{2,}")
_BLANKS = re.compile(rf"\n(?:[ \t]*\n){{{BLANK_LINES},}}")
_WORD = re.compile(r"[^\W\d_][\w\u0300-\u036f]*")

_LOOKS_LIKE_A_SIGN = frozenset(
    "\u00a0\u02d7\u037e\u0589\u05c3\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2010\u2011\u2024\u2044\u2215\u2236\u2212\u202f\u205f\u29f8\ua789\uff0f\u2028\u2029\u0085"
)
"""Other spaces, and signs that a reader takes for a slash, a dot, a colon, a semicolon or a hyphen."""

_WITHOUT_SHAPE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2800\u3164\uffa0")
_VARIATIONS = range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)
_JOINERS = "\u200c\u200d"
_MOST_MARKS = 3

# Scripts that are written together, and that nobody takes for Latin letters.
_WRITTEN_TOGETHER = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"})
_LATIN = "LATIN"
_LIKE_LATIN = frozenset("асеорхуіјѕһԁԛԝАВЕКМНОРСТУХІЈЅԚԜοανρτυικΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")
"""Cyrillic and Greek letters that look like Latin ones."""


class VisibleText(msgspec.Struct, frozen=True):
    text: str
    marks: int = 0
    """How many characters and runs were named."""


def revealed(text: str) -> str:
    """The text with all that could deceive made visible. Newlines and tabs stay."""
    return visible_text(text).text


def visible_text(text: str, *, long_run: int = LONG_RUN) -> VisibleText:
    text = text.replace("\r\n", "\n")
    marks = 0
    if not text.isascii() or not text.replace("\n", "").replace("\t", "").isprintable():
        text, marks = _named(text)
    text, blanks = _BLANKS.subn(_counted_lines, text)
    runs = 0

    def counted(match: re.Match[str]) -> str:
        nonlocal runs
        size = len(match[0].expandtabs(8))
        is_indent = match.start() == 0 or text[match.start() - 1] == "\n"
        if size < (LONG_INDENT if is_indent else long_run):
            return match[0]
        runs += 1
        return f" ⟨{size} spaces⟩ "

    text = _RUN.sub(counted, text)
    return VisibleText(text, marks + blanks + runs)


def _counted_lines(match: re.Match[str]) -> str:
    return f"\n⟨{match[0].count(chr(10)) - 1} blank lines⟩\n"


def _name(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def _named(text: str) -> tuple[str, int]:
    foreign = _foreign_letters(text)
    parts: list[str] = []
    marks = in_a_row = 0
    for at, character in enumerate(text):
        in_a_row = in_a_row + 1 if _is_mark(character) else 0
        is_hidden = (
            at in foreign
            or (character != "\n" and character != "\t" and _hides(text, at))
            or in_a_row > _MOST_MARKS
        )
        parts.append(_name(character) if is_hidden else character)
        marks += is_hidden
    return "".join(parts), marks


def _hides(text: str, at: int) -> bool:
    """Whether the character has no shape, changes the order of others, or looks like a sign."""
    character = text[at]
    if " " <= character <= "~":
        return False
    if character in _LOOKS_LIKE_A_SIGN or character in _WITHOUT_SHAPE:
        return True
    if character in _JOINERS:
        return not _joins(text[at - 1 : at], text[at + 1 : at + 2])
    if any(ord(character) in selectors for selectors in _VARIATIONS):
        return not (character == "\ufe0f" and at > 0 and _is_emoji(text[at - 1]))
    if _is_mark(character):
        return at == 0 or not (text[at - 1].isalnum() or _is_mark(text[at - 1]) or _is_emoji(text[at - 1]))
    return _category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


@lru_cache(1024)
def _category(character: str) -> str:
    from unicodedata import category  # its tables are slow to load, and most texts do not need them

    return category(character)


def _is_mark(character: str) -> bool:
    return not character.isascii() and _category(character) in ("Mn", "Me")


def _is_emoji(character: str) -> bool:
    return character >= "\u2190" and _category(character) in ("So", "Sk", "Sm", "Mn")


def _joins(before: str, behind: str) -> bool:
    """Whether a joiner stands between emoji, or between letters of a script that needs it."""
    if not before or not behind:
        return False
    if _is_emoji(before) and _is_emoji(behind):
        return True
    return "\u0600" <= before <= "\u1fff" and "\u0600" <= behind <= "\u1fff"


@lru_cache(4096)
def _script(letter: str) -> str:
    """The first word of its name: `LATIN`, `CYRILLIC`; empty for what is no letter."""
    from unicodedata import name

    if letter.isascii():
        return _LATIN if letter.isalpha() else ""
    if not letter.isalpha():
        return ""
    script = name(letter, "").partition(" ")[0]
    return "CJK" if script in _WRITTEN_TOGETHER else script


def _foreign_letters(text: str) -> set[int]:
    """The places of letters that do not belong to the script of their word."""
    places: set[int] = set()
    if text.isascii():
        return places
    reads_other_script = any(_script(one) in ("CYRILLIC", "GREEK") and one not in _LIKE_LATIN for one in text)
    for match in _WORD.finditer(text):
        word = match[0]
        if word.isascii():
            continue
        counts = Counter(script for one in word if (script := _script(one)))
        usual = _LATIN if _LATIN in counts else max(counts, key=lambda one: counts[one], default="")
        is_imitation = len(word) > 1 and not reads_other_script and set(word) <= _LIKE_LATIN
        for at, letter in enumerate(word):
            script = _script(letter)
            is_other = script not in ("", usual) and not {script, usual} <= {_LATIN, "CJK"}
            if is_other or is_imitation:
                places.add(match.start() + at)
    return places
