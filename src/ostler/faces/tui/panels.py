"""Panels: what takes the keys for a while, above the line to type in. Questions and pickers are panels."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from ostler.extensions.showing.ui_data import Anchor

TYPING_SECONDS = 0.8
"""After the last key somebody is taken to be still typing."""


class Panel(Protocol):
    """The one that was opened last is seen, and sees keys first, by their names (`enter`, `ctrl+s`, `a`).

    It stands right above the line to type in; one with an `anchor` may stand elsewhere. One that comes by
    itself and is not yet noticed (`is_noticed`) leaves keys to the one below it.
    """

    @property
    def takes_text(self) -> bool:
        """Whether what is typed is for it; else it goes into the line."""
        ...

    def rows(self, width: int, most: int) -> list[str]:
        """What it shows; no more rows than that."""
        ...

    def takes(self, key: str) -> bool:
        """Whether a key that types nothing is for it."""
        ...

    def key(self, key: str) -> None:
        """A key that it takes, or a letter."""


@runtime_checkable
class LeavesLetters(Protocol):
    """A panel in which only some letters mean something."""

    def leaves(self, letter: str) -> bool:
        """Whether a letter is for the line: what is written there is written to its end first."""
        ...


class Panels:
    """Those that are open."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._open: list[Panel] = []
        self._used_at = -TYPING_SECONDS

    @property
    def present(self) -> Panel | None:
        return self._open[-1] if self._open else None

    @property
    def taking(self) -> Panel | None:
        """The one that keys are for."""
        noticed = (one for one in reversed(self._open) if getattr(one, "is_noticed", True))
        return next(noticed, self.present)

    @property
    def is_used_below(self) -> bool:
        """Somebody is typing in another one than the present."""
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
        """Above all that still changes."""
        return self._rows_at("top", width, most)

    def bottom(self, width: int, most: int) -> list[str]:
        """Below the line to type in."""
        return self._rows_at("bottom", width, most)

    def _rows_at(self, anchor: Anchor, width: int, most: int) -> list[str]:
        panel = self.present
        if panel is None or getattr(panel, "anchor", "center") != anchor:
            return []
        return panel.rows(width, most)

    @property
    def is_tall(self) -> bool:
        """What is seen wants all the room that there is."""
        return getattr(self.present, "is_tall", False)

    def takes(self, key: str) -> bool:
        return self.taking is not None and self.taking.takes(key)

    @property
    def takes_text(self) -> bool:
        return self.taking is not None and self.taking.takes_text

    @property
    def takes_pastes(self) -> bool:
        """Not where a letter decides something."""
        return self.takes_text and getattr(self.taking, "takes_pastes", True)

    def leaves(self, letter: str) -> bool:
        return isinstance(self.taking, LeavesLetters) and self.taking.leaves(letter)

    def key(self, key: str) -> None:
        if (panel := self.taking) is not None:
            self._used_at = time.monotonic()
            panel.key(key)
            self._changed()

    def refresh(self) -> None:
        """What a panel shows has changed by itself."""
        self._changed()
