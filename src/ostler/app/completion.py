"""Completion of slash commands and mentions, with fuzzy matching.

A query matches if its letters occur in order; words match in any order. Lower case matches both cases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ostler.core.lazy import lazy_module

if TYPE_CHECKING:
    from ostler.context import instructions, slash_commands
    from ostler.extensions.host import ExtensionHost
else:
    instructions = lazy_module("ostler.context.instructions")
    slash_commands = lazy_module("ostler.context.slash_commands")


class CommandEntry(msgspec.Struct, frozen=True):
    name: str
    """Without the slash."""
    description: str = ""
    arguments: str = ""
    """A hint such as `[name]`; empty if it takes no arguments."""
    aliases: tuple[str, ...] = ()
    kind: Literal["face", "command", "template", "skill"] = "face"


def provided_by(host: ExtensionHost | None, taken: Collection[str] = ()) -> list[CommandEntry]:
    """The commands of extensions. If a name is taken, it is prefixed with the extension."""
    if host is None:
        return []
    entries = []
    for name, (extension, command) in host.commands().items():
        label = f"{extension.name}:{name}" if name in taken else name
        entries.append(CommandEntry(label, command.description, "…", kind="command"))
    return entries


def expanding_in(cwd: Path, taken: Collection[str] = ()) -> list[CommandEntry]:
    """Prompt templates, then skills. Reads files: not for the event loop."""
    templates = [
        # More arguments than in the usage are always allowed, and are appended to the prompt.
        CommandEntry(one.name, one.description, one.usage.partition(" ")[2] or "…", kind="template")
        for one in slash_commands.prompts_here(cwd).by_name.values()
    ]
    skills = [
        CommandEntry(f"skill:{one.name}", one.description, "…", kind="skill")
        for one in instructions.skills_in(cwd).by_name.values()
    ]
    return [one for one in (*templates, *skills) if one.name not in taken]


# For each letter of a run, a run counts as much as the start of a word: people type parts of names more often
# than initials, and both are better than scattered letters.
_LETTER = 16
_START = 10
_PART_START = 12
_CAMEL = 8
_RUN = 10
_LAST_PART = 3
_WORD_END = 4
_GAP = 4
_GAP_LETTER = 1
_NOWHERE = -(1 << 30)

_Row = tuple[list[int], list[int]]

MOST_WEIGHED = 1000
"""If more texts match, only the likeliest are scored: those that contain the query as a whole, then short
ones."""


class Match(msgspec.Struct, frozen=True):
    score: int
    positions: tuple[int, ...]
    """The matching positions in the text, ascending."""


class Ranked(msgspec.Struct, frozen=True):
    place: int
    """The index of the text."""
    text: str
    match: Match


def match(query: str, text: str) -> Match | None:
    """None if the text does not contain all of the query. An empty query matches everything with score 0."""
    matches = best(query, (text,), 1)
    return matches[0].match if matches else None


def best(query: str, texts: Sequence[str], limit: int, weighed: int = MOST_WEIGHED) -> list[Ranked]:
    """The best matches, best first; among equals the shorter, then the earlier."""
    words = [_Word(word) for word in query.split()]
    folds = query == query.lower()
    candidates = _having(words, texts, folds)
    if len(candidates) > weighed:
        candidates = nsmallest(max(weighed, limit), candidates, key=_unlikeliness(words))
    scored = [
        (-sum(word.score(texts[place], searched) for word in words), len(searched), place, searched)
        for place, searched in candidates
    ]
    return [
        Ranked(place, texts[place], Match(-score, _positions(words, texts[place], searched)))
        for score, _, place, searched in nsmallest(limit, scored)
    ]


def _having(words: Sequence[_Word], texts: Sequence[str], folds: bool) -> list[tuple[int, str]]:
    """The texts that contain all letters in order."""
    candidates = list(enumerate(map(folded, texts) if folds else texts))
    for word in words:
        could_be = word.could_be
        candidates = [one for one in candidates if could_be(one[1])]
    return candidates


def _unlikeliness(words: Sequence[_Word]) -> Callable[[tuple[int, str]], tuple[int, int]]:
    def unlikeliness(one: tuple[int, str]) -> tuple[int, int]:
        searched = one[1]
        last_part = searched.rfind("/")
        wholes = [searched.rfind(word.letters) for word in words]
        return -sum((at >= 0) + (at > last_part) for at in wholes), len(searched)

    return unlikeliness


def _positions(words: Sequence[_Word], text: str, searched: str) -> tuple[int, ...]:
    return tuple(sorted({place for word in words for place in word.positions(text, searched)}))


class _Word:
    """One word of a query, prepared for many texts."""

    def __init__(self, word: str) -> None:
        self.letters = word
        # Possessive: a text that does not match is scanned only once.
        pattern = "".join(f"[^{re.escape(letter)}]*+{re.escape(letter)}" for letter in word)
        self.could_be: Callable[[str], object] = re.compile(pattern, re.DOTALL).match

    def score(self, text: str, searched: str) -> int:
        return max(self._rows(text, searched)[-1][1])

    def positions(self, text: str, searched: str) -> list[int]:
        """The positions of the rightmost alignment that has the score."""
        rows = self._rows(text, searched)
        chosen: list[int] = []
        for places, scores in reversed(rows):
            at, highest = 0, _NOWHERE
            for place, score in zip(places, scores, strict=True):
                if chosen:
                    between = chosen[-1] - place - 1
                    if between < 0:
                        break
                    score += _RUN if between == 0 else -_GAP - _GAP_LETTER * between
                if score >= highest:
                    at, highest = place, score
            chosen.append(at)
        return chosen

    def _rows(self, text: str, searched: str) -> list[_Row]:
        """For each letter its possible places, and the best score up to each of them."""
        rows: list[_Row] = []
        last_part = text.rfind("/", 0, -1)
        first_place = -1
        for letter in self.letters:
            at = first_place = searched.find(letter, first_place + 1)
            places = []
            scores = []
            while at >= 0:
                places.append(at)
                scores.append(_worth(text, at, last_part))
                at = searched.find(letter, at + 1)
            rows.append((places, _joined(rows[-1], places, scores) if rows else scores))
        places, scores = rows[-1]
        for number, at in enumerate(places):
            if at + 1 == len(text) or not text[at + 1].isalnum():
                scores[number] += _WORD_END
        return rows


def _worth(text: str, at: int, last_part: int) -> int:
    """The score of a letter by its place alone."""
    worth = _LETTER + _LAST_PART if at > last_part else _LETTER
    if at == 0:
        return worth + _PART_START
    left = text[at - 1]
    if left.isalnum():
        return worth + _CAMEL if text[at].isupper() and not left.isupper() else worth
    return worth + (_PART_START if left == "/" else _START)


def _joined(before: _Row, places: list[int], scores: list[int]) -> list[int]:
    """The scores with the best way from one of the places of the letter before. Both lists are read once: the
    best score over a gap is carried along, and loses a little with each step."""
    earlier, earlier_scores = before
    joined = []
    index = 0
    over_gap = _NOWHERE
    carried_to = 0
    for at, score in zip(places, scores, strict=True):
        over_gap -= _GAP_LETTER * (at - carried_to)
        carried_to = at
        while index < len(earlier) and earlier[index] < at - 1:
            gap = _GAP + _GAP_LETTER * (at - earlier[index] - 1)
            over_gap = max(over_gap, earlier_scores[index] - gap)
            index += 1
        is_run = index < len(earlier) and earlier[index] == at - 1
        joined.append(score + (max(over_gap, earlier_scores[index] + _RUN) if is_run else over_gap))
    return joined


def folded(text: str) -> str:
    """The text in lower case; letters that would become two stay as they are."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(one if len(one.lower()) != 1 else one.lower() for one in text)


_NEEDS_QUOTES = re.compile(r'[\s"\\]')
_FORBIDDEN = re.compile("[\0-\x1f\x7f`\ud800-\udfff]")
"""A backtick could turn the text after it into code; the others occur in no prompt."""


def can_be_mentioned(path: str) -> bool:
    return _FORBIDDEN.search(path) is None


def mention_of(path: str) -> str:
    """`@path`, quoted if necessary."""
    if not _NEEDS_QUOTES.search(path):
        return f"@{path}"
    return '@"' + re.sub(r'(["\\])', r"\\\1", path) + '"'


def name_below(folder: Path, name: str) -> str:
    """A path below the working directory as it is mentioned: absolute if it starts with `~`."""
    return str(folder / name) if name.startswith("~") else name
