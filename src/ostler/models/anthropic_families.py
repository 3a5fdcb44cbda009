"""In what Claude models differ on their wire: how much they may write, and how they are told to think."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ostler.kernel.model import ReasoningLevel
from ostler.models.reasoning_levels import Level, Levels

Thinking = Literal["none", "budget", "adaptive"]
"""Not at all; within a number of tokens; or as much as the model sees fit for a level of effort."""


class ClaudeFamily(msgspec.Struct, frozen=True):
    output_tokens: int
    thinking: Thinking
    schemas: bool = False
    """Whether the text of an answer can be held to a schema."""


_CLAUDE_FAMILIES: tuple[tuple[str, ClaudeFamily], ...] = (
    (r"claude-3-(opus|sonnet|haiku)", ClaudeFamily(4096, "none")),
    (r"claude-3-5-", ClaudeFamily(8192, "none")),
    (r"claude-3-7-", ClaudeFamily(32_000, "budget")),
    (r"claude-(opus|sonnet|haiku)-4-5(-\d{8}|@|$|-v|-latest)", ClaudeFamily(32_000, "budget", schemas=True)),
    (r"claude-(opus|sonnet|haiku)-4(-[0-4])?(-\d{8}|@|$|-v|-latest)", ClaudeFamily(32_000, "budget")),
    (r"claude-", ClaudeFamily(32_000, "adaptive", schemas=True)),
)
_OTHER_CLAUDE = ClaudeFamily(32_000, "budget")
"""Models of other vendors behind the same wire know the older way to ask for thinking."""

_CLAUDE_BUDGETS: dict[Level, int] = {"off": 0, "minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}
_EFFORTS: dict[Level, str] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
_LEVELS: dict[Thinking, Levels] = {
    "none": Levels(),
    "budget": Levels(_CLAUDE_BUDGETS),
    # Some models cannot be stopped from thinking, and refuse to be told to.
    "adaptive": Levels({"off": "", **_EFFORTS}, assumed=_EFFORTS),
}
_ROOM_TO_ANSWER = 4096


def claude_family(model: str) -> ClaudeFamily:
    for pattern, family in _CLAUDE_FAMILIES:
        if re.search(pattern, model):
            return family
    return _OTHER_CLAUDE


def claude_levels(family: ClaudeFamily) -> Levels:
    """A number is a budget of tokens, a word an effort."""
    return _LEVELS[family.thinking]


def limits_for(
    family: ClaudeFamily,
    asked: ReasoningLevel | None,
    level: Level | None,
    output: int | None,
    most: int | None,
    *,
    forced_tool: bool,
) -> dict[str, Any]:
    """The fields of a request that say how much the model may think and write, of at most so many tokens.

    `level` is what the model has for the level that was `asked`.
    """
    limit = output or min(family.output_tokens, most or family.output_tokens)
    if level is None:
        return {"max_tokens": limit}
    if family.thinking == "adaptive":
        if level == "off":
            return {"max_tokens": limit, "thinking": {"type": "disabled"}}
        fields: dict[str, Any] = {"max_tokens": limit, "output_config": {"effort": _EFFORTS[level]}}
        if asked != "off" and not forced_tool:
            fields["thinking"] = {"type": "adaptive", "display": "summarized"}
        return fields
    # The vendor refuses thinking together with a tool that must be called.
    if level == "off" or forced_tool:
        return {"max_tokens": limit}
    budget = _CLAUDE_BUDGETS[level]
    if most is not None:
        budget = max(_CLAUDE_BUDGETS["minimal"], min(budget, most - _ROOM_TO_ANSWER))
    return {
        "max_tokens": max(limit, budget + _ROOM_TO_ANSWER),
        "thinking": {"type": "enabled", "budget_tokens": budget},
    }
