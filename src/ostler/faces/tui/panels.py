"""Panels: what takes the keys for a while, above the line to type in. Questions and pickers are panels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ostler.extensions.showing.ui_data import Anchor


class Panel(Protocol):
    """The one that was opened last is seen, and sees keys first, by their names (`enter`, `ctrl+s`, `a`).

    It stands right above the line to type in; one with an `anchor` may stand elsewhere.
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


class Panels:
    """Those that are open."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._open: list[Panel] = []

    @property
    def present(self) -> Panel | None:
        return self._open[-1] if self._open else None

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
        return self.present is not None and self.present.takes(key)

    @property
    def takes_text(self) -> bool:
        return self.present is not None and self.present.takes_text

    def key(self, key: str) -> None:
        if self.present is not None:
            self.present.key(key)
            self._changed()

    def refresh(self) -> None:
        """What a panel shows has changed by itself."""
        self._changed()
