"""Rows of the open tail that a terminal has pushed above when it became lower."""

from __future__ import annotations

from collections.abc import Sequence


class PushedRows:
    """They stand there for good: what they belong to goes on below them when it is printed.

    Only what is the same, row by row, counts as being there already. So at worst something is seen twice.
    """

    def __init__(self) -> None:
        self._rows: list[str] = []

    def __len__(self) -> int:
        return len(self._rows)

    def push(self, drawn: Sequence[str]) -> None:
        self._rows += drawn

    def below(self, rows: Sequence[str]) -> Sequence[str]:
        """What is left to show of rows that may begin up there."""
        same = self._same(rows)
        return rows[same:] if same == len(self) else rows

    def print(self, rows: Sequence[str]) -> Sequence[str]:
        """What is left to print of rows that are final now."""
        same = self._same(rows)
        self._rows = self._rows[same:] if same == len(rows) else []
        return rows[same:]

    def _same(self, rows: Sequence[str]) -> int:
        pairs = zip(self._rows, rows, strict=False)
        same = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(self), len(rows)))
        return same if any(rows[:same]) else 0  # a blank row alone belongs to anything
