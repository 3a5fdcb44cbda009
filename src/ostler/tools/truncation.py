"""Limits long text to whole lines, never splitting a character: `Tail` and `LineWindow`."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterable

import msgspec

MAX_LINES = 2000
MAX_BYTES = 50 * 1024 - 512
"""Bytes of the text itself: with the notes on what was cut, a result stays within 50 KiB."""
MAX_LINE = 2000
"""Characters of one line."""


class TruncatedText(msgspec.Struct, frozen=True):
    """The remaining part of a text. `lines` counts its lines, `total_lines` those of the original."""

    text: str
    lines: int
    total_lines: int
    cut_lines: int
    """How many of the kept lines were longer than a line may be."""

    @property
    def truncated(self) -> bool:
        return self.lines < self.total_lines or self.cut_lines > 0


def byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def without_surrogates(text: str) -> str:
    """Text that can be stored and sent: undecodable bytes, decoded as surrogates, become question marks."""
    return text.encode("utf-8", "replace").decode()


def size_text(size: int) -> str:
    """`1.2 MiB`, for people and models alike."""
    if size < 1024:
        return f"{size} B"
    value, unit = size / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"


def long_line_marker(omitted: int) -> str:
    return f"… [+{omitted} characters]"


def cut_line(line: str, limit: int = MAX_LINE) -> str:
    """A line of at most `limit` characters, with a marker that says how many were left out."""
    return line if len(line) <= limit else line[:limit] + long_line_marker(len(line) - limit)


def first_that_fit(lines: Iterable[str], max_bytes: int = MAX_BYTES) -> list[str]:
    """The lines from the beginning whose joined text, newlines included, stays within the limit."""
    fitting: list[str] = []
    size = 0
    for line in lines:
        size += byte_length(line) + 1
        if size > max_bytes:
            break
        fitting.append(line)
    return fitting


class Tail:
    """The end of a text that arrives in pieces. Memory stays bounded however much arrives."""

    def __init__(
        self, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES, max_line: int = MAX_LINE
    ) -> None:
        self._max_bytes = max_bytes
        self._max_line = max_line
        self._max_lines = max_lines
        self._closed: deque[str] = deque(maxlen=max_lines)
        self._closed_total = 0
        self._open: list[str] = []
        self._open_length = 0
        self._omitted = 0

    def feed(self, text: str) -> None:
        first, *lines = text.split("\n")
        self._extend(first)
        if not lines:
            return
        self._close()
        last = lines.pop()
        self._closed_total += len(lines)
        self._closed.extend(cut_line(line, self._max_line) for line in lines[-self._max_lines :])
        self._extend(last)

    def truncated(self) -> TruncatedText:
        """As much of the end as fits; the whole text if all of it does."""
        open_line = "".join(self._open)
        if self._omitted:
            open_line += long_line_marker(self._omitted)
        lines = [line + "\n" for line in self._closed]
        if open_line:
            lines = [*lines, open_line][-self._max_lines :]
        total = self._closed_total + bool(open_line)
        size, first = 0, len(lines)
        while first > 0 and size + byte_length(lines[first - 1]) <= self._max_bytes:
            first -= 1
            size += byte_length(lines[first])
        if last := lines[first:]:
            cut = sum(len(line.removesuffix("\n")) > self._max_line for line in last)
        else:  # the last line alone is too long
            last = [_end_of(line, self._max_bytes) for line in lines[-1:]]
            cut = len(last)
        return TruncatedText("".join(last), len(last), total, cut)

    def _extend(self, part: str) -> None:
        room = self._max_line - self._open_length
        if len(part) > room:
            self._omitted += len(part) - max(room, 0)
            part = part[: max(room, 0)]
        if part:
            self._open.append(part)
            self._open_length += len(part)

    def _close(self) -> None:
        line = "".join(self._open)
        self._closed.append(line + long_line_marker(self._omitted) if self._omitted else line)
        self._closed_total += 1
        self._open.clear()
        self._open_length = 0
        self._omitted = 0


def _end_of(line: str, max_bytes: int) -> str:
    return line.encode("utf-8", "replace")[-max_bytes:].decode("utf-8", "ignore") if max_bytes > 0 else ""


_BOM = "\ufeff"
_UNDECODABLE = re.compile("[\udc80-\udcff]")
_MOST_OF_A_LINE = MAX_BYTES - 150
"""Bytes: with its number and the marker of what was cut, a line alone stays within the limit."""


class LineWindow:
    """Keeps at most `limit` lines from line `offset` on (counted from 1), as many as fit with their numbers,
    and counts all others.

    - Feed it the bytes of the text, then call `finish`. It drops carriage returns at the ends of lines and a
      byte order mark.
    - A long line is cut, with a marker that says from which column it continues. With a `column` (of the
      first line, counted from 1), as much of that line is kept as fits.
    """

    def __init__(self, offset: int, limit: int, column: int = 1) -> None:
        self.start = max(offset, 1)
        self.column = max(column, 1)
        self.lines: list[str] = []
        self.full = False
        """Further lines are only counted."""
        self.cut_lines = 0
        self.first_line_length = 0
        """Characters, as far as the first line was seen."""
        self.invalid_utf8 = False
        self._limit = min(limit, MAX_LINES)
        self._size = 0
        self._newlines = 0
        self._ends_open = False
        self._line = 1
        self._open = _OpenLine(self.column, may_have_mark=self.start == 1)

    @property
    def end(self) -> int:
        """The number of the last line kept; `start` - 1 when there is none."""
        return self.start + len(self.lines) - 1

    @property
    def total(self) -> int:
        """How many lines there were in what was fed."""
        return self._newlines + (1 if self._ends_open else 0)

    def feed(self, piece: bytes) -> None:
        if not piece:
            return
        newlines = piece.count(b"\n")
        self._newlines += newlines
        self._ends_open = not piece.endswith(b"\n")
        position = self._skip(piece, newlines)
        while position < len(piece) and not self.full:
            end = piece.find(b"\n", position)
            if end < 0:
                self._open.take(piece[position:])
                return
            self._open.take(piece[position:end])
            self._close()
            position = end + 1

    def finish(self) -> None:
        if self._open.has_begun and not self.full:
            self._close()

    def _skip(self, piece: bytes, newlines: int) -> int:
        """The position in the piece where wanted lines begin."""
        missing = self.start - self._line
        if missing <= 0:
            return 0
        if newlines < missing:
            self._line += newlines
            return len(piece)
        self._line = self.start
        position = 0
        for _ in range(missing):
            position = piece.find(b"\n", position) + 1
        return position

    def _close(self) -> None:
        line, self._open = self._open, _OpenLine()
        line.end()
        if not self.lines:
            self.first_line_length = line.length
        number = self.end + 1
        text = line.text()
        omitted = line.length - (line.column - 1) - len(text)
        if omitted > 0:
            hint = f"use offset={number}, column={line.column + len(text)} for the rest"
            text += f"… [+{omitted} characters; {hint}]"
        size = byte_length(f"{number}\t{text}\n")
        if self.lines and self._size + size > MAX_BYTES:
            self.full = True
            return
        self.lines.append(text)
        self.cut_lines += omitted > 0
        self.invalid_utf8 |= line.invalid_utf8
        self._size += size
        self.full = len(self.lines) >= self._limit


class _OpenLine:
    """A line whose end has not arrived, kept from `column` on as far as there is room for it. An undecodable
    byte counts as one character, so that a column means the same character in every reading."""

    def __init__(self, column: int = 1, *, may_have_mark: bool = False) -> None:
        self.column = column
        self.length = 0
        """Characters so far, kept or not."""
        self.has_begun = False
        self.invalid_utf8 = False
        """Among the kept characters."""
        self._may_have_mark = may_have_mark
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held_return = ""
        self._parts: list[str] = []
        self._room = MAX_LINE if column == 1 else _MOST_OF_A_LINE

    def take(self, part: bytes) -> None:
        self.has_begun = self.has_begun or bool(part)
        self._add(self._decoder.decode(part))

    def end(self) -> None:
        self._add(self._decoder.decode(b"", final=True))

    def text(self) -> str:
        return "".join(self._parts).encode()[:_MOST_OF_A_LINE].decode("utf-8", "ignore")

    def _add(self, text: str) -> None:
        if not text:
            return
        if self._may_have_mark:
            self._may_have_mark = False
            text = text.removeprefix(_BOM)
        text = self._held_return + text
        self._held_return = "\r" if text.endswith("\r") else ""
        self._keep(text.removesuffix("\r"))

    def _keep(self, text: str) -> None:
        before = max(self.column - 1 - self.length, 0)
        self.length += len(text)
        part = text[before : before + self._room]
        if not part:
            return
        self._room -= len(part)
        valid = _UNDECODABLE.sub("\ufffd", part)
        self.invalid_utf8 |= valid != part
        self._parts.append(valid)
