"""What runs add up to."""

from __future__ import annotations

import msgspec

from ostler.vocabulary.usage import Usage


class Totals(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sums over a run, or over runs."""

    runs: int = 0
    """How many runs these are; of a run's own totals it is left out."""
    steps: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    refused_calls: int = 0
    usage: Usage = Usage(cost=0.0)
    duration_ms: int = 0
    known_cost: float = 0.0
    """The part of the cost that is known, where not all of it is."""

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
        """What it cost at least."""
        return self.known_cost if self.usage.cost is None else self.usage.cost
