"""Ctrl+X and then a letter: a panel that says which there are."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.panels import Panels


class Chord(msgspec.Struct, frozen=True):
    about: str
    do: Callable[[], None]


class KeyChords:
    """By their letter, which may be pressed together with Ctrl as well."""

    takes_text = True
    takes_pastes = False

    def __init__(self, panels: Panels, draw: BlockRows) -> None:
        self.chords: dict[str, Chord] = {}
        self._panels = panels
        self._draw = draw

    def open(self) -> None:
        self._panels.open(self)

    def rows(self, width: int, most: int) -> list[str]:
        said = " · ".join(f"{letter} {chord.about}" for letter, chord in self.chords.items())
        return self._draw.note(f"ctrl+x: {said}", width)[:most]

    def takes(self, key: str) -> bool:
        return True

    def key(self, key: str) -> None:
        self._panels.close(self)
        if chord := self.chords.get(key.removeprefix("ctrl+")):
            chord.do()
