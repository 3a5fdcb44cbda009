"""A panel of an extension in another language: it draws the lines, and gets the keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.drawing.boxes import framed, inside
from ostler.faces.tui.drawing.terminal_text import terminal_rows
from ostler.faces.tui.drawing.wide_rows import fitted

_NAMES = {"pgup": "pageup", "pgdown": "pagedown"}
_KNOWN = frozenset(
    {"up", "down", "left", "right", "enter", "tab", "backspace", "delete", "home", "end", "esc", "ctrl+c"}
    | {*_NAMES.values()}
)


class ForeignPanel:
    """`press` gets each key by the name that the protocol has for it."""

    takes_text = True

    def __init__(self, shown: dict[str, Any], draw: BlockRows, press: Callable[[str, str], None]) -> None:
        self.shown = shown
        """The live value: `title`, `lines` and `footer`."""
        self._draw = draw
        self._press = press

    def rows(self, width: int, most: int) -> list[str]:
        colors, room = self._draw.colors, inside(width)
        rows = [row for line in self.shown["lines"] for row in terminal_rows(line, room, colors) or [""]]
        rows = fitted(rows, room)
        footer = self._draw.note(self.shown["footer"], room) if self.shown["footer"] else []
        return framed(
            [*rows[: max(1, most - 2 - len(footer))], *footer],
            width,
            colors,
            title=self.shown["title"],
            slot="accent",
        )[:most]

    def takes(self, key: str) -> bool:
        return True

    def key(self, key: str) -> None:
        if len(key) == 1:
            self._press("rune", key)
        else:
            name = _NAMES.get(key, key)
            self._press(name if name in _KNOWN else "unknown", "")
