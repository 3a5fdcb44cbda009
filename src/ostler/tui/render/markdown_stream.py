"""Markdown while it arrives: splits it into parts that are final and a rest that may still change."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from ostler.core.lazy import lazy_module

if TYPE_CHECKING:
    from ostler.tui.render import code
else:
    code = lazy_module("ostler.tui.render.code")

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


_ONLY_MARKS = re.compile(r"[-=+*_#>`~|:.)\d \t]*$")

_ONLY_FENCE = re.compile(r"[ \t]*[`~]*$")


_Block = Literal["", "paragraph", "quote", "list", "indented", "fence"]


class Fence(msgspec.Struct, frozen=True):
    """Code in a part: `text[start:end]`, less the blanks that its fence is indented by."""

    language: str
    start: int
    end: int
    indent: int = 0
    state: tuple[str, ...] = ()
    """Of the lexer, before the first line; empty at the beginning of a text."""


class Part(msgspec.Struct, frozen=True):
    """Some blocks of a text, as they were written. Put together, the parts are the text."""

    text: str
    begins: bool = True
    """It is the first part of its text."""
    continues: bool = False
    """It goes on with the list or the code of the part before it."""
    fence: Fence | None = None
    number: int | None = None
    """Of the first item, where it goes on with a numbered list."""


class MarkdownStream:
    """Splits a text into parts while it arrives.

    - A part that was given never changes, and what comes later does not change how it is drawn.
    - The parts and `rest`, put together, are the text. How it is cut into deltas makes no difference.
    - Every line is looked at once, so the cost is linear.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        """Of the part that is open, without the line that is."""
        self._unfinished: list[str] = []
        self._block: _Block = ""
        self._after_blank = False
        self._after_loose_text = False
        """It may belong to the quote before it, or be a paragraph that gets underlined."""
        self._begins = True
        self._continues = False
        self._closed: list[Part] = []
        self._list = ListPlace()
        self._fence = FencePlace()

    @property
    def rest(self) -> str:
        return "".join([*self._lines, *self._unfinished])

    def feed(self, delta: str) -> list[Part]:
        """The parts that are closed now."""
        head, newline, tail = delta.rpartition("\n")
        if not newline:
            self._unfinished.append(delta)
            return []
        lines = "".join([*self._unfinished, head]).split("\n")
        self._unfinished = [tail]
        for line in lines:
            self._take(line + "\n")
        return self._taken()

    def finish(self) -> list[Part]:
        """The parts that are left: nothing will follow."""
        if last := "".join(self._unfinished):
            self._unfinished = []
            self._take(last)
        if self._lines:
            self._close()
        return self._taken()

    def open_part(self) -> Part | None:
        """The rest as it can be drawn now: without marks whose meaning the next characters decide."""
        last = "".join(self._unfinished)
        marks = _ONLY_FENCE if self._block == "fence" else _ONLY_MARKS
        text = "".join(self._lines) + ("" if marks.match(last) else last)
        return self._part(text) if text.strip() else None

    def _taken(self) -> list[Part]:
        closed, self._closed = self._closed, []
        return closed

    # --- lines ----------------------------------------------------------------------------------------

    def _take(self, line: str) -> None:
        if self._block == "fence":
            self._take_code(line)
            return
        if not line.strip():
            self._lines.append(line)
            self._after_blank, self._after_loose_text = True, False
            self._list.see_blank()
            if self._block in ("paragraph", "quote"):
                self._close()
            return
        bare = line.rstrip()
        if self._block and self._ends_before(bare):
            self._close()
        is_underlined = self._block == "paragraph" and underlines(bare, self._lines)
        if not self._block:
            self._block = self._begun(bare)
        elif self._block == "list":
            self._go_on_with_list(bare)
        elif self._block == "quote" and kind_of(bare) == "item":
            self._block, self._list = "list", ListPlace.at(bare)
        self._lines.append(line)
        self._after_blank = False
        self._after_loose_text = self._block == "quote" and self._is_loose_text(bare)
        if self._block == "fence":
            self._fence.start = sum(map(len, self._lines))
        elif not self._block or is_underlined:
            self._close()

    def _begun(self, line: str) -> _Block:
        """The block that begins with a line; none if it ends with it, too."""
        match kind := kind_of(line):
            case "heading" | "rule":
                return ""
            case "item":
                self._list = ListPlace.at(line)
                return "list"
            case "fence":
                self._fence = FencePlace.at(line)
                return "fence"
            case "text":
                return "paragraph"
            case _:
                return kind

    def _is_loose_text(self, line: str) -> bool:
        kind = kind_of(line)
        return kind == "text" or (self._after_loose_text and not ends_paragraph(line, kind))

    def _ends_before(self, line: str) -> bool:
        kind = kind_of(line)
        if (self._block == "paragraph" or self._after_loose_text) and not ends_paragraph(line, kind):
            return False
        match self._block:
            case "quote":
                return kind != "quote" and ends_paragraph(line, kind)
            case "indented":
                return kind != "indented"
            case "list":
                return self._list.ends_before(line, kind, after_blank=self._after_blank)
            case _:
                return True

    def _go_on_with_list(self, line: str) -> None:
        if not self._list.is_next_item(line):
            self._list.go_into(line)
            return
        if self._list.is_of_another(line):
            self._list = ListPlace.at(line)
            return
        if len(self._lines) >= PORTION:
            self._emit("".join(self._lines))
            self._lines = []
            self._continues = True
            self._list.first = self._list.number + 1
        self._list = self._list.with_next_item(line)

    def _take_code(self, line: str) -> None:
        fence = self._fence
        if fence.is_closed_by(line):
            fence.end = sum(map(len, self._lines))
            self._lines.append(line)
            self._close()
            return
        self._lines.append(line)
        if len(self._lines) >= fence.limit:
            self._close_some_code()

    def _close_some_code(self) -> None:
        """Up to where the lexer can go on, so that the rest is coloured as in one go."""
        fence = self._fence
        text = "".join(self._lines)
        lines = unindented(text[fence.start :], fence.indent)
        count, state = code.highlighted_lines(code.lexer_of(fence.language), lines, fence.state)
        if not count:
            fence.limit *= 2
            return
        count += text.count("\n", 0, fence.start)
        self._emit("".join(self._lines[:count]))
        self._lines = self._lines[count:]
        self._continues = True
        fence.start, fence.state, fence.limit = 0, state, PORTION

    # --- parts ----------------------------------------------------------------------------------------

    def _close(self) -> None:
        self._emit("".join(self._lines))
        self._lines = []
        self._block = ""
        self._after_blank = self._after_loose_text = self._continues = False
        self._list = ListPlace()

    def _emit(self, text: str) -> None:
        self._closed.append(self._part(text))
        self._begins = False

    def _part(self, text: str) -> Part:
        fence = None
        if self._block == "fence":
            at = self._fence
            end = len(text) if at.end is None else at.end
            fence = Fence(at.language, min(at.start, end), end, at.indent, at.state)
        return Part(text, self._begins, self._continues, fence, self._list.first)


def unindented(code: str, indent: int) -> str:
    """Without the blanks, up to so many, that each line begins with."""
    if not indent:
        return code
    return re.sub(rf"^ {{1,{indent}}}", "", code, flags=re.MULTILINE)


def parts_of(text: str) -> list[Part]:
    """Of a text that is whole."""
    growing = MarkdownStream()
    return [*growing.feed(text), *growing.finish()]
