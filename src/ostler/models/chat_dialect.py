"""In what the servers of the Chat Completions wire differ."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ostler.models.reasoning_levels import LEVELS, WORDS, Level, Levels

NO_MODEL = "(?!)"
"""A pattern that is found in no name."""


def efforts(*levels: Level, **more: Any) -> dict[Level, Any]:
    """The levels by the words of `reasoning_effort`, with more fields beside it."""
    return {level: {"reasoning_effort": WORDS[level], **more} for level in levels}


def switched(off: dict[str, Any], on: dict[str, Any]) -> Levels:
    """Of a model that reasons or does not: all that is above `off` is the same to it."""
    spelled: dict[Level, Any] = dict.fromkeys(LEVELS, on) | {"off": off}
    return Levels(spelled, assumed={"off": off, "high": on})


class Knob(msgspec.Struct, frozen=True):
    """How the models in whose name `models` is found are told how much to reason, if at all."""

    models: str
    levels: Levels
    unasked: dict[str, Any] = {}
    """What is sent to them where no level is asked for."""


USUAL = efforts("low", "medium", "high")
LISTED = Levels(efforts(*LEVELS), assumed={})
"""For models that take a level only where somebody lists what they have."""
ANY = Levels(efforts(*LEVELS), assumed={"off": {}, **USUAL})
"""For models of which nothing is known: not every server knows how to switch reasoning off."""


class ChatDialect(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern is one that is found in a model's name, so an empty one means all models."""

    output_limit: str = "max_tokens"
    """The field that limits the answer's length."""
    usage_option: bool = True
    """Usage has to be asked for; a server that reports it anyway may refuse the question."""
    call_id: str = ""
    """A pattern for the whole of the ids it takes; empty for any."""
    knobs: tuple[Knob, ...] = (Knob("", ANY),)
    """The first that fits a model is its own; the last fits all."""
    replay: Literal["never", "with_calls", "always"] = "with_calls"
    """Which messages carry their reasoning back, in the field in which it came."""
    missing_reasoning: str = ""
    """The `reasoning_content` of a message with calls that has none, where one without it is refused."""
    forced_tools: Literal["any_time", "without_reasoning", "never"] = "any_time"
    """When a model can be made to call a tool."""
    named_tools: bool = True
    """Whether it can be made to call a certain one; otherwise it is made to call any."""
    seeing: str = ""
    """The models that are shown images, of those whose input nobody describes."""
    pdf: Literal["never", "if_it_sees", "always"] = "if_it_sees"
    """`always` where the server reads it to models that see nothing."""
    schemas: str = ""
    """The models whose answer can be held to a schema."""

    def knob(self, model: str) -> Knob:
        return next(knob for knob in self.knobs if re.search(knob.models, model))
