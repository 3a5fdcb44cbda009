"""What a line of Markdown may begin, go on with or end, as far as lines tell without their text."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Literal

PORTION = 40
"""Lines after which a long list or a long piece of code is closed in part."""

_BLANKS = re.compile(r"[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})[ \t]*([^\s`]*)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,})$")
_UNDERLINING = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_TABLE_BEGIN = re.compile(r"(?=.*\|)[-:| \t]+$")
_QUOTE = re.compile(r" {0,3}>")
_ITEM = re.compile(r" *(?:([-+*])|(\d{1,9})([.)]))(?:([ \t]+)(?=\S)|[ \t]*$)")

LineKind = Literal["text", "fence", "heading", "rule", "quote", "item", "indented"]


class ListPlace:
    """Where in a list a line stands."""

    def __init__(self, mark: str = "", number: int = 0) -> None:
        self.first: int | None = None
        """The number of its first item, where the list began in an earlier part."""
        self.number = number
        self._mark = mark
        self._content = 0
        """The column where the text of its present item begins."""
        self._is_empty = False
        """Nothing stands behind the mark of its present item."""
        self._code: FencePlace | None = None
        """That its present item has, and that is open."""
        self._takes_text = False
        """A line that is not indented may go on with what its present item says."""

    @classmethod
    def at(cls, line: str) -> ListPlace:
        line = line.expandtabs(4)
        found = _ITEM.match(line)
        assert found is not None
        place = cls(found[1] or found[3], int(found[2] or 0))
        blanks = len(found[4] or "")
        place._content = found.end() + (1 if not blanks else 1 - blanks if blanks > 4 else 0)
        place._is_empty = not blanks
        place._read(line[found.end() :])
        return place

    def with_next_item(self, line: str) -> ListPlace:
        """Numbers count on from the first one, whatever the others say."""
        place = ListPlace.at(line)
        place.first, place.number = self.first, self.number + 1
        return place

    def go_into(self, line: str) -> None:
        """A line of the present item that is not its first."""
        self._is_empty = False
        self._read(line.strip())

    def _read(self, text: str) -> None:
        if self._code is not None:
            self._takes_text = False
            self._code = None if self._code.is_closed_by(text) else self._code
        elif _FENCE.match(text):
            self._takes_text = False
            self._code = FencePlace.at(text)
        else:
            self._takes_text = not self._is_empty

    def see_blank(self) -> None:
        if self._is_empty:
            self._content = sys.maxsize

    def holds(self, line: str) -> bool:
        """It is indented as far as the text of the present item."""
        return _indent(line) >= self._content

    def is_next_item(self, line: str) -> bool:
        return not self.holds(line) and kind_of(line) == "item"

    def is_of_another(self, line: str) -> bool:
        return ListPlace.at(line)._mark != self._mark

    def ends_before(self, line: str, kind: LineKind, *, after_blank: bool) -> bool:
        if self.holds(line):
            return False
        if kind == "item":
            return self.is_of_another(line)
        return after_blank or not self._takes_text or kind in ("fence", "heading", "rule", "quote")


class FencePlace:
    """Where in a piece of code a line stands."""

    def __init__(self, mark: str = "```", language: str = "", indent: int = 0) -> None:
        self.language = language
        self.indent = indent
        self.start = 0
        self.end: int | None = None
        self.state: tuple[str, ...] = ()
        self.limit = PORTION
        self._closing = re.compile(rf" {{0,3}}{mark[0]}{{{len(mark)},}}[ \t]*$")

    @classmethod
    def at(cls, line: str) -> FencePlace:
        found = _FENCE.match(line)
        assert found is not None
        return cls(found[1], found[2], _indent(line))

    def is_closed_by(self, line: str) -> bool:
        return bool(self._closing.match(line.rstrip()))


def kind_of(line: str) -> LineKind:
    if _indent(line) >= 4:
        return "indented"
    if _FENCE.match(line):
        return "fence"
    if _HEADING.match(line):
        return "heading"
    if _RULE.match(line):
        return "rule"
    if _QUOTE.match(line):
        return "quote"
    return "item" if _ITEM.match(line) else "text"


def ends_paragraph(line: str, kind: LineKind) -> bool:
    """Of items, only those with a text do, and of numbered ones only the first."""
    match kind:
        case "item":
            found = _ITEM.match(line)
            return found is not None and found[4] is not None and found[2] in (None, "1")
        case "rule":
            return not _UNDERLINING.match(line)
        case _:
            return kind in ("fence", "heading", "quote")


def _indent(line: str) -> int:
    found = _BLANKS.match(line)
    assert found is not None
    return len(found[0].expandtabs(4))


def underlines(line: str, above: Sequence[str]) -> bool:
    """It makes the text above a heading; in a table it is a row."""
    return bool(_UNDERLINING.match(line)) and not any(map(_TABLE_BEGIN.match, above[1:]))
