"""Where a Markdown text is code, in which nothing has a meaning of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"^[ \t]*(?:(`{3,})[^`\n]*|(~{3,})[^\n]*)$", re.MULTILINE)
_TICKS = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


def outside_code(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a text, as begin and end, that are neither in a fence nor between backticks.

    A fence without an end reaches to the end of the text; backticks without an end are only backticks.
    """
    at = 0
    while fence := _FENCE.search(text, at):
        yield from _outside_ticks(text, at, fence.start())
        at = _end_of_fence(text, fence)
    yield from _outside_ticks(text, at, len(text))


def _end_of_fence(text: str, fence: re.Match[str]) -> int:
    mark = fence[1] or fence[2]
    closing = re.compile(rf"^[ \t]*{mark[0]}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
    closed = closing.search(text, min(fence.end() + 1, len(text)))
    return closed.end() if closed else len(text)


def _outside_ticks(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    closings = _next_of_same_length(text, begin, end)
    at = begin
    for opening in _TICKS.finditer(text, begin, end):
        if opening.start() < at or (closed := closings.get(opening.start())) is None:
            continue
        yield at, opening.start()
        at = closed
    yield at, end


def _next_of_same_length(text: str, begin: int, end: int) -> dict[int, int]:
    """For each run of backticks the end of the next one that is as long, in the same paragraph."""
    closings: dict[int, int] = {}
    last: dict[int, int] = {}
    at = begin
    for run in _TICKS.finditer(text, begin, end):
        if _BLANK_LINE.search(text, at, run.start()):
            last.clear()
        length = run.end() - run.start()
        if length in last:
            closings[last[length]] = run.end()
        last[length] = run.start()
        at = run.end()
    return closings
