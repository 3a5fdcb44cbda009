"""Corrects token estimates by the counts that vendors report: a coefficient for each model.

The trace of a `model_called` holds the uncorrected `estimate` of the whole input (a `Count`), and `usage`
holds the vendor's count. The coefficient is the ratio of their sums over the newest requests to that model.
Requests that were counted in another way, or without reported usage, are ignored.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from itertools import accumulate, pairwise
from math import ceil
from typing import Any

import msgspec

from ostler.context.selection import Decision, RequiredEntry
from ostler.core.context import Confidence, Count, Source
from ostler.schema.events import Event, ModelCalled, UsageReported
from ostler.schema.usage import Usage

MIN_SAMPLES = 3

NEWEST_SAMPLES = 20
"""Older ones are dropped, because the content of a session changes."""

LEAST, MOST = 0.5, 3.0
"""Beyond these, the report is probably wrong: some servers report only tokens that are not cached."""

_MANY_SAMPLES = 8
_NARROW, _WIDE = 0.05, 0.2


class Coefficient(msgspec.Struct, frozen=True):
    """The factor for counts of one model. With too few samples it changes nothing."""

    value: float = 1.0
    samples: int = 0
    spread: float = 0.0
    """The distance between the largest and the smallest sample, as a share of the value."""

    @property
    def applies(self) -> bool:
        return self.samples >= MIN_SAMPLES

    @property
    def confidence(self) -> Confidence:
        if not self.applies or self.spread > _WIDE:
            return "low"
        return "high" if self.samples >= _MANY_SAMPLES and self.spread <= _NARROW else "medium"

    def applied(self, count: Count) -> Count:
        if not self.applies or count.source == "reported":
            return count
        return Count(ceil(count.tokens * self.value), "calibrated", self.confidence)


class Calibration:
    """The coefficients of a session, computed from its facts in their order."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[str, Count]] = {}
        """The model and the count of each call whose usage is not reported yet."""
        self._samples: dict[tuple[str, Source], deque[tuple[int, int]]] = {}
        self._coefficients: dict[tuple[str, Source], Coefficient] = {}

    def apply(self, event: Event) -> None:
        """Applies a fact; most have no effect."""
        if isinstance(event, ModelCalled):
            count = _count_in(event.trace)
            if count is not None:
                self._counted[event.id] = (event.model, count)
        elif isinstance(event, UsageReported):
            model, count = self._counted.pop(event.call, ("", None))
            reported = input_of(event.usage)
            if count is not None and reported:
                route = (model, count.source)
                samples = self._samples.setdefault(route, deque(maxlen=NEWEST_SAMPLES))
                samples.append((count.tokens, reported))
                self._coefficients[route] = _coefficient(samples)

    def of(self, model: str, source: Source) -> Coefficient:
        """The coefficient for counts from that source for that model (`PROVIDER/ID`)."""
        return self._coefficients.get((model, source), Coefficient())


def input_of(usage: Usage) -> int:
    """The whole input as the vendor counted it, cached or not; 0 if it was not reported."""
    if usage.source != "reported":
        return 0
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def _coefficient(samples: deque[tuple[int, int]]) -> Coefficient:
    if len(samples) < MIN_SAMPLES:
        return Coefficient(samples=len(samples))
    value = sum(reported for _, reported in samples) / sum(counted for counted, _ in samples)
    ratios = [reported / counted for counted, reported in samples]
    spread = (max(ratios) - min(ratios)) / value
    return Coefficient(min(max(value, LEAST), MOST), len(samples), spread)


def _count_in(trace: Any) -> Count | None:
    if not isinstance(trace, dict):
        return None
    try:
        count = msgspec.convert(trace.get("estimate"), Count)
    except msgspec.ValidationError:  # a trace of a newer version, or a host's own
        return None
    return count if count.tokens > 0 else None


_MAY_BE_OFF: dict[Confidence, float] = {"high": 0.05, "medium": 0.2, "low": 0.5}


class Account(msgspec.Struct, frozen=True):
    """The parts of a context in tokens, as counted here."""

    window: int
    reserve: int
    fixed: int
    """The system prompt and the tools."""
    fences: int
    reminders: int
    messages: int
    room: int
    """For the messages."""

    @property
    def total(self) -> int:
        return self.fixed + self.fences + self.reminders + self.messages

    def traced(self, coefficient: Coefficient) -> dict[str, int]:
        """The corrected parts, which add up to `all`; empty ones are left out."""
        beside = (self.fixed, self.fences, self.reminders)
        fixed, fences, reminders, messages = corrected_count((*beside, self.messages), coefficient)
        room = corrected_count((*beside, max(0, self.room)), coefficient)[-1]
        parts = {"fixed": fixed, "fences": fences, "reminders": reminders}
        return {
            "window": self.window,
            "reserve": self.reserve,
            **{name: tokens for name, tokens in parts.items() if tokens or name == "fixed"},
            "room": room,
            "messages": messages,
            "all": fixed + fences + reminders + messages,
        }


def corrected_count(parts: Iterable[int], coefficient: Coefficient) -> list[int]:
    """Corrects each part, so that their sum is the corrected sum."""
    value = coefficient.value if coefficient.applies else 1
    sums = [ceil(so_far * value) for so_far in accumulate(parts, initial=0)]
    return [after - before for before, after in pairwise(sums)]


def corrected_decision(one: Decision, coefficient: Coefficient) -> Decision:
    [before], [after] = (corrected_count([tokens], coefficient) for tokens in (one.before, one.after))
    return msgspec.structs.replace(one, before=before, after=after)


def since_reported(reported: int, new: Count) -> Count:
    """The vendor's count plus that of new messages; the larger their share, the less certain."""
    tokens = reported + new.tokens
    off = new.tokens * _MAY_BE_OFF[new.confidence] / max(1, tokens)
    confidence: Confidence = next((one for one in ("high", "medium") if off <= _MAY_BE_OFF[one]), "low")
    return Count(tokens, "reported", confidence)


def too_much(model: str, tokens: dict[str, int], required: Iterable[RequiredEntry]) -> str:
    """Why a request cannot fit, in one line."""
    sizes = Counter[str]()
    for one in required:
        sizes[one.rule] += one.tokens
    by_rule = ", ".join(f"{rule} {size}" for rule, size in sizes.items())
    others = {
        "the answer": tokens["reserve"],
        "system prompt and tools": tokens["fixed"],
        "context providers": tokens.get("fences", 0),
        "reminders": tokens.get("reminders", 0),
    }
    reserved = ", ".join(f"{size} for {part}" for part, size in others.items() if size)
    return (
        f"the required messages have about {tokens['messages']} tokens ({by_rule}), and {model} has room for "
        f"{tokens['room']}: of {tokens['window']}, {reserved}; "
        "choose a model with a larger window, or begin a new session"
    )
