"""Styled text: wraps, cuts, folds and spaces it by the cells it takes, as rows of a terminal.

A row does not break inside a path or a URL, which a person may want to copy or click. Printed rows may be
wider than the terminal, which wraps them without a break in the copy; rows that are drawn again must fit.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple

from ostler.extensions.ui.themes import ThemeColors, full_hex
from ostler.schema.text import ELLIPSIS, cells, cut, plural, split_at

LONGEST = 4096
"""Characters of a path, at most; longer text breaks like any other."""

_START = r"(?:~|\.{1,2})?/"
_QUOTED = "|".join(rf"{quote}{_START}[^{quote}\n]{{1,{LONGEST}}}{quote}" for quote in "'\"`")
_WIDE = "\u1100-\u115f\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_RUN = r"(?:\\ |[^\s\"'`<>{}|\u3000-\u303f\uff00-\uffef])+"
_SPANS = rf"(?<!\w)(?:{_QUOTED})|{_RUN}"
_URL = r"[A-Za-z][A-Za-z0-9+.-]*://"
_NAMED = r"\w\.[A-Za-z][A-Za-z0-9]{0,9}(?::\d+)*$"
"""The end of a file name, with an optional line and column."""


def path_spans(text: str) -> Iterator[tuple[int, int]]:
    """The positions of URLs, paths, file names, and quoted paths with spaces."""
    if "/" not in text and "." not in text:
        return
    for match in _compiled(_SPANS).finditer(text):
        start, end = match.span()
        if text[start] in "'\"`":
            yield start, end
        elif (begin := _begin(match[0])) is not None and end - start - begin <= LONGEST:
            yield start + begin, end


def is_path(text: str) -> bool:
    """Whether the whole text is a path, also with spaces."""
    return len(text) <= LONGEST and re.match(f"{_START}|{_URL}", text) is not None


def quoted(path: object) -> str:
    """A path for a sentence, quoted for the shell if it has spaces."""
    text = str(path)
    return shlex.quote(text) if any(map(str.isspace, text)) else text


def _begin(run: str) -> int | None:
    """Where a word becomes a path; None if it does not."""
    if (url := _compiled(_URL).search(run)) is not None:
        return url.start()
    bare = run.lstrip("([=:")
    if _compiled(_START).match(bare):
        return len(run) - len(bare)
    is_named = "/" in bare or _compiled(_NAMED).search(bare)
    return len(run) - len(bare) if is_named and not _compiled(f"[{_WIDE}]").search(bare) else None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled on first use: that takes longer than loading this module."""
    return re.compile(pattern)


BOLD, DIM, ITALIC, UNDERLINE, REVERSE, STRUCK = "1", "2", "3", "4", "7", "9"
TAB = 4

_CHUNKS = f"\n| +|[{_WIDE}]|[^ \n{_WIDE}]+"
"""Where a line may break: at spaces, and around characters of scripts without spaces."""


class Piece(NamedTuple):
    text: str
    style: str = ""
    """Parameters of the SGR sequence; empty for plain text."""
    link: str = ""
    """The address of a hyperlink."""
    whole: bool = False
    """It is one path, which rows do not break."""


Row = list[Piece]


def sgr(colors: ThemeColors | None, slot: str, *attributes: str) -> str:
    """A style: the colour of a theme slot, if there are colours, and attributes."""
    return styled(getattr(colors, slot) if colors and slot else "", *attributes)


@lru_cache(512)
def styled(color: str, *attributes: str) -> str:
    """A style with a colour of its own; an invalid colour is ignored."""
    return ";".join([*attributes, *([f"38;2;{_channels(color)}"] if full_hex(color) else [])])


@lru_cache(64)
def tint(color: str, over: str, share: float) -> str:
    """A background: a colour blended over another; empty if one is invalid."""
    if not full_hex(color) or not full_hex(over):
        return ""
    pairs = zip(_channels(color).split(";"), _channels(over).split(";"), strict=True)
    return "48;2;" + ";".join(str(round(int(a) * share + int(b) * (1 - share))) for a, b in pairs)


def _channels(color: str) -> str:
    full = full_hex(color)
    return ";".join(str(int(full[place : place + 2], 16)) for place in (1, 3, 5))


def cells_of(row: Iterable[Piece]) -> int:
    return sum(cells(piece.text) for piece in row)


def drawn(row: Iterable[Piece]) -> str:
    """A row for the terminal: each style ends with its piece, and trailing spaces are dropped."""
    pieces = _joined(row)
    while pieces and not pieces[-1].style:
        last = pieces.pop()
        if text := last.text.rstrip(" "):
            pieces.append(last._replace(text=text))
            break
    return "".join(map(_drawn, pieces))


def _drawn(piece: Piece) -> str:
    text = f"\x1b[{piece.style}m{piece.text}\x1b[0m" if piece.style else piece.text
    return f"\x1b]8;;{piece.link}\x1b\\{text}\x1b]8;;\x1b\\" if piece.link else text


def _joined(row: Iterable[Piece]) -> Row:
    joined: Row = []
    for piece in row:
        if not piece.text:
            continue
        if joined and joined[-1][1:] == piece[1:]:
            joined[-1] = piece._replace(text=joined[-1].text + piece.text)
        else:
            joined.append(piece)
    return joined


def muted_row(text: str, width: int, colors: ThemeColors | None) -> str:
    """One row in the muted colour, cut to the width."""
    return drawn([Piece(cut(text, width), sgr(colors, "muted") or DIM)])


def expanded(pieces: Iterable[Piece]) -> Row:
    """One line with tabs expanded to spaces."""
    row: Row = []
    column = 0
    for piece in pieces:
        text = piece.text
        while "\t" in text:
            before, _, after = text.partition("\t")
            gap = TAB - (column + cells(before)) % TAB
            text = before + " " * gap + after
        column += cells(text)
        row.append(piece._replace(text=text))
    return row


def broken(pieces: Sequence[Piece], width: int) -> list[Row]:
    """Breaks a line into full rows, for code, where every space counts.

    A path is not broken: it begins the next row. If it is wider than a row, the line stays whole, to be
    copied.
    """
    width = max(1, width)
    if cells_of(pieces) <= width or _has_wider_path("".join(piece.text for piece in pieces), width):
        return [list(pieces)]
    rows: list[Row] = [[]]
    room = width
    for part, is_path in _parts(pieces):
        if is_path:
            size = cells_of(part)
            if size > room and room < width:
                rows.append([])
                room = width
            rows[-1] += part
            room = max(0, room - size)
            continue
        for piece in part:
            text = piece.text
            while text:
                head, text = split_at(text, room, at_least_one=room == width)
                if head:
                    rows[-1].append(piece._replace(text=head))
                    room -= cells(head)
                if text:
                    rows.append([])
                    room = width
    return rows


def _has_wider_path(line: str, width: int) -> bool:
    return len(line) <= LONGEST and any(cells(line[start:end]) > width for start, end in path_spans(line))


def _parts(pieces: Sequence[Piece]) -> Iterator[tuple[Row, bool]]:
    """Splits a line at its paths; each part with whether it is one. A path may have several styles."""
    line = "".join(piece.text for piece in pieces)
    edges = [0, *(edge for span in path_spans(line) for edge in span), len(line)]
    remaining, at = list(pieces), 0
    for number, edge in enumerate(edges[1:]):
        part: Row = []
        while at < edge:
            head, tail = remaining[0].text[: edge - at], remaining[0].text[edge - at :]
            part.append(remaining[0]._replace(text=head))
            remaining[:1] = [remaining[0]._replace(text=tail)] if tail else []
            at += len(head)
        yield part, number % 2 == 1


def wrapped(pieces: Sequence[Piece], width: int) -> list[Row]:
    """Wraps rows at spaces, and inside a word only if it is wider than a row. A tab is a space.

    A word with a path or URL is not broken: its row may be too wide.
    """
    pieces = [piece._replace(text=piece.text.replace("\t", " ")) for piece in pieces]
    if cells_of(pieces) <= width and not any("\n" in piece.text for piece in pieces):
        return [pieces]
    lines = _Wrapping(max(1, width))
    for piece in pieces:
        end = 0
        for start, stop in [(0, len(piece.text))] if piece.whole else path_spans(piece.text):
            for chunk in _compiled(_CHUNKS).findall(piece.text[end:start]):
                lines.take(piece._replace(text=chunk))
            lines.take_path(piece._replace(text=piece.text[start:stop]))
            end = stop
        for chunk in _compiled(_CHUNKS).findall(piece.text[end:]):
            lines.take(piece._replace(text=chunk))
    return lines.end()


class _Wrapping:
    """The rows so far, the current word, and the spaces before it."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._rows: list[Row] = [[]]
        self._used = 0
        self._blanks: Row = []
        self._word: Row = []
        self._has_path = False
        """The word is not broken."""

    def take_path(self, piece: Piece) -> None:
        self._word.append(piece)
        self._has_path = True

    def take(self, piece: Piece) -> None:
        if piece.text == "\n":
            self._place()
            self._new_row()
        elif piece.text[0] == " ":
            self._place()
            self._blanks.append(piece)
        elif piece.text[0] >= "\u1100" and len(piece.text) == 1 and cells(piece.text) == 2:
            self._place()
            self._word.append(piece)
            self._place()
        else:
            self._word.append(piece)

    def end(self) -> list[Row]:
        self._place()
        return self._rows

    def _new_row(self) -> None:
        self._rows.append([])
        self._used = 0
        self._blanks = []

    def _place(self) -> None:
        if not self._word:
            return
        word, self._word = self._word, []
        has_path, self._has_path = self._has_path, False
        size = cells_of(word)
        if self._used and self._used + cells_of(self._blanks) + size > self._width:
            self._new_row()
        row = [*self._blanks, *word]
        self._blanks = []
        if has_path or self._used + cells_of(row) <= self._width:
            self._rows[-1] += row
            self._used += cells_of(row)
            return
        pieces = broken(row, self._width)
        self._rows[-1:] = pieces
        self._used = cells_of(pieces[-1])


def after(prefix: Row, rows: Sequence[Row], later: Row | None = None) -> list[Row]:
    """Rows after a prefix; the rows after the first have another one."""
    remaining = prefix if later is None else later
    return [[*(remaining if number else prefix), *row] for number, row in enumerate(rows)]


def apart(blocks: Iterable[Sequence[str]], *, after_blank: bool) -> list[str]:
    """Joins blocks without two blank rows in a row; `after_blank` if a blank one precedes them."""
    rows: list[str] = []
    for block in blocks:
        is_double = block and not block[0] and (not rows[-1] if rows else after_blank)
        rows += block[1:] if is_double else block
    return rows


_SEQUENCES = re.compile(r"(\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\)")
_STYLE_END, _LINK_END = "\x1b[0m", "\x1b]8;;\x1b\\"


def height(row: str, width: int) -> int:
    """How many terminal rows it takes."""
    return max(1, -(-_cells(row, width) // max(1, width)))


def fitted(rows: Iterable[str], width: int) -> list[str]:
    """Breaks rows that are too wide; styles continue after the break."""
    width = max(1, width)
    return [part for row in rows for part in ([row] if _cells(row, width) <= width else _broken(row, width))]


def _cells(row: str, width: int) -> int:
    """The cells of a row; an upper bound of at most `width` if it certainly fits."""
    if len(row) <= width and row.isascii():
        return len(row)
    return cells(_SEQUENCES.sub("", row))


def _broken(row: str, width: int) -> list[str]:
    parts, part, room = [], "", width
    style = link = ""
    for place, text in enumerate(_SEQUENCES.split(row)):
        if place % 2:  # a sequence
            part += text
            if text.startswith("\x1b["):
                style = "" if text == _STYLE_END else style + text
            else:
                link = "" if text == _LINK_END else text
            continue
        while text:
            head, text = split_at(text, room, at_least_one=room == width)
            part += head
            room -= cells(head)
            if text:
                parts.append(part + (_STYLE_END if style else "") + (_LINK_END if link else ""))
                part, room = link + style, width
    return [*parts, part]


def folded(
    rows: Sequence[str], most: int, width: int, colors: ThemeColors | None, hint: str = ""
) -> list[str]:
    """At most so many rows; if some are left out of the middle, a row says how many, with a hint."""
    heights = [height(row, width) for row in rows]
    if sum(heights) <= max(1, most):
        return list(rows)
    visible = max(0, most - 1)
    head = _fitting(heights, (visible + 1) // 2)
    tail = _fitting(heights[head:][::-1], visible - (visible + 1) // 2)
    left_out = sum(heights[head : len(rows) - tail])
    mark = muted_row(f"{ELLIPSIS} {plural(left_out, 'more row')}{hint}", width, colors)
    return [*rows[:head], mark, *rows[len(rows) - tail :]]


def _fitting(heights: Sequence[int], room: int) -> int:
    """How many rows fit, from the first one on."""
    return next((at for at, size in enumerate(accumulate(heights)) if size > room), len(heights))
