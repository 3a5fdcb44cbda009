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
"""Levels that a model may have; a person cannot request one above `high`."""

LEVELS: tuple[Level, ...] = get_args(Level)

WORDS: dict[Level, str] = {level: "none" if level == "off" else level for level in LEVELS}
"""The words of OpenAI, and of servers that are compatible with it."""

Spelling = Mapping[Level, Any]
"""The value of each level on a wire."""


class Levels(msgspec.Struct, frozen=True):
    """The reasoning levels of a kind of models on their wire; empty for models without levels."""

    spelled: Spelling = {}
    """Only these levels are ever sent: the vendor would refuse another."""
    assumed: Spelling | None = None
    """The levels of a model that the catalogue does not describe; by default all that have a name."""
    stoppable: bool = False
    """The vendor accepts `off`, even if a list omits it."""

    def available(self, listed: Collection[Level], reasons: bool | None) -> Spelling:
        """The levels of a model, by its listed levels and whether it reasons."""
        if reasons is False:
            return {}
        available = {level: value for level, value in self.spelled.items() if level in listed}
        if not available:
            return self.spelled if self.assumed is None else self.assumed
        return {"off": self.spelled["off"], **available} if self.stoppable else available


def nearest(requested: Level | None, available: Collection[Level]) -> Level | None:
    """The lowest available level that is not below the requested one, else the highest; None without any."""
    if requested is None:
        return None
    ordered = [level for level in LEVELS if level in available]
    enough = [level for level in ordered if LEVELS.index(level) >= LEVELS.index(requested)]
    return next(iter(enough or ordered[-1:]), None)


Thinking = Literal["none", "budget", "adaptive"]
"""None; within a budget of tokens; or as much as the model chooses at a level of effort."""


class ClaudeFamily(msgspec.Struct, frozen=True):
    output_tokens: int
    thinking: Thinking
    schemas: bool = False
    """Whether the vendor can enforce a schema for the answer."""


_CLAUDE_FAMILIES: tuple[tuple[str, ClaudeFamily], ...] = (
    (r"claude-3-(opus|sonnet|haiku)", ClaudeFamily(4096, "none")),
    (r"claude-3-5-", ClaudeFamily(8192, "none")),
    (r"claude-3-7-", ClaudeFamily(32_000, "budget")),
    (r"claude-(opus|sonnet|haiku)-4-5(-\d{8}|@|$|-v|-latest)", ClaudeFamily(32_000, "budget", schemas=True)),
    (r"claude-(opus|sonnet|haiku)-4(-[0-4])?(-\d{8}|@|$|-v|-latest)", ClaudeFamily(32_000, "budget")),
    (r"claude-", ClaudeFamily(32_000, "adaptive", schemas=True)),
)

_OTHER_CLAUDE = ClaudeFamily(32_000, "budget")
"""Models of other vendors on the same wire support the older way to request thinking."""

_CLAUDE_BUDGETS: dict[Level, int] = {"off": 0, "minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}
_EFFORTS: dict[Level, str] = {level: level for level in LEVELS[LEVELS.index("low") :]}

_LEVELS: dict[Thinking, Levels] = {
    "none": Levels(),
    "budget": Levels(_CLAUDE_BUDGETS),
    # Some models always think, and refuse a request that turns it off.
    "adaptive": Levels({"off": "", **_EFFORTS}, assumed=_EFFORTS),
}

_ROOM_TO_ANSWER = 4096


def claude_family(model: str) -> ClaudeFamily:
    families = (family for pattern, family in _CLAUDE_FAMILIES if re.search(pattern, model))
    return next(families, _OTHER_CLAUDE)


def claude_levels(family: ClaudeFamily) -> Levels:
    """A number is a budget of tokens, a word an effort."""
    return _LEVELS[family.thinking]


def limits_for(
    family: ClaudeFamily,
    requested: ReasoningLevel | None,
    level: Level | None,
    output: int | None,
    most: int | None,
    *,
    forced_tool: bool,
) -> dict[str, Any]:
    """The fields of a request that limit how much the model thinks and writes; `most` is its own limit.

    `level` is the model's level for the `requested` one.
    """
    limit = output or min(family.output_tokens, most or family.output_tokens)
    if level is None:
        return {"max_tokens": limit}
    if family.thinking == "adaptive":
        if level == "off":
            return {"max_tokens": limit, "thinking": {"type": "disabled"}}
        fields: dict[str, Any] = {"max_tokens": limit, "output_config": {"effort": _EFFORTS[level]}}
        if requested != "off" and not forced_tool:
            fields["thinking"] = {"type": "adaptive", "display": "summarized"}
        return fields
    # The vendor refuses thinking with a tool that must be called.
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
    """Since the third generation: calls have ids and signatures, results may contain pictures, and a schema
    can be combined with tools."""


_GEMINI_BUDGETS: dict[Level, int] = {"off": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24576}
_BUDGETS_OF_PRO: dict[Level, int] = {"minimal": 128, "low": 2048, "medium": 8192, "high": 24576}
_USUAL_GEMINI: dict[Level, str] = {"low": "LOW", "medium": "MEDIUM", "high": "HIGH"}

_ALL: dict[Level, str] = {"minimal": "MINIMAL", **_USUAL_GEMINI}
"""None of them is `off`: these models always think."""

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
"""Open models on the same wire."""


def gemini_family(model: str) -> GeminiFamily:
    families = (family for pattern, family in _GEMINI_FAMILIES if re.search(pattern, model))
    return next(families, _OTHER_GEMINI)


def thinking_for(available: Spelling, requested: ReasoningLevel | None) -> dict[str, object]:
    """The `thinkingConfig` of a request; empty without a level."""
    level = nearest(requested, available)
    if level is None:
        return {}
    value = available[level]
    config: dict[str, object] = {"thinkingBudget" if isinstance(value, int) else "thinkingLevel": value}
    if requested != "off":
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
"""Patterns in model names, including those of fine-tuned models, and their levels."""

_UNKNOWN = Levels(WORDS, assumed={"off": "", **{level: level for level in _USUAL_OPENAI}})
"""An empty word is not sent."""


def openai_levels(model: str, settings: ModelProfile) -> Spelling:
    """The word for each level of the model; empty for one that does not reason."""
    family = next((levels for pattern, levels in FAMILIES if re.search(pattern, model)), None)
    if family is None or (not family and settings.reasons):
        return _UNKNOWN.available(settings.reasoning_levels, settings.reasons)
    levels = Levels({level: WORDS[level] for level in family}, stoppable="off" in family)
    return levels.available(settings.reasoning_levels, settings.reasons)


def reasoning_fields(
    available: Spelling, reasons: bool | None, requested: ReasoningLevel | None
) -> dict[str, Any]:
    """The fields of a request that set the level of reasoning, and ask for the reasoning for replay.

    Models that do not reason refuse both. An unknown model is assumed to reason if its profile says so, or
    if a level is requested.
    """
    level = nearest(requested, available)
    word = available[level] if level else ""
    does_reason = bool(reasons) or available.get("off") != ""
    if not available or not (word or does_reason):
        return {}
    fields: dict[str, Any] = {"include": ["reasoning.encrypted_content"]}
    if word:
        fields["reasoning"] = {"effort": word} | ({} if word == "none" else {"summary": "auto"})
    return fields
