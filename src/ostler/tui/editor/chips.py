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
"""What is longer than either becomes a chip."""


MOST_KEPT = 64 * 1024
"""Bytes of the pastes that a history keeps along with a line."""


_NUMBERED = re.compile(r"#\d+ ")


class Picture(msgspec.Struct, frozen=True):
    block: Image
    about: str
    """`PNG 640x480`: the format and the size of what a person gave."""


class ChipText(msgspec.Struct, frozen=True):
    """What is sent for a line with chips."""

    text: str
    """With what was pasted; pictures are still named in it, so that one can speak about them."""
    images: tuple[Image, ...] = ()


class SavedChips(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line as a history keeps it."""

    text: str
    pasted: dict[str, str] = {}
    """What the chips in the text stand for."""


class Chips:
    """Those of one line. They stay known until `clear`, so that a chip that was deleted can come back."""

    def __init__(self) -> None:
        self._pasted: dict[str, str] = {}
        self._pictures: dict[str, Image] = {}

    def clear(self) -> None:
        """The line is empty: the next chips are numbered from 1."""
        self._pasted.clear()
        self._pictures.clear()

    def paste(self, text: str) -> str:
        """What stands in the line for a paste: the text itself, with plain line ends, or a chip."""
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
        """Where chips stand in a line, as begin and end."""
        if labels := [*self._pasted, *self._pictures]:
            yield from (found.span() for found in _any_of(labels).finditer(typed))

    def text_with_chips(self, typed: str) -> ChipText:
        """What is sent. A chip that stands there twice is put in twice; a picture is sent once."""
        images = dict.fromkeys(
            label for begin, end in self.spans(typed) if (label := typed[begin:end]) in self._pictures
        )
        return ChipText(_replaced(typed, self._pasted), tuple(self._pictures[label] for label in images))

    def to_save(self, typed: str) -> SavedChips:
        """For a history. What is not kept along, pictures and very long pastes, loses its number in the text:
        it is no chip any more."""
        pasted = {label: text for label, text in self._pasted.items() if label in typed}
        dropped = [label for label in self._pictures if label in typed]
        if sum(map(byte_length, pasted.values())) > MOST_KEPT:
            dropped += pasted
            pasted = {}
        return SavedChips(_replaced(typed, {label: _NUMBERED.sub("", label, 1) for label in dropped}), pasted)

    def restored(self, kept: SavedChips) -> str:
        """A line from a history; its chips get numbers that are free here."""
        return _replaced(kept.text, {label: self._again(text) for label, text in kept.pasted.items()})

    def _again(self, text: str) -> str:
        return next((one for one, pasted in self._pasted.items() if pasted == text), None) or self.paste(text)

    def _chip(self, about: str, text: str) -> str:
        label = f"[pasted text #{len(self._pasted) + 1} {about}]"
        self._pasted[label] = text
        return label


def _count_lines(text: str) -> int:
    """As people count: a line end at the very end begins no further line."""
    return text.removesuffix("\n").count("\n") + 1


def _any_of(labels: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, labels)))


def _replaced(text: str, by: Mapping[str, str]) -> str:
    """In one pass: what is put in may itself look like a chip. Then it can be stored: keys may have had bytes
    that are no text."""
    return without_surrogates(_any_of([*by]).sub(lambda found: by[found[0]], text) if by else text)


class PromptDraft(msgspec.Struct, frozen=True):
    """A line as it was typed, whole: it can be put back."""

    text: str
    chips: Chips

    @property
    def pasted_in(self) -> str:
        """With what was pasted in place of its chips."""
        return self.chips.text_with_chips(self.text).text
