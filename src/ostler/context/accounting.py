"""The tokens of one request, part by part: what vendors reported corrects each, and they add up."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from math import ceil

import msgspec

from ostler.context.calibration import Coefficient
from ostler.context.planning import Decision, Kept
from ostler.kernel.tokenizer import Confidence, Count

_MAY_BE_OFF: dict[Confidence, float] = {"high": 0.05, "medium": 0.2, "low": 0.5}


class Account(msgspec.Struct, frozen=True):
    """What there is room for, and what takes it; as it is counted here."""

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
        """Corrected: the parts add up to `all`. What is not there is left out."""
        beside = (self.fixed, self.fences, self.reminders)
        fixed, fences, reminders, messages = corrected((*beside, self.messages), coefficient)
        room = corrected((*beside, max(0, self.room)), coefficient)[-1]
        parts = {"fixed": fixed, "fences": fences, "reminders": reminders}
        return {
            "window": self.window,
            "reserve": self.reserve,
            **{name: tokens for name, tokens in parts.items() if tokens or name == "fixed"},
            "room": room,
            "messages": messages,
            "all": fixed + fences + reminders + messages,
        }


def corrected(parts: Iterable[int], coefficient: Coefficient) -> list[int]:
    """Each part, so that the sum is what the coefficient makes of the sum."""
    value = coefficient.value if coefficient.applies else 1
    sums = [ceil(so_far * value) for so_far in accumulate(parts, initial=0)]
    return [after - before for before, after in pairwise(sums)]


def corrected_decision(one: Decision, coefficient: Coefficient) -> Decision:
    (before,), (after,) = corrected([one.before], coefficient), corrected([one.after], coefficient)
    return msgspec.structs.replace(one, before=before, after=after)


def since_reported(reported: int, new: Count) -> Count:
    """What a vendor has counted, and what is new since then: as certain as the share of that lets it be."""
    tokens = reported + new.tokens
    off = new.tokens * _MAY_BE_OFF[new.confidence] / max(1, tokens)
    confidence: Confidence = next((one for one in ("high", "medium") if off <= _MAY_BE_OFF[one]), "low")
    return Count(tokens, "reported", confidence)


def too_much(model: str, tokens: dict[str, int], kept: Iterable[Kept]) -> str:
    """Why a request cannot be made to fit, in one line."""
    rules: dict[str, int] = {}
    for one in kept:
        rules[one.rule] = rules.get(one.rule, 0) + one.tokens
    by = ", ".join(f"{rule} {size}" for rule, size in rules.items())
    beside = {
        "the answer": tokens["reserve"],
        "system prompt and tools": tokens["fixed"],
        "fences": tokens.get("fences", 0),
        "reminders": tokens.get("reminders", 0),
    }
    taken = ", ".join(f"{size} for {what}" for what, size in beside.items() if size)
    return (
        f"what must be told takes about {tokens['messages']} tokens ({by}), and {model} has room for "
        f"{tokens['room']}: of {tokens['window']}, {taken}; "
        "choose a model with a larger window, or begin a new session"
    )
