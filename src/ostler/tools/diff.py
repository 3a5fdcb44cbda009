"""A unified diff of two texts."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

import msgspec

from ostler.tools.truncation import MAX_BYTES, MAX_LINES, cut_line, first_that_fit, without_surrogates

CONTEXT_LINES = 3
_MAX_COMPARISONS = 2_000_000
"""Above this, aligning similar lines takes too long; the block is shown as replaced."""


class Change(msgspec.Struct, frozen=True):
    """Old lines [old_start, old_end) became new lines [new_start, new_end); counted from 0."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


class Splice(msgspec.Struct, frozen=True):
    """The characters [start, end) of a text are replaced."""

    start: int
    end: int
    text: str


class Diff(msgspec.Struct, frozen=True):
    text: str
    added: int
    removed: int
    first_line: int
    """The first line that changed, in the new text, counted from 1; 0 when nothing changed."""
    truncated: bool


def lines_of(text: str) -> list[str]:
    """Lines with their ends. Only the newline ends a line, as in every tool that counts them."""
    *closed, last = text.split("\n")
    lines = [line + "\n" for line in closed]
    return [*lines, last] if last else lines


def splice(text: str, splices: Sequence[Splice]) -> str:
    """The text with all splices applied. They are sorted and do not overlap."""
    parts: list[str] = []
    position = 0
    for each in splices:
        parts += (text[position : each.start], each.text)
        position = each.end
    return "".join([*parts, text[position:]])


def diff_of_texts(old: str, new: str, old_name: str, new_name: str, *, whole: bool = False) -> Diff:
    """The diff, cut to what a result may have unless it must be `whole`."""
    old_lines, new_lines = lines_of(old), lines_of(new)
    return _rendered(old_lines, new_lines, _changes(old_lines, new_lines), old_name, new_name, whole=whole)


def diff_of_splices(old: str, splices: Sequence[Splice], name: str, *, whole: bool = False) -> Diff:
    """Aligns only the lines that the splices touch, so a large file costs no more than a small one."""
    old_lines = lines_of(old)
    new_lines = lines_of(splice(old, splices))
    ends = list(accumulate(map(len, old_lines)))
    changes: list[Change] = []
    shift = 0
    for first, last, inside in _touched_regions(splices, ends):
        start_offset = ends[first - 1] if first else 0
        moved = [Splice(s.start - start_offset, s.end - start_offset, s.text) for s in inside]
        before = old_lines[first:last]
        after = lines_of(splice("".join(before), moved))
        new_first = first + shift
        changes += [
            Change(first + c.old_start, first + c.old_end, new_first + c.new_start, new_first + c.new_end)
            for c in _changes(before, after)
        ]
        shift += len(after) - len(before)
    return _rendered(old_lines, new_lines, changes, name, name, whole=whole)


def _touched_regions(splices: Sequence[Splice], ends: list[int]) -> list[tuple[int, int, list[Splice]]]:
    regions: list[tuple[int, int, list[Splice]]] = []
    for each in splices:
        first = min(bisect_right(ends, each.start), max(len(ends) - 1, 0))
        last = min(bisect_right(ends, each.end) + 1, len(ends))
        if regions and first < regions[-1][1]:
            start, stop, inside = regions[-1]
            regions[-1] = (start, max(stop, last), [*inside, each])
        else:
            regions.append((first, last, [each]))
    return regions


def common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many items, or characters of two texts, are the same at the start and at the end."""
    shorter = min(len(old), len(new))
    head = tail = 0
    while head < shorter and old[head] == new[head]:
        head += 1
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def _changes(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    head, tail = common_ends(old, new)
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    if not before and not after:
        return []
    occurrences = Counter(after)
    comparisons = sum(occurrences[line] for line in before)
    if not comparisons or comparisons > _MAX_COMPARISONS:
        return [Change(head, head + len(before), head, head + len(after))]

    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [
        Change(head + a, head + b, head + c, head + d)
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


def _rendered(
    old: Sequence[str],
    new: Sequence[str],
    changes: Sequence[Change],
    old_name: str,
    new_name: str,
    *,
    whole: bool,
) -> Diff:
    if not changes:
        return Diff("", 0, 0, 0, False)
    rows = [f"--- {old_name}", f"+++ {new_name}"]
    for hunk in _hunks(changes):
        rows += _hunk_rows(old, new, hunk)
    shortened = rows if whole else [cut_line(row) for row in rows]
    rows_that_fit = rows if whole else first_that_fit(shortened[:MAX_LINES], MAX_BYTES)
    return Diff(
        text=without_surrogates("".join(row + "\n" for row in rows_that_fit)),
        added=sum(c.new_end - c.new_start for c in changes),
        removed=sum(c.old_end - c.old_start for c in changes),
        first_line=changes[0].new_start + 1,
        truncated=len(rows_that_fit) < len(rows) or shortened != rows,
    )


def _hunks(changes: Sequence[Change]) -> list[list[Change]]:
    hunks: list[list[Change]] = []
    for change in changes:
        if hunks and change.old_start - hunks[-1][-1].old_end <= 2 * CONTEXT_LINES:
            hunks[-1].append(change)
        else:
            hunks.append([change])
    return hunks


def _hunk_rows(old: Sequence[str], new: Sequence[str], hunk: Sequence[Change]) -> list[str]:
    before = min(hunk[0].old_start, CONTEXT_LINES)
    after = min(len(old) - hunk[-1].old_end, CONTEXT_LINES)
    old_start, new_start = hunk[0].old_start - before, hunk[0].new_start - before
    old_end, new_end = hunk[-1].old_end + after, hunk[-1].new_end + after
    rows = [f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@"]
    position = old_start
    for change in hunk:
        rows += _rows(" ", old[position : change.old_start])
        rows += _rows("-", old[change.old_start : change.old_end])
        rows += _rows("+", new[change.new_start : change.new_end])
        position = change.old_end
    return rows + _rows(" ", old[position:old_end])


def _rows(sign: str, lines: Sequence[str]) -> list[str]:
    rows: list[str] = []
    for line in lines:
        rows.append(sign + line.rstrip("\r\n"))
        if not line.endswith("\n"):
            rows.append("\\ No newline at end of file")
    return rows


def _range(start: int, end: int) -> str:
    length = end - start
    begin = start + 1 if length else start
    return str(begin) if length == 1 else f"{begin},{length}"
