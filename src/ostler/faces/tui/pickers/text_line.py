"""A line of its own to type in: for a name, or unseen for a key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.boxes import framed, inside
from ostler.faces.tui.drawing.pieces import DIM, Piece, cut, drawn, one_line, sgr
from ostler.faces.tui.panels import Panels


class TextLine:
    """A panel. `ask` returns what was typed; None if somebody went away from it."""

    def __init__(
        self,
        title: str,
        colors: Callable[[], ThemeColors | None],
        *,
        typed: str = "",
        is_secret: bool = False,
        hint: str = "enter keeps it, esc goes back",
    ) -> None:
        self.title = title
        self._colors = colors
        self._typed = typed
        self.is_secret = is_secret
        self._hint = hint
        self._answer: asyncio.Future[str | None] | None = None

    async def ask(self, panels: Panels) -> str | None:
        self._answer = asyncio.get_running_loop().create_future()
        panels.open(self)
        try:
            return await self._answer
        finally:
            panels.close(self)

    @property
    def takes_text(self) -> bool:
        return True

    def takes(self, key: str) -> bool:
        return True

    def rows(self, width: int, most: int) -> list[str]:
        room, colors = inside(width), self._colors()
        shown = "•" * len(self._typed) if self.is_secret else one_line(self._typed)
        rows = [
            drawn([Piece(f"› {cut(shown, room - 4)}▏")]),
            drawn([Piece(cut(self._hint, room), sgr(colors, "muted") or DIM)]),
        ]
        slot = "warning" if self.is_secret else "accent"
        return framed(rows, width, colors, title=self.title, slot=slot)[:most]

    def key(self, key: str) -> None:
        if self._answer is None or self._answer.done():
            return
        if key == "esc":
            self._answer.set_result(None)
        elif key in ("enter", "\r", "\n"):
            self._answer.set_result(self._typed.strip())
        elif key == "backspace":
            self._typed = self._typed[:-1]
        elif key == "ctrl+u":
            self._typed = ""
        elif len(key) == 1 and key.isprintable():
            self._typed += key
