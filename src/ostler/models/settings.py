"""What a user may set about a model, beside its name."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from ostler.models.reasoning_levels import Level
from ostler.vocabulary.usage import Usage

Modality = Literal["text", "image", "file", "audio", "video"]


class Rates(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Dollars for a million tokens; `None` is unknown, which is never the same as 0."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None

    def charge(self, usage: Usage) -> float | None:
        """Unknown when a rate is missing for something that was used."""
        charged = 0.0
        for tokens, rate in (
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ):
            if not tokens:
                continue
            if rate is None:
                return None
            charged += tokens * rate
        return charged / 1_000_000


class Tier(Rates, frozen=True, kw_only=True):
    """What every token of a call costs whose input, cached or not, has more than so many tokens."""

    above: int


class Hours(Rates, frozen=True, kw_only=True):
    """What a call costs between two times of the day, `HH:MM` in UTC."""

    start: str
    end: str

    def include(self, clock: str) -> bool:
        if self.start <= self.end:
            return self.start <= clock < self.end
        return clock >= self.start or clock < self.end


class Prices(Rates, frozen=True):
    tiers: tuple[Tier, ...] = ()
    hours: tuple[Hours, ...] = ()

    def cost(self, usage: Usage, at: float | None = None) -> float | None:
        """Dollars for a call at that moment, by default now; `None` is unknown."""
        return self._rates(usage, at).charge(usage)

    def _rates(self, usage: Usage, at: float | None) -> Rates:
        if self.hours:
            clock = time.strftime("%H:%M", time.gmtime(at))
            for hours in self.hours:
                if hours.include(clock):
                    return hours
        told = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        reached = [tier for tier in self.tiers if told > tier.above]
        return max(reached, key=lambda tier: tier.above) if reached else self


FREE = Prices(input=0.0, output=0.0, cache_read=0.0, cache_write=0.0)
"""Of a server of one's own."""


class ModelSettings(msgspec.Struct, frozen=True):
    max_output_tokens: int | None = None
    """For requests that do not say it themselves."""
    headers: dict[str, str] = {}
    """Sent with every request, over the wire's own."""
    prices: Prices | None = None
    """Without them the cost of a call is unknown, unless the vendor reports it."""
    output_limit: int | None = None
    """The most that the model can write in one answer, where it is known."""
    input: tuple[Modality, ...] = ()
    """What the model can be shown; empty where it is not known."""
    reasons: bool | None = None
    """Whether the model can reason, where it is known."""
    reasoning_levels: tuple[Level, ...] = ()
    """Those that it has; empty where they are not known."""
    tools: bool | None = None
    """Whether it takes tools, where it is known."""
    assumptions: str = ""
    """What had to be assumed of a model that nobody has described; told at the beginning of a session."""
