"""Panels: they take keys for a while, above the input line. Also a line of input, and a text to read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from ostler.extensions.ui.themes import ThemeColors
from ostler.extensions.ui.types import Anchor
from ostler.schema.text import cut, one_line
from ostler.tui.render.boxes import framed, inside
from ostler.tui.render.markdown import markdown_rows
from ostler.tui.render.spans import fitted, muted_row

TYPING_SECONDS = 0.8
"""A person counts as typing for so many seconds after the last key."""


class Panel(Protocol):
    """The panel that was opened last is shown, and gets keys first, by name (`enter`, `ctrl+s`, `a`).

    It stands above the input line, or elsewhere with an `anchor`. A panel that opens by itself leaves keys to
    the one below until it `is_noticed`.
    """

    @property
    def takes_text(self) -> bool:
        """Whether typed text goes into the panel, not into the input line."""

    def rows(self, width: int, most: int) -> list[str]:
        """At most so many rows."""

    def takes(self, key: str) -> bool:
        """Whether it handles a key that types nothing."""

    def key(self, key: str) -> None:
        """Handles a key that it takes, or a letter."""


class Panels:
    """The open panels."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._open: list[Panel] = []
        self._used_at = -TYPING_SECONDS

    @property
    def present(self) -> Panel | None:
        return self._open[-1] if self._open else None

    @property
    def taking(self) -> Panel | None:
        """The panel that gets keys."""
        noticed = (one for one in reversed(self._open) if getattr(one, "is_noticed", True))
        return next(noticed, self.present)

    @property
    def is_used_below(self) -> bool:
        """A person is typing in a panel below the present one."""
        return len(self._open) > 1 and time.monotonic() - self._used_at < TYPING_SECONDS

    def open(self, panel: Panel) -> None:
        if panel not in self._open:
            self._open.append(panel)
        self._changed()

    def close(self, panel: Panel) -> None:
        if panel in self._open:
            self._open.remove(panel)
        self._changed()

    def rows(self, width: int, most: int) -> list[str]:
        return self._rows_at("center", width, most)

    def top(self, width: int, most: int) -> list[str]:
        """The rows above all open items."""
        return self._rows_at("top", width, most)

    def bottom(self, width: int, most: int) -> list[str]:
        """The rows below the input line."""
        return self._rows_at("bottom", width, most)

    def _rows_at(self, anchor: Anchor, width: int, most: int) -> list[str]:
        panel = self.present
        if panel is None or getattr(panel, "anchor", "center") != anchor:
            return []
        return panel.rows(width, most)

    @property
    def is_tall(self) -> bool:
        """The panel wants the whole screen."""
        return getattr(self.present, "is_tall", False)

    @property
    def is_large(self) -> bool:
        """The panel may take most of the screen."""
        return getattr(self.present, "is_large", False)

    def takes(self, key: str) -> bool:
        return self.taking is not None and self.taking.takes(key)

    @property
    def takes_text(self) -> bool:
        return self.taking is not None and self.taking.takes_text

    @property
    def takes_pastes(self) -> bool:
        """Whether pastes go into the panel: not where a letter decides."""
        return self.takes_text and getattr(self.taking, "takes_pastes", True)

    def key(self, key: str) -> None:
        if (panel := self.taking) is not None:
            if not hasattr(panel, "is_noticed"):
                self._used_at = time.monotonic()
            panel.key(key)
            self._changed()

    def refresh(self) -> None:
        """Draws a panel that has changed by itself."""
        self._changed()


Answer = TypeVar("Answer")


class ModalPanel(Panel, Generic[Answer]):
    """A panel that takes all keys. `ask` opens it until `answer` is called."""

    takes_text = True
    _answer: asyncio.Future[Answer] | None = None

    def takes(self, key: str) -> bool:
        return True

    async def ask(self, panels: Panels) -> Answer:
        self._answer = asyncio.get_running_loop().create_future()
        panels.open(self)
        try:
            return await self._answer
        finally:
            panels.close(self)

    def answer(self, value: Answer) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(value)


def edited(text: str, key: str) -> str:
    """The text after a key that edits a line at its end."""
    match key:
        case "backspace":
            return text[:-1]
        case "ctrl+u":
            return ""
    return text + key if len(key) == 1 and key.isprintable() else text


class TextLine(ModalPanel[str | None]):
    """A line of input, for a name or a hidden key. `ask` returns the text; None if the person cancels."""

    def __init__(
        self,
        title: str,
        colors: Callable[[], ThemeColors | None],
        *,
        typed: str = "",
        is_secret: bool = False,
        hint: str = "enter saves it, esc cancels",
    ) -> None:
        self.title = title
        self._colors = colors
        self._typed = typed
        self.is_secret = is_secret
        self._hint = hint

    def rows(self, width: int, most: int) -> list[str]:
        room, colors = inside(width), self._colors()
        visible = "•" * len(self._typed) if self.is_secret else one_line(self._typed)
        rows = [f"› {cut(visible, room - 4)}▏", muted_row(self._hint, room, colors)]
        slot = "warning" if self.is_secret else "accent"
        return framed(rows, width, colors, title=self.title, slot=slot)[:most]

    def key(self, key: str) -> None:
        if key == "esc":
            self.answer(None)
        elif key in ("enter", "\r", "\n"):
            self.answer(self._typed.strip())
        else:
            self._typed = edited(self._typed, key)


_MOVES = ("up", "down", "pgup", "pgdown", "home", "end")


class ReadingPanel:
    """Markdown that may still grow, and leaves nothing in the scrollback. Text goes into the input line."""

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
        if key == "esc":
            self._closed()
        elif key in ("home", "end"):
            self._top = 0 if key == "home" else len(self._drawn[1])
        self._top += {"up": -1, "down": 1, "pgup": -self._page, "pgdown": self._page}.get(key, 0)

    def rows(self, width: int, most: int) -> list[str]:
        room, colors = inside(width), self._colors()
        state = (len(self.text), room, colors)
        if self._drawn[0] != state:
            self._drawn = (state, fitted(markdown_rows(self.text, room, colors), room))
        rows = self._drawn[1]
        self._page = max(1, most - 3)
        self._top = max(0, min(self._top, len(rows) - self._page))
        visible = rows[self._top : self._top + self._page]
        below = len(rows) - self._top - len(visible)
        hint = f"esc closes · {below} more rows, ↓" if below else "esc closes"
        rows = [*visible, muted_row(hint, room, colors)]
        title, about = self._title, self._about
        return framed(rows, width, colors, title=title, about=about, note=self.note, slot="info")[:most]
