"""In what the servers of the Chat Completions wire differ."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ostler.kernel.model import ReasoningLevel

Levels = dict[ReasoningLevel | None, dict[str, Any]]
"""The fields of a request that stand for each level of reasoning, and for none being named."""

NO_MODEL = "(?!)"
"""A pattern that is found in no name."""


def efforts(
    off: str = "", minimal: str = "low", low: str = "low", medium: str = "medium", high: str = "high"
) -> Levels:
    """Levels by the words of `reasoning_effort`; an empty one is not sent."""
    words: dict[ReasoningLevel | None, str] = {"off": off, "minimal": minimal, "low": low}
    words |= {"medium": medium, "high": high}
    return {level: {"reasoning_effort": word} if word else {} for level, word in words.items()}


def switched(off: dict[str, Any], on: dict[str, Any]) -> Levels:
    """Levels of a model that reasons or does not."""
    return {"off": off, "minimal": on, "low": on, "medium": on, "high": on}


class Knob(msgspec.Struct, frozen=True):
    """How the models in whose name `models` is found are told how much to reason, if at all."""

    models: str
    levels: Levels


class ChatDialect(msgspec.Struct, frozen=True, kw_only=True):
    """A pattern is one that is found in a model's name, so an empty one means all models."""

    output_limit: str = "max_tokens"
    """The field that limits the answer's length."""
    usage_option: bool = True
    """Usage has to be asked for; a server that reports it anyway may refuse the question."""
    call_id: str = ""
    """A pattern for the whole of the ids it takes; empty for any."""
    knobs: tuple[Knob, ...] = (Knob("", efforts()),)
    """The first that fits a model is its own; a model that none fits takes no level."""
    replay: Literal["never", "with_calls", "always"] = "with_calls"
    """Which messages carry their reasoning back, in the field in which it came."""
    missing_reasoning: str = ""
    """The `reasoning_content` of a message with calls that has none, where one without it is refused."""
    forced_tools: Literal["any_time", "without_reasoning", "never"] = "any_time"
    """When a model can be made to call a tool."""
    named_tools: bool = True
    """Whether it can be made to call a certain one; otherwise it is made to call any."""
    seeing: str = ""
    """The models that are shown images."""
    pdf: bool = True
    schemas: str = ""
    """The models whose answer can be held to a schema."""

    def levels(self, model: str) -> Levels:
        return next((knob.levels for knob in self.knobs if re.search(knob.models, model)), {})
