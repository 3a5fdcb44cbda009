"""Finding the places that an edit names, and making all its replacements at once.

Texts are compared with every line end taken as a newline. Positions are then carried back to the text
as it is, so that each line which an edit does not touch keeps its own end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Annotated

import msgspec

from ostler.tools.diff import Splice
from ostler.tools.near_misses import near_miss
from ostler.tools.truncation import without_surrogates
from ostler.vocabulary.errors import ToolFailed

_LOOK_ALIKES = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f\u3000", " ")
)
"""One character for one, so that columns stay the same."""


class Replacement(msgspec.Struct, frozen=True):
    """One replacement."""

    old_text: Annotated[str, msgspec.Meta(description="the text to replace, exactly as it is in the file")]
    new_text: Annotated[str, msgspec.Meta(description="what to put in its place")]
    replace_all: Annotated[bool, msgspec.Meta(description="replace every occurrence, not just one")] = False


class Plan(msgspec.Struct, frozen=True):
    """Sorted splices of the original text, and the numbers of the edits that matched only loosely."""

    splices: list[Splice]
    loose: list[int]


class _Place(msgspec.Struct, frozen=True):
    start: int
    end: int
    edit: int


def plan(original: str, edits: Sequence[Replacement]) -> Plan:
    """Where each edit goes. Raises `ToolFailed`, naming every edit that cannot be made, and makes none."""
    if not edits:
        raise ToolFailed("edits is empty: give at least one {old_text, new_text}")
    text = _with_newlines(original)
    places: list[_Place] = []
    loose: list[int] = []
    problems: list[str] = []
    for number, edit in enumerate(edits, 1):
        old, new = _with_newlines(edit.old_text), _with_newlines(edit.new_text)
        problem = _problem_of_itself(old, new)
        if problem:
            problems.append(f"edit {number}: {problem}")
            continue
        spans = _occurrences(text, old, overlapping=not edit.replace_all)
        if not spans:
            spans, problem = _loosely(text, old, new)
            loose.append(number)
        elif len(spans) > 1 and not edit.replace_all:
            problem = (
                f"old_text occurs {len(spans)} times ({_lines_of(text, spans)}): "
                "add lines around it until it is unique, or set replace_all"
            )
        if problem:
            problems.append(f"edit {number}: {problem}")
            continue
        places += [_Place(start, end, number) for start, end in spans]
    places.sort(key=lambda place: place.start)
    problems += _overlaps(text, places)
    if problems:
        raise ToolFailed(without_surrogates("\n".join(["nothing was changed", *problems])))
    return Plan(_splices(original, text, places, edits), loose)


def _with_newlines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _problem_of_itself(old: str, new: str) -> str:
    if not old:
        return "old_text is empty; to write a whole file use write"
    if old == new:
        return "old_text and new_text are the same (line ends are kept as they are)"
    return ""


def _occurrences(text: str, old: str, *, overlapping: bool) -> list[tuple[int, int]]:
    """All places; those that overlap each other count too where exactly one is wanted."""
    spans = []
    position = text.find(old)
    while position >= 0:
        spans.append((position, position + len(old)))
        position = text.find(old, position + (1 if overlapping else len(old)))
    return spans


def _loosely(text: str, old: str, new: str) -> tuple[list[tuple[int, int]], str]:
    """The one place that is as good as the wanted text, or why there is none."""
    spans = _loose_occurrences(text, old)
    if not spans:
        return [], f"old_text was not found{near_miss(text, old)}"
    if len(spans) > 1:
        return [], (
            f"old_text was not found exactly, and {len(spans)} places are similar "
            f"({_lines_of(text, spans)}): copy it from the file as it is"
        )
    start, end = spans[0]
    if text[start:end] == new:
        return [], f"the file has new_text already (line {_line_number(text, start)})"
    return spans, ""


def _loose_occurrences(text: str, old: str) -> list[tuple[int, int]]:
    """Places that differ only in trailing blanks, curly quotes, dashes or special spaces."""
    lines, wanted = text.split("\n"), old.split("\n")
    plain_lines = [line.translate(_LOOK_ALIKES).rstrip() for line in lines]
    plain_old = "\n".join(line.translate(_LOOK_ALIKES).rstrip() for line in wanted)
    if not plain_old.strip():
        return []
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    plain_starts = [0, *accumulate(len(line) + 1 for line in plain_lines)]
    spans = []
    for plain_start, plain_end in _occurrences("\n".join(plain_lines), plain_old, overlapping=True):
        first = bisect_right(plain_starts, plain_start) - 1
        last = bisect_right(plain_starts, plain_end) - 1
        start = starts[first] + plain_start - plain_starts[first]
        end = starts[last] + plain_end - plain_starts[last]
        if wanted[-1] and plain_end - plain_starts[last] == len(plain_lines[last]):
            end = starts[last] + len(lines[last])  # its trailing blanks belong to what is replaced
        elif wanted[-1] != wanted[-1].rstrip():
            continue  # the blanks it ends with are not trailing ones here
        spans.append((start, end))
    return spans


def _line_number(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _lines_of(text: str, spans: Sequence[tuple[int, int]]) -> str:
    numbers = [str(_line_number(text, start)) for start, _ in spans[:20]]
    return f"lines {', '.join(numbers)}{', …' if len(spans) > 20 else ''}"


def _overlaps(text: str, places: Sequence[_Place]) -> list[str]:
    problems = []
    for one, next_one in pairwise(places):
        if next_one.start < one.end:
            first, second = sorted((one.edit, next_one.edit))
            line = _line_number(text, next_one.start)
            problems.append(f"edits {first} and {second} overlap at line {line}: merge them into one")
    return problems


def _splices(
    original: str, text: str, places: Sequence[_Place], edits: Sequence[Replacement]
) -> list[Splice]:
    """Splices of the original, each narrowed to what really changes."""
    carriage_returns = _carriage_returns(original)
    splices = []
    for place in places:
        new = _with_newlines(edits[place.edit - 1].new_text)
        start, end, new = _narrowed(text, place.start, place.end, new)
        new_here = new.replace("\n", _line_end_at(text, start, end, carriage_returns))
        splices.append(
            Splice(
                start + bisect_left(carriage_returns, start),
                end + bisect_left(carriage_returns, end),
                new_here,
            )
        )
    return splices


def _carriage_returns(original: str) -> list[int]:
    """The positions, in the text with plain newlines, of those newlines that have a carriage return."""
    positions: list[int] = []
    found = original.find("\r\n")
    while found >= 0:
        positions.append(found - len(positions))
        found = original.find("\r\n", found + 2)
    return positions


def _narrowed(text: str, start: int, end: int, new: str) -> tuple[int, int, str]:
    """Without what the old and the new have in common at both ends."""
    old = text[start:end]
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return start + head, end - tail, new[head : len(new) - tail]


def _line_end_at(text: str, start: int, end: int, carriage_returns: Sequence[int]) -> str:
    """The end of the line where a replacement begins; for a last line without one, that of the one before."""
    newline = text.find("\n", start)
    if newline < 0:
        newline = text.rfind("\n", 0, end)
    index = bisect_left(carriage_returns, newline)
    return "\r\n" if index < len(carriage_returns) and carriage_returns[index] == newline else "\n"
