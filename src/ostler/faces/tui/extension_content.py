"""What extensions give to be shown, as rows: no more of it than can be seen, and drawn once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.markdown import markdown_rows
from ostler.faces.tui.drawing.pieces import DIM, Piece, drawn, harmless, sgr, wrapped
from ostler.faces.tui.drawing.terminal_text import terminal_rows
from ostler.faces.tui.drawing.wide_rows import fitted

MOST_ROWS = 1000
"""Of what can be scrolled."""
_CONTENT_KEPT = 32


class ContentRows:
    """Each frame asks for the same again. A text of any length costs as much as the rows that are wanted."""

    def __init__(self, colors: Callable[[], ThemeColors | None]) -> None:
        self._colors = colors
        self._drawn: dict[tuple[object, ...], list[str]] = {}

    def text(self, text: str, width: int, most: int) -> list[str]:
        """Lines, with their own colours."""
        return fitted(self._once(_text_rows, _beginning(text, most, width), width), width)[:most]

    def markdown(self, text: str, width: int, most: int) -> list[str]:
        return fitted(self._once(markdown_rows, _beginning(text, 4 * most, width), width), width)[:most]

    def _once(
        self, draw: Callable[[str, int, ThemeColors | None], list[str]], text: str, width: int
    ) -> list[str]:
        colors = self._colors()
        key = (draw, text, width, colors)
        if key not in self._drawn:
            while len(self._drawn) >= _CONTENT_KEPT:
                del self._drawn[next(iter(self._drawn))]
            self._drawn[key] = draw(text, width, colors)
        return self._drawn[key]

    def shortened(self, rows: list[str], most: int) -> list[str]:
        """As many as there is room for; the last one says that there are more."""
        if len(rows) <= most or most < 2:
            return rows[:most]
        return [*rows[: most - 1], drawn([Piece("…", sgr(self._colors(), "muted") or DIM)])]


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """Rows for each, so that one that wants many leaves room for the others."""
    given = [0] * len(wanted)
    while room > 0 and given != [*wanted]:
        for place, want in enumerate(wanted):
            if given[place] < want and room > 0:
                given[place] += 1
                room -= 1
    return given


def _beginning(text: str, lines: int, width: int) -> str:
    """A little more than that, so that it is seen whether there is more."""
    longest = lines * max(1, width) * 2
    return "\n".join(text[: 4 * longest].split("\n", lines + 1)[: lines + 1])[:longest]


def _text_rows(text: str, width: int, colors: ThemeColors | None) -> list[str]:
    if "\x1b" in text:
        return terminal_rows(text, width, colors)
    return [drawn(row) for row in wrapped([Piece(harmless(text))], width)] if text else []
