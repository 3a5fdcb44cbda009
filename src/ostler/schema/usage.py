"""Tokens and cost of model calls, totals of runs, and limits."""

from __future__ import annotations

from typing import Literal

import msgspec

UsageSource = Literal["reported", "estimated", "unknown"]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens and cost of one model call, or a sum of them.

    `input_tokens` excludes tokens read from or written to the prompt cache; `output_tokens` includes
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
        """An unknown part makes the sum's source unknown, an unknown cost its cost."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost=None if self.cost is None or other.cost is None else self.cost + other.cost,
            source=max(self.source, other.source, key=_UNCERTAINTY.__getitem__),
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens


NOTHING_USED = Usage(cost=0.0)
"""The start of every sum: no tokens, and a cost that is known to be zero."""

UNKNOWN_USAGE = Usage(source="unknown")
"""Of a call that failed, was cancelled or interrupted before the vendor reported usage."""

_UNCERTAINTY: dict[UsageSource, int] = {"reported": 0, "estimated": 1, "unknown": 2}


class Totals(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sums over a run, or over runs."""

    runs: int = 0
    """How many runs these are; 0 in a run's own totals."""
    steps: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    refused_calls: int = 0
    usage: Usage = Usage(cost=0.0)
    duration_ms: int = 0
    known_cost: float = 0.0
    """The known part of the cost, if the whole is unknown."""

    def __add__(self, other: Totals) -> Totals:
        usage = self.usage + other.usage
        return Totals(
            runs=self.runs + other.runs,
            steps=self.steps + other.steps,
            model_calls=self.model_calls + other.model_calls,
            tool_calls=self.tool_calls + other.tool_calls,
            refused_calls=self.refused_calls + other.refused_calls,
            usage=usage,
            duration_ms=self.duration_ms + other.duration_ms,
            known_cost=self.least_cost + other.least_cost if usage.cost is None else 0.0,
        )

    @property
    def least_cost(self) -> float:
        return self.known_cost if self.usage.cost is None else self.usage.cost


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ends a run with `limit`; `None` is no limit."""

    steps: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    depth: int | None = None
    children: int | None = None
    retries: int | None = 20
    """How many failed model calls may be retried in the whole run."""
