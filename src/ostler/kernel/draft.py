"""What has been streamed of a message so far, put together from its deltas."""

from __future__ import annotations

from collections.abc import Sequence

from ostler.kernel.model import ModelEvent
from ostler.vocabulary.events import ReasoningDelta, TextDelta
from ostler.vocabulary.messages import Block, Reasoning, Text


class Draft:
    """The text and the reasoning of an open message, by block. Calls that are cut never were."""

    def __init__(self) -> None:
        self._text: dict[int, list[str]] = {}
        self._reasoning: dict[int, list[str]] = {}

    def take(self, batch: Sequence[ModelEvent]) -> None:
        for event in batch:
            kind = type(event)
            if kind is TextDelta:
                self._text.setdefault(event.block, []).append(event.text)  # type: ignore[union-attr]
            elif kind is ReasoningDelta:
                self._reasoning.setdefault(event.block, []).append(event.text)  # type: ignore[union-attr]

    def text(self) -> tuple[Block, ...]:
        """The text alone: what may be told to a model when the rest was cut."""
        return tuple(Text("".join(parts)) for _, parts in sorted(self._text.items()) if any(parts))

    def content(self) -> tuple[Block, ...]:
        """Text and reasoning in their order, for people."""
        blocks: dict[int, Block] = {i: Reasoning("".join(parts)) for i, parts in self._reasoning.items()}
        blocks |= {i: Text("".join(parts)) for i, parts in self._text.items()}
        return tuple(block for _, block in sorted(blocks.items()))
