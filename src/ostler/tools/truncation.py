"""Keeping long text within limits: whole lines where possible, never half a character."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

MAX_LINES = 2000
MAX_BYTES = 50 * 1024 - 512
"""Of the text itself: with the notes on what was cut, a result stays within 50 KiB."""
MAX_LINE = 2000
"""Characters of one line."""


class Kept(msgspec.Struct, frozen=True):
    """What was kept of a text. `lines` counts the kept ones, `total_lines` all there were."""

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
    """Text that can be stored and sent: undecodable bytes, kept as surrogates, become question marks."""
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
    kept: list[str] = []
    size = 0
    for line in lines:
        size += byte_length(line) + 1
        if size > max_bytes:
            break
        kept.append(line)
    return kept


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
        first, *rest = text.split("\n")
        self._extend(first)
        if not rest:
            return
        self._close()
        last = rest.pop()
        self._closed_total += len(rest)
        self._closed.extend(cut_line(line, self._max_line) for line in rest[-self._max_lines :])
        self._extend(last)

    def kept(self) -> Kept:
        """As much of the end as fits; the text itself when all of it does."""
        open_line = "".join(self._open)
        if self._omitted:
            open_line += long_line_marker(self._omitted)
        lines = [line + "\n" for line in self._closed]
        if open_line:
            lines = [*lines, open_line][-self._max_lines :]
        total = self._closed_total + (1 if open_line else 0)

        size = 0
        first = len(lines)
        while first > 0 and size + byte_length(lines[first - 1]) <= self._max_bytes:
            first -= 1
            size += byte_length(lines[first])
        chosen = lines[first:] or [_end_of(line, self._max_bytes) for line in lines[-1:]]
        cut = sum(len(line.removesuffix("\n")) > self._max_line for line in chosen)
        if not lines[first:]:
            cut = len(chosen)
        return Kept("".join(chosen), len(chosen), total, cut)

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
