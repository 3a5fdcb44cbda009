"""The edit tool: locates all replacements in a file, then applies them at once.

Texts are compared with every line end as a newline. The positions are mapped back to the original text, so a
line that no edit touches keeps its line end.
"""

from __future__ import annotations

import stat
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from ostler.core.function_tool import tool
from ostler.core.lazy import lazy_module
from ostler.core.tool import BeforeCall, ToolContext
from ostler.schema.errors import ToolFailed
from ostler.schema.outcomes import Ok, ok
from ostler.tools.files import (
    MAX_DIGESTED,
    digest_of,
    display_path,
    file_errors,
    judged_path,
    last_seen,
    not_found,
    remember,
    require_unchanged,
    run_cancellable,
    run_to_completion,
)
from ostler.tools.truncation import cut_line, size_text, without_surrogates

if TYPE_CHECKING:
    from ostler.core import files
    from ostler.tools import diff as diffs
    from ostler.tools import media
else:
    diffs = lazy_module("ostler.tools.diff")
    files = lazy_module("ostler.core.files")
    media = lazy_module("ostler.tools.media")

_MAX_SHOWN = 12
_MAX_COMPARED = 20_000
_SIMILAR = 0.6


def near_miss(text: str, wanted: str) -> str:
    """`: …` with the most similar lines, or advice if there are none."""
    lines, wanted_lines = text.split("\n"), wanted.strip("\n").split("\n")
    at = _same_but_for_blanks(lines, wanted_lines)
    if at is not None:
        return (
            f"; lines {at + 1}-{at + len(wanted_lines)} differ from it only in whitespace (indentation, "
            "tabs, spaces). They are:\n" + _numbered(lines, at, len(wanted_lines))
        )
    near = _most_similar(lines, wanted_lines)
    if near is None:
        return "; no similar text in the file: read the file again"
    return "; the most similar lines are:\n" + _numbered(lines, near, len(wanted_lines))


def _numbered(lines: Sequence[str], at: int, count: int) -> str:
    shown = lines[at : at + min(count, _MAX_SHOWN)]
    rows = [f"{number}\t{cut_line(line)}" for number, line in enumerate(shown, at + 1)]
    return "\n".join(rows) + ("\n…" if count > _MAX_SHOWN else "")


def _same_but_for_blanks(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    squeezed = ["".join(line.split()) for line in lines]
    target = ["".join(line.split()) for line in wanted]
    if not any(target):
        return None
    for at in range(len(squeezed) - len(target) + 1):
        if squeezed[at] == target[0] and squeezed[at : at + len(target)] == target:
            return at
    return None


def _most_similar(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Compares the longest wanted line, the most distinctive one, with each line of the file."""
    from difflib import SequenceMatcher

    index = max(range(len(wanted)), key=lambda i: len(wanted[i].strip()))
    target = cut_line(wanted[index].strip())
    if not target:
        return None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(target)
    best, best_at = _SIMILAR, None
    for at, line in enumerate(lines[:_MAX_COMPARED]):
        matcher.set_seq1(cut_line(line.strip()))
        may_be_better = matcher.real_quick_ratio() > best and matcher.quick_ratio() > best
        if may_be_better and (ratio := matcher.ratio()) > best:
            best, best_at = ratio, at
    return None if best_at is None else max(best_at - index, 0)


_LOOK_ALIKES = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f\u3000", " ")
)
"""One character for one, so that columns stay the same."""


class Replacement(msgspec.Struct, frozen=True):
    """One replacement."""

    old_text: Annotated[str, msgspec.Meta(description="the exact text to replace")]
    new_text: Annotated[str, msgspec.Meta(description="the replacement text")]
    replace_all: Annotated[bool, msgspec.Meta(description="replace every occurrence")] = False


class Plan(msgspec.Struct, frozen=True):
    """Sorted splices of the original text, and the numbers of the edits that matched only loosely."""

    splices: list[diffs.Splice]
    loose: list[int]


class _Place(msgspec.Struct, frozen=True):
    start: int
    end: int
    edit: int


def plan(original: str, edits: Sequence[Replacement]) -> Plan:
    """Locates each edit. Raises `ToolFailed` with every edit that cannot be applied; then none is."""
    if not edits:
        raise ToolFailed("edits is empty: give at least one {old_text, new_text}")
    text = _with_newlines(original)
    places: list[_Place] = []
    loose: list[int] = []
    problems: list[str] = []
    for number, edit in enumerate(edits, 1):
        try:
            spans, is_exact = _locate(text, edit)
        except ToolFailed as error:
            problems.append(f"edit {number}: {error.message}")
            continue
        places += [_Place(start, end, number) for start, end in spans]
        if not is_exact:
            loose.append(number)
    places.sort(key=lambda place: place.start)
    problems += _overlaps(text, places)
    if problems:
        raise ToolFailed(without_surrogates("\n".join(["nothing was changed", *problems])))
    return Plan(_splices(original, text, places, edits), loose)


def _with_newlines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _locate(text: str, edit: Replacement) -> tuple[list[tuple[int, int]], bool]:
    """The places of an edit, and whether they match exactly; raises `ToolFailed` if it cannot be applied."""
    old, new = _with_newlines(edit.old_text), _with_newlines(edit.new_text)
    if not old:
        raise ToolFailed("old_text is empty; use write to write a whole file")
    if old == new:
        raise ToolFailed("old_text and new_text are the same (line ends are preserved)")
    spans = _occurrences(text, old, overlapping=not edit.replace_all)
    if len(spans) > 1 and not edit.replace_all:
        raise ToolFailed(
            f"old_text occurs {len(spans)} times ({_lines_of(text, spans)}): "
            "include surrounding lines until it is unique, or set replace_all"
        )
    if spans:
        return spans, True
    spans = _loose_occurrences(text, old)
    if not spans:
        raise ToolFailed(f"old_text was not found{near_miss(text, old)}")
    if len(spans) > 1:
        raise ToolFailed(
            f"old_text was not found exactly, and {len(spans)} places are similar "
            f"({_lines_of(text, spans)}): copy it exactly from the file"
        )
    start, end = spans[0]
    if text[start:end] == new:
        raise ToolFailed(f"the file already has new_text (line {_line_number(text, start)})")
    return spans, False


def _occurrences(text: str, old: str, *, overlapping: bool) -> list[tuple[int, int]]:
    """All occurrences; overlapping ones count too where exactly one is wanted."""
    spans = []
    position = text.find(old)
    while position >= 0:
        spans.append((position, position + len(old)))
        position = text.find(old, position + (1 if overlapping else len(old)))
    return spans


def _loose_occurrences(text: str, old: str) -> list[tuple[int, int]]:
    """Places that differ only in trailing whitespace, curly quotes, dashes or special spaces."""
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
            end = starts[last] + len(lines[last])  # its trailing blanks are replaced as well
        elif wanted[-1] != wanted[-1].rstrip():
            continue  # here, text follows the blanks that old_text ends with
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
) -> list[diffs.Splice]:
    """Splices of the original, each narrowed to the part that changes."""
    carriage_returns = _carriage_returns(original)
    splices = []
    for place in places:
        new = _with_newlines(edits[place.edit - 1].new_text)
        head, tail = diffs.common_ends(text[place.start : place.end], new)
        start, end, new = place.start + head, place.end - tail, new[head : len(new) - tail]
        new_here = new.replace("\n", _line_end_at(text, start, end, carriage_returns))
        before_start, before_end = bisect_left(carriage_returns, start), bisect_left(carriage_returns, end)
        splices.append(diffs.Splice(start + before_start, end + before_end, new_here))
    return splices


def _carriage_returns(original: str) -> list[int]:
    """The positions, in the text with plain newlines, of those newlines that have a carriage return."""
    positions: list[int] = []
    at = original.find("\r\n")
    while at >= 0:
        positions.append(at - len(positions))
        at = original.find("\r\n", at + 2)
    return positions


def _line_end_at(text: str, start: int, end: int, carriage_returns: Sequence[int]) -> str:
    """The end of the line where a replacement begins; for a last line without one, that of the one before."""
    newline = text.find("\n", start)
    if newline < 0:
        newline = text.rfind("\n", 0, end)
    index = bisect_left(carriage_returns, newline)
    return "\r\n" if index < len(carriage_returns) and carriage_returns[index] == newline else "\n"


_BOM = b"\xef\xbb\xbf"


class _Edited(msgspec.Struct, frozen=True):
    plan: Plan
    diff: diffs.Diff
    content: bytes
    digest: str


@tool(source="built-in", kind="edit")
async def edit(path: str, edits: list[Replacement], *, context: ToolContext) -> Ok:
    """Edits a text file. Each edit replaces old_text, which must occur exactly once (or set replace_all),
    with new_text. All edits are matched against the original file; if one cannot be applied, none is. You
    must have read the file in this session, and it must be unchanged since.

    Args:
        path: the file, relative to the working directory or absolute
        edits: the replacements; they must not overlap
    """
    file = judged_path(path, context)
    seen = await last_seen(context, file)
    name = display_path(file, context.cwd)
    with file_errors(path):
        edited = await run_to_completion(lambda: _edit(file, path, name, edits, seen))
    remember(context.memory, file, edited.digest)
    count, diff = len(edited.plan.splices), edited.diff
    details = {
        "path": name,
        "edits": len(edits),
        "replacements": count,
        "first_line": diff.first_line,
        "diff": diff.text,
        "diff_truncated": diff.truncated,
        "digest": edited.digest,
    }
    rows = [
        f"edited {name}: {count} replacement{'' if count == 1 else 's'}, first at line {diff.first_line} "
        f"(+{diff.added} -{diff.removed} lines)"
    ]
    if edited.plan.loose:
        numbers = ", ".join(map(str, edited.plan.loose))
        loosely = "ignoring trailing whitespace and the kind of quotes, dashes and spaces"
        rows.append(f"[edit {numbers}: matched {loosely}]")
    return ok("\n".join(rows), details=details, summary=f"+{diff.added} -{diff.removed}")


@edit.prechecker
async def _unchangeable(path: str, edits: list[Replacement], *, context: BeforeCall) -> None:
    file = judged_path(path, context)
    seen = await last_seen(context, file)
    with file_errors(path):
        await run_cancellable(lambda stop: _edited(file, path, display_path(file, context.cwd), edits, seen))


def _edit(file: Path, raw_path: str, name: str, edits: list[Replacement], seen: str | None) -> _Edited:
    edited = _edited(file, raw_path, name, edits, seen)
    files.write_judged(file, edited.content)
    return edited


def _edited(file: Path, raw_path: str, name: str, edits: list[Replacement], seen: str | None) -> _Edited:
    """The result of the edits; nothing is written."""
    status = files.judged_status(file)
    if status is None:
        raise not_found(file, raw_path)
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailed(f"{raw_path} is not a regular file: only text files can be edited")
    size = status.st_size
    if size > MAX_DIGESTED:
        raise ToolFailed(
            f"{raw_path} is too large to edit ({size_text(size)}): use bash, for example with sed"
        )
    with files.open_judged(file) as opened:
        before = opened.read()
    require_unchanged(raw_path, seen, digest_of(before))
    if media.is_binary(before):
        raise ToolFailed(f"{raw_path} is binary ({media.binary_kind(before)}): only text files can be edited")
    mark = _BOM if before.startswith(_BOM) else b""
    # Bytes that are not UTF-8 pass through as they are.
    original = before.removeprefix(mark).decode("utf-8", "surrogateescape")
    changes = plan(original, edits)
    try:
        after = mark + diffs.splice(original, changes.splices).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ToolFailed("nothing was changed\nnew_text is not valid text: it has a lone surrogate") from None
    diff = diffs.diff_of_splices(original, changes.splices, name)
    return _Edited(changes, diff, after, digest_of(after))
