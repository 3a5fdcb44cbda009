"""A line that nobody sees: for a key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.boxes import framed, inside
from ostler.faces.tui.drawing.pieces import DIM, Piece, cut, drawn, sgr
from ostler.faces.tui.panels import Panels

_CANCEL = ("esc", "\x03")


class SecretLine:
    """A panel. `ask` returns what was typed; empty if somebody went away from it."""

    def __init__(self, title: str, colors: Callable[[], ThemeColors | None]) -> None:
        self._title = title
        self._colors = colors
        self._typed = ""
        self._answer: asyncio.Future[str] | None = None

    async def ask(self, panels: Panels) -> str:
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
        hint = cut("enter keeps it, esc goes back; it is not shown", room)
        rows = [
            drawn([Piece(f"› {'•' * min(len(self._typed), room - 4)}▏")]),
            drawn([Piece(hint, sgr(colors, "muted") or DIM)]),
        ]
        return framed(rows, width, colors, title=self._title, slot="warning")[:most]

    def key(self, key: str) -> None:
        if self._answer is None or self._answer.done():
            return
        if key in _CANCEL:
            self._answer.set_result("")
        elif key in ("enter", "\r", "\n"):
            self._answer.set_result(self._typed.strip())
        elif key == "backspace":
            self._typed = self._typed[:-1]
        elif key == "ctrl+u":
            self._typed = ""
        elif len(key) == 1 and key.isprintable():
            self._typed += key
