"""Markdown while it arrives: splits it into final parts and one that may still change."""

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
"""Lines after which a part of a long list or code block is closed."""

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
    """The place of a line in a list."""

    def __init__(self, mark: str = "", number: int = 0) -> None:
        self.first: int | None = None
        """The number of its first item, if the list began in an earlier part."""
        self.number = number
        self._mark = mark
        self._content = 0
        """The column where the text of the present item begins."""
        self._is_empty = False
        """The present item has no text yet."""
        self._code: FencePlace | None = None
        """The open code block of the present item."""
        self._takes_text = False
        """A line without indent may continue the present item."""

    @classmethod
    def at(cls, line: str) -> ListPlace:
        line = line.expandtabs(4)
        match = _ITEM.match(line)
        assert match is not None
        place = cls(match[1] or match[3], int(match[2] or 0))
        blanks = len(match[4] or "")
        place._content = match.end() + (1 if not blanks else 1 - blanks if blanks > 4 else 0)
        place._is_empty = not blanks
        place._read(line[match.end() :])
        return place

    def go_into(self, line: str) -> None:
        """A further line of the present item."""
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
        """It is indented like the text of the present item."""
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
    """The place of a line in a code block."""

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
        match = _FENCE.match(line)
        assert match is not None
        return cls(match[1], match[2], _indent(line))

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
    """Whether a line can interrupt a paragraph: items need a text, and numbered ones the number 1."""
    match kind:
        case "item":
            match = _ITEM.match(line)
            return match is not None and match[4] is not None and match[2] in (None, "1")
        case "rule":
            return not _UNDERLINING.match(line)
        case _:
            return kind in ("fence", "heading", "quote")


def _indent(line: str) -> int:
    match = _BLANKS.match(line)
    assert match is not None
    return len(match[0].expandtabs(4))


def underlines(line: str, above: Sequence[str]) -> bool:
    """It underlines a heading; in a table it is a row."""
    return bool(_UNDERLINING.match(line)) and not any(map(_TABLE_BEGIN.match, above[1:]))


_ONLY_MARKS = re.compile(r"[-=+*_#>`~|:.)\d \t]*$")
_ONLY_FENCE = re.compile(r"[ \t]*[`~]*$")
_Block = Literal["", "paragraph", "quote", "list", "indented", "fence"]


class Fence(msgspec.Struct, frozen=True):
    """The code of a part: `text[start:end]`, without the indent of its fence."""

    language: str
    start: int
    end: int
    indent: int = 0
    state: tuple[str, ...] = ()
    """The lexer state before the first line; empty at the beginning."""


class Part(msgspec.Struct, frozen=True):
    """Some blocks of a text. Joined, all parts are the text."""

    text: str
    begins: bool = True
    """It is the first part of the text."""
    continues: bool = False
    """It continues the list or code of the part before."""
    fence: Fence | None = None
    number: int | None = None
    """The number of the first item, if it continues a numbered list."""


class MarkdownStream:
    """Splits a text into parts while it arrives.

    - A closed part never changes, and later text does not change how it is drawn.
    - Joined, the parts and `remainder` are the text, however it is cut into deltas.
    - Each line is read once, so the cost is linear.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        """The lines of the open part, without the open line."""
        self._unfinished: list[str] = []
        self._block: _Block = ""
        self._after_blank = False
        self._after_loose_text = False
        """It may belong to the quote before, or become a heading."""
        self._begins = True
        self._continues = False
        self._closed: list[Part] = []
        self._list = ListPlace()
        self._fence = FencePlace()

    @property
    def remainder(self) -> str:
        return "".join([*self._lines, *self._unfinished])

    def feed(self, delta: str) -> list[Part]:
        """Adds a delta; returns the parts that it closes."""
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
        """Ends the text; returns the remaining parts."""
        if last := "".join(self._unfinished):
            self._unfinished = []
            self._take(last)
        if self._lines:
            self._close()
        return self._taken()

    def open_part(self) -> Part | None:
        """The remainder as it can be drawn now, without marks that the next characters decide."""
        last = "".join(self._unfinished)
        marks = _ONLY_FENCE if self._block == "fence" else _ONLY_MARKS
        text = "".join(self._lines) + ("" if marks.match(last) else last)
        return self._part(text) if text.strip() else None

    def _taken(self) -> list[Part]:
        closed, self._closed = self._closed, []
        return closed

    # --- lines ------------------------------------------------------------------------------------------

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
        """The block that begins with a line; None if it also ends with it."""
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
        # Items are numbered from the first one on, whatever the text says.
        first, number, self._list = self._list.first, self._list.number + 1, ListPlace.at(line)
        self._list.first, self._list.number = first, number

    def _take_code(self, line: str) -> None:
        fence = self._fence
        is_closed = fence.is_closed_by(line)
        if is_closed:
            fence.end = sum(map(len, self._lines))
        self._lines.append(line)
        if is_closed:
            self._close()
        elif len(self._lines) >= fence.limit:
            self._close_some_code()

    def _close_some_code(self) -> None:
        """Closes code up to a line where the lexer can continue."""
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

    # --- parts ------------------------------------------------------------------------------------------

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
    """Removes up to so many leading spaces from each line."""
    if not indent:
        return code
    return re.sub(rf"^ {{1,{indent}}}", "", code, flags=re.MULTILINE)


def parts_of(text: str) -> list[Part]:
    """The parts of a complete text."""
    growing = MarkdownStream()
    return [*growing.feed(text), *growing.finish()]
