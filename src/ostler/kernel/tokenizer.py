"""The Tokenizer contract: how much of a model's window something takes, and how far to trust the number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from ostler.kernel.model import ToolOffer
from ostler.vocabulary.messages import Message

Source = Literal["estimated", "calibrated", "tokenizer", "reported"]
"""By a rule; by a rule and what the vendor reported of like requests; with the model's vocabulary; by the
vendor. In the order of their certainty."""

Confidence = Literal["low", "medium", "high"]
"""May be off by a half; by a fifth; by a few in a hundred."""


class Count(msgspec.Struct, frozen=True):
    """A number of tokens."""

    tokens: int
    source: Source
    confidence: Confidence

    def __add__(self, other: Count) -> Count:
        """The sum, which is no more certain than the less certain part."""
        return Count(
            self.tokens + other.tokens,
            min(self.source, other.source, key=_SOURCES.__getitem__),
            min(self.confidence, other.confidence, key=_CONFIDENCES.__getitem__),
        )


_SOURCES: dict[Source, int] = {"estimated": 0, "calibrated": 1, "tokenizer": 2, "reported": 3}
_CONFIDENCES: dict[Confidence, int] = {"low": 0, "medium": 1, "high": 2}

NO_TOKENS = Count(0, "reported", "high")
"""Where every sum begins."""


def total(counts: Iterable[Count]) -> Count:
    """The sum of many counts; cheap, since whole sessions are added up."""
    tokens = 0
    kinds: set[tuple[Source, Confidence]] = set()
    for count in counts:
        tokens += count.tokens
        kinds.add((count.source, count.confidence))
    return sum((Count(0, *kind) for kind in kinds), Count(tokens, "reported", "high"))


class Tokenizer(Protocol):
    """Counts what a model would be told, to keep within its window; never to bill anybody.

    - `model` is `PROVIDER/ID`, so that one tokenizer can serve all; an unknown one gets an estimate.
    - It never fails and never waits: it reads no network, and is called on the event loop.
    - A count is never negative, that of an empty text is 0, and the same arguments give the same count.
    - A message is counted with all that is sent for it: what frames it on the wire, each call with its frame,
      id, name and arguments, each result with its call's id, name and content, pictures and files, and
      reasoning where the vendor gets it back. A tokenizer that leaves these out makes windows overflow.
    - Tools are counted with their names, descriptions and schemas; none at all are 0.
    """

    def text(self, text: str, model: str) -> Count: ...

    def message(self, message: Message, model: str) -> Count: ...

    def tools(self, offers: Sequence[ToolOffer], model: str) -> Count: ...
