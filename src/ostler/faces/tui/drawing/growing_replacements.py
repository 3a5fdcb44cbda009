"""The replacements of an edit that is being written, as lines of the file that it would change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ostler.faces.tui.drawing.diff import DiffLine

_LARGEST = 1_000_000
"""Bytes of a file that is looked at while somebody waits for a frame."""


class Replacement:
    """What goes, and what comes for it, as far as both were written."""

    def __init__(self) -> None:
        self._old: list[str] = []
        self._new: list[str] = []
        self.is_done = False
        self._looked_for = ""
        self._place = -1

    @property
    def old(self) -> str:
        self._old[:] = ["".join(self._old)]
        return self._old[0]

    @property
    def new(self) -> str:
        self._new[:] = ["".join(self._new)]
        return self._new[0]

    @property
    def added(self) -> int:
        """Lines, once it is made."""
        return self.new.count("\n") - self.old.count("\n")

    def grow(self, text: str, *, is_new: bool, is_done: bool) -> None:
        if text:
            (self._new if is_new else self._old).append(text)
        self.is_done = is_new and is_done

    def place_in(self, text: str) -> int:
        """Where what goes stands; -1 unless there is exactly one such place."""
        old = self.old
        if old != self._looked_for:
            self._looked_for = old
            self._place = text.find(old)
            if self._place >= 0 and text.find(old, self._place + 1) >= 0:
                self._place = -1
        return self._place if old else -1


def text_before(cwd: Path, path: str) -> str | None:
    """What a file has in it now, with its lines as a model writes them; None if that cannot be told."""
    try:
        file = cwd / path
        if not file.is_file() or file.stat().st_size > _LARGEST:  # to open a pipe might wait for ever
            return None
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, ValueError):
        return None


def lines_of(replacement: Replacement, earlier: Sequence[Replacement], before: str | None) -> list[DiffLine]:
    """Whole lines with their numbers, where the text before is known and what goes stands there once."""
    old, new = replacement.old, replacement.new
    place = replacement.place_in(before) if before is not None else -1
    if before is None or place < 0:
        return [*_signed("-", old, None), *_signed("+", new, None)]
    begin = before.rfind("\n", 0, place) + 1
    end = place + len(old)
    is_whole = old.endswith("\n") and (not replacement.is_done or not new or new.endswith("\n"))
    rest = "" if is_whole else before[end : _end_of_line(before, end)]
    number = before.count("\n", 0, begin) + 1
    shift = sum(one.added for one in earlier if 0 <= one.place_in(before) < place)
    lead = before[begin:place]
    going = _signed("-", lead + old + rest, number)
    comes = lead + new + rest if replacement.is_done else lead + new if new else ""
    return [*going, *_signed("+", comes, number + shift)]


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _signed(sign: str, text: str, first: int | None) -> list[DiffLine]:
    if not text:
        return []
    lines = text.removesuffix("\n").split("\n")
    return [
        DiffLine("+" if sign == "+" else "-", line, None if first is None else first + at)
        for at, line in enumerate(lines)
    ]
