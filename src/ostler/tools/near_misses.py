"""A hint for the model when the text it wanted to change is not in the file."""

from __future__ import annotations

from collections.abc import Sequence

from ostler.tools.truncation import cut_line

_SHOWN = 12
_MAX_COMPARED = 20_000
_SIMILAR = 0.6


def near_miss(text: str, wanted: str) -> str:
    """`: …` with the lines that come closest, or advice where nothing does."""
    lines, wanted_lines = text.split("\n"), wanted.strip("\n").split("\n")
    at = _same_but_for_blanks(lines, wanted_lines)
    if at is not None:
        return (
            f"; lines {at + 1}-{at + len(wanted_lines)} differ from it only in blanks (indentation, tabs, "
            "spaces). They are:\n" + _numbered(lines, at, len(wanted_lines))
        )
    near = _most_similar(lines, wanted_lines)
    if near is None:
        return "; nothing in the file looks like it: read the file again"
    return "; the nearest lines are:\n" + _numbered(lines, near, len(wanted_lines))


def _numbered(lines: Sequence[str], at: int, count: int) -> str:
    rows = [
        f"{number}\t{cut_line(line)}"
        for number, line in enumerate(lines[at : at + min(count, _SHOWN)], at + 1)
    ]
    return "\n".join(rows) + ("\n…" if count > _SHOWN else "")


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
    """Compares the longest wanted line, which says most, with each line of the file."""
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
        if (
            matcher.real_quick_ratio() > best
            and matcher.quick_ratio() > best
            and (ratio := matcher.ratio()) > best
        ):
            best, best_at = ratio, at
    return None if best_at is None else max(best_at - index, 0)
