"""A change of a file while the model writes it: the end of what there is, before there is a call."""

from __future__ import annotations

import re

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.code import GrowingCode
from ostler.faces.tui.drawing.diff import DiffLine, Sign, diff_rows
from ostler.faces.tui.drawing.pieces import DIM, Piece, cut, drawn, sgr
from ostler.kernel.partial_json import EACH, GrowingString

_UP_TO_QUOTES = re.compile(r'[^"]*"|[^"]+')
"""So cut, a fragment begins or ends at most one string: none is passed over."""


class GrowingWrite:
    """The arguments of `write`."""

    def __init__(self) -> None:
        self._path = GrowingString("path")
        self._content = GrowingString("content")
        self._code: GrowingCode | None = None

    @property
    def path(self) -> str:
        return self._path.value

    def feed(self, fragment: str) -> None:
        self._path.feed(fragment)
        content = self._content.feed(fragment)
        if content and self._code is None:
            self._code = GrowingCode(path=self.path)
        if content and self._code is not None:
            self._code.feed(content)

    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]:
        return self._code.tail(rows, width, colors) if self._code else []


class GrowingEdit:
    """The arguments of `edit`: for each replacement what goes, then what comes."""

    def __init__(self) -> None:
        self._path = GrowingString("path")
        self._old = GrowingString("edits", EACH, "old_text")
        self._new = GrowingString("edits", EACH, "new_text")
        self._replacements: list[tuple[list[str], list[str]]] = []

    @property
    def path(self) -> str:
        return self._path.value

    def feed(self, fragment: str) -> None:
        for piece in _UP_TO_QUOTES.findall(fragment):
            self._path.feed(piece)
            for side, growing in enumerate((self._old, self._new)):
                text = growing.feed(piece)
                while growing.index > len(self._replacements):
                    self._replacements.append(([], []))
                if text:
                    self._replacements[growing.index - 1][side].append(text)

    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]:
        shown: list[str] = []
        for number, (old, new) in reversed(list(enumerate(self._replacements, 1))):
            lines = [*_lines("-", old), *_lines("+", new)][-rows:]
            title = drawn([Piece(cut(f"edit {number}", width), sgr(colors, "muted") or DIM)])
            shown = [
                *([title] if len(self._replacements) > 1 else []),
                *diff_rows(lines, width, colors),
                *shown,
            ]
            if len(shown) >= rows:
                break
        return shown[-rows:]


def _lines(sign: Sign, pieces: list[str]) -> list[DiffLine]:
    pieces[:] = ["".join(pieces)]
    text = pieces[0].removesuffix("\n")
    return [DiffLine(sign, line) for line in text.split("\n")] if pieces[0] else []
