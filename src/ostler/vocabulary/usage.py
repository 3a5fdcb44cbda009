"""What a model call cost: tokens as the vendor counted them, money only where it is known."""

from __future__ import annotations

from typing import Literal

import msgspec

UsageSource = Literal["reported", "estimated", "unknown"]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens and cost of one model call, or a sum of them.

    `input_tokens` excludes what was read from or written to the prompt cache; `output_tokens` includes
    `reasoning_tokens`. `cost` is in dollars; `None` means unknown, which is never the same as 0.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    source: UsageSource = "reported"

    def __add__(self, other: Usage) -> Usage:
        """Sum of both; an unknown part makes the sum's source unknown, an unknown cost its cost."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost=None if self.cost is None or other.cost is None else self.cost + other.cost,
            source=_less_certain(self.source, other.source),
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens


NOTHING_USED = Usage(cost=0.0)
"""Where every sum begins: no tokens, and a cost that is known to be zero."""

UNKNOWN_USAGE = Usage(source="unknown")
"""Of a call whose vendor never said, because it failed, was cancelled or was cut."""

_CERTAINTY: dict[UsageSource, int] = {"reported": 0, "estimated": 1, "unknown": 2}


def _less_certain(one: UsageSource, other: UsageSource) -> UsageSource:
    return one if _CERTAINTY[one] >= _CERTAINTY[other] else other
