"""What a user may set about a model, beside its name."""

from __future__ import annotations

import msgspec

from ostler.vocabulary.usage import Usage


class Prices(msgspec.Struct, frozen=True):
    """Dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    def cost(self, usage: Usage) -> float:
        return (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * self.cache_read
            + usage.cache_write_tokens * self.cache_write
        ) / 1_000_000


class ModelSettings(msgspec.Struct, frozen=True):
    max_output_tokens: int | None = None
    """For requests that do not say it themselves."""
    headers: dict[str, str] = {}
    """Sent with every request, over the wire's own."""
    prices: Prices | None = None
    """Without them the cost of a call is unknown, unless the vendor reports it."""
