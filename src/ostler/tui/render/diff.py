"""Changes of a file as rows with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.core.lazy import lazy_module
from ostler.extensions.ui.themes import ThemeColors
from ostler.schema.text import cut, printable
from ostler.tui.render.spans import (
    DIM,
    UNDERLINE,
    Piece,
    Row,
    after,
    broken,
    drawn,
    expanded,
    folded,
    sgr,
    tint,
)

if TYPE_CHECKING:
    from ostler.tui.render import code
else:
    code = lazy_module("ostler.tui.render.code")

Sign = Literal["+", "-", " ", "⋮"]
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_PAIRS = 40
_LONGEST_PAIR = 300
"""Most lines, and longest ones, that are compared by words."""

_LEAST_ALIKE = 0.4
_TINT = 0.25
"""Tint of a changed word: more would be hard to read in some themes."""

_SLOTS = {"+": "success", "-": "error", " ": "", "⋮": "muted"}


class DiffLine(msgspec.Struct, frozen=True):
    """An added, removed or unchanged line; or `⋮` for lines between two hunks."""

    sign: Sign
    text: str
    number: int | None = None
    """The old line number for a removed line, else the new one."""


def change_rows(
    details: dict[str, Any], width: int, colors: ThemeColors | None, *, most: int = 40, hint: str = ""
) -> list[str]:
    """The result of `edit` and `write`; a new file is drawn as code."""
    diff, path = str(details.get("diff", "")), str(details.get("path", ""))
    if details.get("created"):
        text = "".join(f"{line.text}\n" for line in diff_lines(diff) if line.sign == "+")
        rows = code.code_rows(text, width, colors, path=path, first_line=1)
    else:
        rows = diff_rows(diff_lines(diff), width, colors)
    rows = folded(rows, most, width, colors, hint)
    if details.get("diff_truncated"):
        rows.append(drawn([Piece(cut("the rest of the change is not shown", width), DIM)]))
    return rows


def diff_lines(diff: str) -> list[DiffLine]:
    """The lines of a unified diff with numbers."""
    lines: list[DiffLine] = []
    old = new = 0
    for line in diff.split("\n"):
        if match := _HUNK.match(line):
            lines += [DiffLine("⋮", "")] if old or new else []
            old, new = int(match[1]), int(match[2])
        elif not (old or new) or not line:
            continue
        elif line[0] == "-":
            lines.append(DiffLine("-", line[1:], old))
            old += 1
        elif line[0] == "+":
            lines.append(DiffLine("+", line[1:], new))
            new += 1
        elif line[0] == " ":
            lines.append(DiffLine(" ", line[1:], new))
            old, new = old + 1, new + 1
        else:
            lines.append(DiffLine("⋮", line.removeprefix("\\ ")))
    return lines


def diff_rows(lines: Sequence[DiffLine], width: int, colors: ThemeColors | None) -> list[str]:
    """Line number, sign and line; single changed words are highlighted."""
    return [row for rows in rows_of_lines(lines, width, colors) for row in rows]


def rows_of_lines(lines: Sequence[DiffLine], width: int, colors: ThemeColors | None) -> list[list[str]]:
    """The same, with the rows of each line apart."""
    digits = max((len(str(line.number)) for line in lines if line.number is not None), default=0)
    digits = digits if digits + 12 <= width else 0
    marked = dict(_changed_words(lines))
    rows: list[list[str]] = []
    for place, line in enumerate(lines):
        style = sgr(colors, _SLOTS[line.sign]) or (DIM if line.sign == "⋮" else "")
        number = "" if line.number is None else str(line.number)
        gutter = Piece(f"{number:>{digits}} " if digits else "", sgr(colors, "very_muted") or DIM)
        text = expanded(_text(line, style, marked.get(place, []), colors))
        indent = Piece(" " * (len(gutter.text) + 2))
        lead = [gutter, Piece(line.sign, style), Piece(" ")]
        rows.append([drawn(row) for row in after(lead, broken(text, width - len(indent.text)), [indent])])
    return rows


def _text(line: DiffLine, style: str, marked: Sequence[tuple[int, int]], colors: ThemeColors | None) -> Row:
    strong = _strong(line.sign, style, colors) if marked else ""
    pieces: Row = []
    end = 0
    for start, stop in marked:
        pieces += [Piece(line.text[end:start], style), Piece(line.text[start:stop], strong)]
        end = stop
    pieces.append(Piece(line.text[end:], style))
    return [piece._replace(text=printable(piece.text)) for piece in pieces]


def _strong(sign: Sign, style: str, colors: ThemeColors | None) -> str:
    """Changed words in the text colour, which stays readable on the tint."""
    background = tint(getattr(colors, _SLOTS[sign]), colors.background, _TINT) if colors else ""
    return ";".join(filter(None, (sgr(colors, "text"), background) if background else (style, UNDERLINE)))


def _changed_words(lines: Sequence[DiffLine]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """For each pair of lines, by place: where they differ."""
    from difflib import SequenceMatcher

    for old_place, new_place in _pairs(lines):
        old, new = lines[old_place].text, lines[new_place].text
        if max(len(old), len(new)) > _LONGEST_PAIR:
            continue
        old_words, new_words = _WORDS.findall(old), _WORDS.findall(new)
        matcher = SequenceMatcher(None, old_words, new_words, autojunk=False)
        if matcher.quick_ratio() < _LEAST_ALIKE or matcher.ratio() < _LEAST_ALIKE:
            continue
        changes = [one for one in matcher.get_opcodes() if one[0] != "equal"]
        yield old_place, [_span(old_words, a, b) for _, a, b, _, _ in changes if a < b]
        yield new_place, [_span(new_words, c, d) for _, _, _, c, d in changes if c < d]


def _pairs(lines: Sequence[DiffLine]) -> Iterator[tuple[int, int]]:
    """Pairs removed and added lines if there are as many of both."""
    signs = "".join(line.sign for line in lines)
    count = 0
    for match in re.finditer(r"(-+)(\++)", signs):
        if len(match[1]) != len(match[2]):
            continue
        count += len(match[1])
        if count > _MOST_PAIRS:
            return
        for place in range(len(match[1])):
            yield match.start(1) + place, match.start(2) + place


def _span(words: Sequence[str], start: int, stop: int) -> tuple[int, int]:
    begin = sum(map(len, words[:start]))
    return begin, begin + sum(map(len, words[start:stop]))
