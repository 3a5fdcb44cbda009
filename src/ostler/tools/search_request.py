"""What grep is asked and what its engines answer, whichever of them runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ostler.tools.truncation import MAX_BYTES, first_that_fit, without_surrogates

MAX_LINE = 500


class SearchRequest(msgspec.Struct, frozen=True):
    pattern: str
    root: Path
    """A directory, or a single file."""
    glob: str = ""
    ignore_case: bool = False
    literal: bool = False
    context: int = 0
    limit: int = 100


class FoundLine(msgspec.Struct, frozen=True):
    """A line that matches, or one beside it. `path` is relative to the root; empty for the root itself."""

    path: str
    number: int
    text: str
    matches: bool = True


class SearchResult(msgspec.Struct, frozen=True):
    lines: list[FoundLine]
    has_more: bool
    """There are more matches than were asked for."""


class Collector:
    """Takes found lines in order until there are enough."""

    def __init__(self, request: SearchRequest) -> None:
        self._request = request
        self._lines: list[FoundLine] = []
        self._matches = 0
        self._last_match: FoundLine | None = None
        self.has_more = False

    def add(self, line: FoundLine) -> bool:
        """False when no more are wanted."""
        if self.has_more:
            return False
        if line.matches and self._matches == self._request.limit:
            self.has_more = True
            return False
        if line.matches:
            self._matches += 1
            self._last_match = line
        self._lines.append(line)
        return True

    def result(self) -> SearchResult:
        """Without the lines that only lead up to a match which is not shown."""
        last = self._last_match
        if last is None:
            return SearchResult([], self.has_more)
        while (
            self._lines[-1].path != last.path or self._lines[-1].number > last.number + self._request.context
        ):
            self._lines.pop()
        return SearchResult(self._lines, self.has_more)


def as_rows(lines: Sequence[FoundLine], prefix: str, *, grouped: bool) -> tuple[list[str], bool]:
    """`path:12:text` for a match, `path-11-text` beside it, `--` between groups; and whether all fit."""
    rows: list[str] = []
    previous: FoundLine | None = None
    for line in lines:
        if grouped and previous and (previous.path != line.path or previous.number + 1 != line.number):
            rows.append("--")
        sign = ":" if line.matches else "-"
        name = "/".join(part for part in (prefix, line.path) if part)
        rows.append(without_surrogates(f"{name}{sign}{line.number}{sign}{_shortened(line.text)}"))
        previous = line
    kept = first_that_fit(rows, MAX_BYTES)
    return kept, len(kept) == len(rows)


def _shortened(text: str) -> str:
    # How much is missing is not told: ripgrep cuts long lines itself and does not say.
    return text if len(text) <= MAX_LINE else text[:MAX_LINE] + "… [cut]"
