"""Reasoning levels, and what each family of Claude, Gemini and OpenAI models accepts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from ostler.core.model import ReasoningLevel

if TYPE_CHECKING:
    from ostler.models.catalogue import ModelProfile

Level = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
"""Those that a model may have; a person asks for none above `high`."""

LEVELS: tuple[Level, ...] = get_args(Level)

WORDS: dict[Level, str] = {level: "none" if level == "off" else level for level in LEVELS}
"""As OpenAI calls them, and those who imitate it."""

Spelling = Mapping[Level, Any]
"""What stands for each level on a wire."""


class Levels(msgspec.Struct, frozen=True):
    """What the wire of a kind of models can say about reasoning; nothing for those that take no level."""

    spelled: Spelling = {}
    """A level that is not here is never sent, whoever lists it: the vendor would refuse it."""
    assumed: Spelling | None = None
    """Where nobody lists the model's levels; by default all that are spelled."""
    stoppable: bool = False
    """The vendor is known to take `off`, also where a list leaves it out."""

    def available(self, listed: Collection[Level], reasons: bool | None) -> Spelling:
        """Those of a model of which somebody lists levels, or says whether it reasons."""
        if reasons is False:
            return {}
        available = {level: value for level, value in self.spelled.items() if level in listed}
        if not available:
            return self.spelled if self.assumed is None else self.assumed
        return {"off": self.spelled["off"], **available} if self.stoppable else available


def nearest(asked: Level | None, had: Collection[Level]) -> Level | None:
    """The least level that is not below the one asked for, else the highest; nothing where there is none."""
    if asked is None:
        return None
    ordered = [level for level in LEVELS if level in had]
    enough = [level for level in ordered if LEVELS.index(level) >= LEVELS.index(asked)]
    return next(iter(enough or ordered[-1:]), None)


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


class GeminiFamily(msgspec.Struct, frozen=True):
    levels: Levels = Levels()
    """A number is a budget of tokens, a word a level of thinking."""
    strict: bool = False
    """From the third generation on: calls have ids and signatures, results hold pictures, and an answer may
    have to fit a schema while there are tools."""


_GEMINI_BUDGETS: dict[Level, int] = {"off": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24576}
_BUDGETS_OF_PRO: dict[Level, int] = {"minimal": 128, "low": 2048, "medium": 8192, "high": 24576}
_USUAL_GEMINI: dict[Level, str] = {"low": "LOW", "medium": "MEDIUM", "high": "HIGH"}

_ALL: dict[Level, str] = {"minimal": "MINIMAL", **_USUAL_GEMINI}
"""None of them is `off`: these models cannot be stopped from thinking."""

_GEMINI_FAMILIES: tuple[tuple[str, GeminiFamily], ...] = (
    (r"gemini-(1|2\.0)|gemini-2\.5-.*(image|tts|audio|computer)", GeminiFamily()),
    (r"gemini-2\.5-pro", GeminiFamily(Levels(_BUDGETS_OF_PRO))),
    (r"gemini-2", GeminiFamily(Levels(_GEMINI_BUDGETS))),
    (r"gemini-.*image", GeminiFamily(strict=True)),
    (r"gemini-3-pro", GeminiFamily(Levels({"low": "LOW", "high": "HIGH"}), strict=True)),
    (r"gemini-3(\.[0-7])?-flash", GeminiFamily(Levels(_ALL), strict=True)),
    (r"gemini-", GeminiFamily(Levels(_ALL, assumed=_USUAL_GEMINI), strict=True)),
)

_OTHER_GEMINI = GeminiFamily(Levels(_ALL, assumed={}))
"""Open models behind the same wire."""


def gemini_family(model: str) -> GeminiFamily:
    for pattern, family in _GEMINI_FAMILIES:
        if re.search(pattern, model):
            return family
    return _OTHER_GEMINI


def thinking_for(had: Spelling, asked: ReasoningLevel | None) -> dict[str, object]:
    """The `thinkingConfig` of a request; empty where nothing is to be said."""
    level = nearest(asked, had)
    if level is None:
        return {}
    value = had[level]
    config: dict[str, object] = {"thinkingBudget" if isinstance(value, int) else "thinkingLevel": value}
    if asked != "off":
        config["includeThoughts"] = True
    return config


_USUAL_OPENAI: tuple[Level, ...] = ("low", "medium", "high")

_OPENAI_FAMILIES: tuple[tuple[str, tuple[Level, ...]], ...] = (
    (r"gpt-[34]|chatgpt|gpt-5-chat|gpt-audio", ()),
    (r"gpt-5\.\d+-chat", ("medium",)),
    (r"gpt-5-pro", ("high",)),
    (r"gpt-5\.\d+-pro", ("medium", "high")),
    (r"gpt-5\S*-(codex|cyber)", _USUAL_OPENAI),
    (r"gpt-5\.\d|gpt-6-(sol|luna)|gpt-6\.1-terra", ("off", *_USUAL_OPENAI)),
    (r"gpt-5", ("minimal", *_USUAL_OPENAI)),
    (r"gpt-|o\d(-|$)", _USUAL_OPENAI),
)

FAMILIES = tuple([(rf"(^|[/:])({pattern})", levels) for pattern, levels in _OPENAI_FAMILIES])
"""By a pattern that is found in their names, also in those of fine-tuned models."""

_UNKNOWN = Levels(WORDS, assumed={"off": "", **{level: level for level in _USUAL_OPENAI}})
"""An empty word is not sent."""


def openai_levels(model: str, settings: ModelProfile) -> Spelling:
    """The word for each level that the model has; nothing for one that does not reason."""
    family = next((levels for pattern, levels in FAMILIES if re.search(pattern, model)), None)
    if family is None or (not family and settings.reasons):
        return _UNKNOWN.available(settings.reasoning_levels, settings.reasons)
    levels = Levels({level: WORDS[level] for level in family}, stoppable="off" in family)
    return levels.available(settings.reasoning_levels, settings.reasons)


def reasoning_fields(had: Spelling, reasons: bool | None, asked: ReasoningLevel | None) -> dict[str, Any]:
    """The fields of a request that say how much to reason, and that the reasoning is wanted for replay.

    Models that do not reason refuse both. Of an unknown one it is taken that it reasons when somebody
    says so, or asks it to.
    """
    level = nearest(asked, had)
    word = had[level] if level else ""
    is_known = bool(reasons) or had.get("off") != ""
    if not had or not (word or is_known):
        return {}
    fields: dict[str, Any] = {"include": ["reasoning.encrypted_content"]}
    if word:
        fields["reasoning"] = {"effort": word} | ({} if word == "none" else {"summary": "auto"})
    return fields
