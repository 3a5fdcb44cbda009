"""A key that does more when it is pressed again: the first time says so, and it holds while that is seen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ostler.faces.tui.tui import Tui

SECONDS = 2.0


class PressedTwice:
    """Whatever takes the words away ends it: time, something typed, something else that is said."""

    def __init__(self, tui: Tui, words: str) -> None:
        self._tui = tui
        self._words = words
        self._ending: asyncio.TimerHandle | None = None

    @property
    def is_second(self) -> bool:
        return self._tui.notice.endswith(self._words)

    def first(self, before: str = "") -> None:
        """Says what a second time does, behind what else is to be said."""
        self._tui.notice = f"{before}; {self._words}" if before else self._words
        self._tui.app.refresh()
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.get_running_loop().call_later(SECONDS, self._forget)

    def _forget(self) -> None:
        if self.is_second:
            self._tui.notice = ""
            self._tui.app.refresh()
