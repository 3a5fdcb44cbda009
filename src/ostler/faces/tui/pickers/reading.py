"""A text that is read and put away again: it leaves nothing behind in the terminal."""

from __future__ import annotations

from collections.abc import Callable

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.boxes import framed, inside
from ostler.faces.tui.drawing.markdown import markdown_rows
from ostler.faces.tui.drawing.pieces import DIM, Piece, cut, drawn, sgr
from ostler.faces.tui.drawing.wide_rows import fitted

_MOVES = ("up", "down", "pgup", "pgdown", "home", "end")


class ReadingPanel:
    """Markdown that may still grow. What is typed meanwhile goes into the line as ever."""

    takes_text = False

    def __init__(
        self, title: str, about: str, colors: Callable[[], ThemeColors | None], closed: Callable[[], None]
    ) -> None:
        self.text = ""
        self.note = "…"
        self._title = title
        self._about = about
        self._colors = colors
        self._closed = closed
        self._top = 0
        self._page = 1
        self._drawn: tuple[tuple[object, ...], list[str]] = ((), [])

    def takes(self, key: str) -> bool:
        return key == "esc" or key in _MOVES

    def key(self, key: str) -> None:
        by = {"up": -1, "down": 1, "pgup": -self._page, "pgdown": self._page}.get(key, 0)
        if key == "esc":
            self._closed()
        elif key in ("home", "end"):
            self._top = 0 if key == "home" else len(self._drawn[1])
        self._top += by

    def rows(self, width: int, most: int) -> list[str]:
        room, colors = inside(width), self._colors()
        rows = self._rows(room, colors)
        self._page = max(1, most - 3)
        self._top = max(0, min(self._top, len(rows) - self._page))
        shown = rows[self._top : self._top + self._page]
        below = len(rows) - self._top - len(shown)
        hint = f"esc closes · {below} more rows, ↓" if below else "esc closes"
        last = drawn([Piece(cut(hint, room), sgr(colors, "muted") or DIM)])
        return framed(
            [*shown, last], width, colors, title=self._title, about=self._about, note=self.note, slot="info"
        )[:most]

    def _rows(self, width: int, colors: ThemeColors | None) -> list[str]:
        state = (len(self.text), width, colors)
        if self._drawn[0] != state:
            self._drawn = (state, fitted(markdown_rows(self.text, width, colors), width))
        return self._drawn[1]
