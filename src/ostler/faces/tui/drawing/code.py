"""Code in the colours of a theme: whole, in portions, or while it is being written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.lexing import Word, lexer_of, lines_of_words, settled
from ostler.faces.tui.drawing.pieces import (
    BOLD,
    DIM,
    ITALIC,
    Piece,
    Row,
    after,
    broken,
    drawn,
    expanded,
    harmless,
    sgr,
)

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]

LINES_KEPT = 200
"""Of a growing file: more than a tail ever shows. As many may wait for the end of a comment."""

_NARROWEST_CODE = 12
"""Columns below which there is no room for line numbers."""

_STYLES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "keyword": ("md_keyword", (), (BOLD,)),
    "string": ("md_string", (), ()),
    "number": ("md_number", (), ()),
    "comment": ("md_comment", (ITALIC,), (DIM,)),
    "builtin": ("secondary", (), ()),
    "name": ("info", (), (BOLD,)),
    "heading": ("md_heading", (BOLD,), (BOLD,)),
    "added": ("success", (), ()),
    "removed": ("error", (), ()),
}
"""For each role of a word a slot, and the attributes beside the colour and without one."""


def code_rows(
    code: str,
    width: int,
    colors: ThemeColors | None,
    *,
    language: str = "",
    path: str = "",
    first_line: int | None = None,
) -> list[str]:
    """Rows of the code; with a gutter of line numbers where the number of the first line is given."""
    lines = code_lines(code, colors, language=language, path=path)
    return _numbered(lines, width, colors, first_line)


def code_lines(
    code: str,
    colors: ThemeColors | None,
    *,
    language: str = "",
    path: str = "",
    state: tuple[str, ...] = (),
) -> list[Row]:
    """The lines of the code as they are, however wide; `state` is where the lexer goes on."""
    lines = lines_of_words(lexer_of(language, path), harmless(code), state)
    return [_pieces(line, colors) for line in lines]


class GrowingCode:
    """A file while it is being written. Every line is coloured once or twice, and only the end is kept."""

    def __init__(self, *, language: str = "", path: str = "") -> None:
        self._language, self._path = language, path
        self._news: list[str] = []
        self._settled: deque[list[Word]] = deque(maxlen=LINES_KEPT)
        self._settled_count = 0
        self._open = ""
        """What follows the lines whose words are final."""
        self._state: tuple[str, ...] = ()

    def feed(self, text: str) -> None:
        self._news.append(text)

    def tail(self, rows: int, width: int, colors: ThemeColors | None, *, gutter: bool = True) -> list[str]:
        """The last rows of what there is."""
        lexer = lexer_of(self._language, self._path)
        self._take_in(lexer)
        unsettled = lines_of_words(lexer, self._open, self._state)
        total = self._settled_count + len(unsettled)
        lines = [_pieces(line, colors) for line in [*self._settled, *unsettled][-rows:]]
        first = total - len(lines) + 1 if gutter else None
        return _numbered(lines, width, colors, first)[-rows:]

    def _take_in(self, lexer: Lexer | None) -> None:
        text = "".join(self._news)
        held = "\r" if text.endswith("\r") else ""
        self._news = [held]
        self._open += harmless(text.removesuffix(held))
        count, state = settled(lexer, self._open, self._state)
        if not count and self._open.count("\n") > LINES_KEPT:
            count = LINES_KEPT
        if not count:
            return
        self._settled += lines_of_words(lexer, self._open, self._state)[:count]
        self._settled_count += count
        self._open, self._state = self._open.split("\n", count)[count], state


def _numbered(lines: Sequence[Row], width: int, colors: ThemeColors | None, first: int | None) -> list[str]:
    digits = 0 if first is None else len(str(first + len(lines) - 1))
    if first is None or width - digits < _NARROWEST_CODE:
        return [drawn(row) for line in lines for row in broken(line, width)]
    style = sgr(colors, "very_muted") or DIM
    rows: list[Row] = []
    for number, line in enumerate(lines, first):
        gutter, below = Piece(f"{number:>{digits}} ", style), Piece(" " * (digits + 1))
        rows += after([gutter], broken(line, width - digits - 1), [below])
    return [drawn(row) for row in rows]


def _pieces(line: Iterable[Word], colors: ThemeColors | None) -> Row:
    return expanded(Piece(text, _style(role, colors)) for text, role in line)


def _style(role: str, colors: ThemeColors | None) -> str:
    if role not in _STYLES:
        return ""
    slot, beside, alone = _STYLES[role]
    return sgr(colors, slot, *beside) if colors and getattr(colors, slot) else ";".join(alone)
