"""A text that is typed in a panel: what was being typed in the line stays there."""

from __future__ import annotations

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.pieces import DIM, REVERSE, Piece, Row, cells, cut, harmless, one_line, sgr

_SHOWN = str.maketrans({"\n": "⏎", "\t": " "})


class TextField:
    """With a cursor, and the keys of a line. A secret is seen as dots only."""

    def __init__(self, text: str = "", *, placeholder: str = "", is_secret: bool = False) -> None:
        self._before, self._after = text, ""
        self._placeholder = one_line(placeholder)
        self._is_secret = is_secret

    @property
    def text(self) -> str:
        return self._before + self._after

    def row(self, width: int, colors: ThemeColors | None, *, is_active: bool = True) -> Row:
        """What is around the cursor, as far as there is room."""
        if not self.text and self._placeholder:
            rest = Piece(cut(self._placeholder[1:], width - 1), sgr(colors, "very_muted") or DIM)
            return [Piece(self._placeholder[0], REVERSE if is_active else rest.style), rest]
        before, after = self._shown(self._before), self._shown(self._after)
        if not is_active:
            return [Piece(cut(before + after, width))]
        before = before[-width:]
        while cells(before) > max(0, width - 2):
            before = before[1:]
        under = after[:1] or " "
        return [
            Piece(before),
            Piece(under, REVERSE),
            Piece(cut(after[1:], width - cells(before) - cells(under))),
        ]

    def _shown(self, text: str) -> str:
        return "•" * len(text) if self._is_secret else harmless(text.translate(_SHOWN))

    def key(self, key: str) -> bool:
        """Whether it was one for a text."""
        match key:
            case "backspace":
                self._before = self._before[:-1]
            case "delete":
                self._after = self._after[1:]
            case "left":
                self._before, self._after = self._before[:-1], self._before[-1:] + self._after
            case "right":
                self._before, self._after = self._before + self._after[:1], self._after[1:]
            case "home" | "ctrl+a":
                self._before, self._after = "", self.text
            case "end" | "ctrl+e":
                self._before, self._after = self.text, ""
            case "ctrl+u":
                self._before = ""
            case "ctrl+k":
                self._after = ""
            case "ctrl+w":
                self._before = self._before.rstrip().rpartition(" ")[0]
            case _ if len(key) == 1 and (key.isprintable() or key in "\n\t"):
                self._before += key
            case _:
                return False
        return True
