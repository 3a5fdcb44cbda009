"""Chips: a long paste or a picture appears in the input line as a few words.

    [pasted text #1 +40 lines]  [pasted text #2 1500 chars]  [image #1 PNG 640x480]

A chip is its exact text, wherever it stands. Once a person changes a letter of it, it is ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from ostler.schema.messages import Image
from ostler.tools.truncation import byte_length, without_surrogates

MOST_LINES = 10
MOST_BYTES = 1000
"""A longer paste becomes a chip."""

MOST_KEPT = 64 * 1024
"""Bytes of pastes that the history stores with a prompt."""

_NUMBERED = re.compile(r"#\d+ ")


class Picture(msgspec.Struct, frozen=True):
    block: Image
    about: str
    """`PNG 640x480`: format and size of the original."""


class ChipText(msgspec.Struct, frozen=True):
    """The content of a line with chips."""

    text: str
    """With pasted texts in place. Pictures keep their names, so that a prompt can refer to them."""
    images: tuple[Image, ...] = ()


class SavedChips(msgspec.Struct, frozen=True, omit_defaults=True):
    """A prompt as the history stores it."""

    text: str
    pasted: dict[str, str] = {}
    """The texts of its chips."""


class Chips:
    """The chips of one line. They stay known until `clear`, so that a deleted chip can come back."""

    def __init__(self) -> None:
        self._pasted: dict[str, str] = {}
        self._pictures: dict[str, Image] = {}

    def clear(self) -> None:
        """Forgets all chips: the next ones are numbered from 1."""
        self._pasted.clear()
        self._pictures.clear()

    def paste(self, text: str) -> str:
        """Adds a paste; returns its text with plain line ends, or a chip."""
        text = without_surrogates(text.replace("\r\n", "\n").replace("\r", "\n"))
        lines = _count_lines(text)
        if lines > MOST_LINES:
            return self._chip(f"+{lines} lines", text)
        if byte_length(text) > MOST_BYTES:
            return self._chip(f"{len(text)} chars", text)
        return text

    def add_picture(self, picture: Picture) -> str:
        label = f"[image #{len(self._pictures) + 1} {picture.about}]"
        self._pictures[label] = picture.block
        return label

    def spans(self, typed: str) -> Iterator[tuple[int, int]]:
        """The chips in a line, as begin and end."""
        if labels := [*self._pasted, *self._pictures]:
            yield from (match.span() for match in _any_of(labels).finditer(typed))

    def text_with_chips(self, typed: str) -> ChipText:
        """The text and images to send. A chip may occur twice; an image is sent once."""
        images = dict.fromkeys(
            label for begin, end in self.spans(typed) if (label := typed[begin:end]) in self._pictures
        )
        return ChipText(_replaced(typed, self._pasted), tuple(self._pictures[label] for label in images))

    def to_save(self, typed: str) -> SavedChips:
        """The line for the history. Pictures and very long pastes are not stored: they lose their number, and
        are no chips any more."""
        pasted = {label: text for label, text in self._pasted.items() if label in typed}
        dropped = [label for label in self._pictures if label in typed]
        if sum(map(byte_length, pasted.values())) > MOST_KEPT:
            dropped += pasted
            pasted = {}
        return SavedChips(_replaced(typed, {label: _NUMBERED.sub("", label, 1) for label in dropped}), pasted)

    def restored(self, entry: SavedChips) -> str:
        """Restores a line from the history; its chips get free numbers."""
        return _replaced(entry.text, {label: self._again(text) for label, text in entry.pasted.items()})

    def _again(self, text: str) -> str:
        return next((one for one, pasted in self._pasted.items() if pasted == text), None) or self.paste(text)

    def _chip(self, about: str, text: str) -> str:
        label = f"[pasted text #{len(self._pasted) + 1} {about}]"
        self._pasted[label] = text
        return label


def _count_lines(text: str) -> int:
    """The number of lines; a newline at the end does not begin another."""
    return text.removesuffix("\n").count("\n") + 1


def _any_of(labels: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, labels)))


def _replaced(text: str, by: Mapping[str, str]) -> str:
    """Replaces chips in one pass, since a paste may look like a chip. Removes bytes that are no text."""
    return without_surrogates(_any_of([*by]).sub(lambda match: by[match[0]], text) if by else text)


class PromptDraft(msgspec.Struct, frozen=True):
    """A line as it was typed, which can be restored."""

    text: str
    chips: Chips

    @property
    def pasted_in(self) -> str:
        """The text with pastes in place of chips."""
        return self.chips.text_with_chips(self.text).text
