"""In what Gemini models differ on their wire: how they are told to think, and what they insist on."""

from __future__ import annotations

import re

import msgspec

from ostler.kernel.model import ReasoningLevel
from ostler.models.reasoning_levels import Level, Levels, Spelling, nearest


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
    said = had[level]
    config: dict[str, object] = {"thinkingBudget" if isinstance(said, int) else "thinkingLevel": said}
    if asked != "off":
        config["includeThoughts"] = True
    return config
