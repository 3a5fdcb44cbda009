"""In what Gemini models differ on their wire: how they are told to think, and what they insist on."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from ostler.kernel.model import ReasoningLevel

Level = Literal["MINIMAL", "LOW", "MEDIUM", "HIGH"]


class Family(msgspec.Struct, frozen=True):
    """`budgets` or `levels` say what a level of reasoning is called; with neither there is no thinking."""

    strict: bool = False
    """From the third generation on: calls have ids and signatures, results hold pictures, and an answer may
    have to fit a schema while there are tools."""
    budgets: dict[ReasoningLevel, int] | None = None
    levels: dict[ReasoningLevel, Level] | None = None

    @property
    def thinks(self) -> bool:
        return self.budgets is not None or self.levels is not None


_BUDGETS: dict[ReasoningLevel, int] = {"off": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24576}
_LEVELS: dict[ReasoningLevel, Level] = {
    "off": "LOW",  # the models of these families cannot be stopped from thinking
    "minimal": "LOW",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
}

_FAMILIES: tuple[tuple[str, Family], ...] = (
    (r"gemini-(1|2\.0)|gemini-2\.5-.*(image|tts|audio|computer)", Family()),
    (r"gemini-2\.5-pro", Family(budgets=_BUDGETS | {"off": 128})),
    (r"gemini-2", Family(budgets=_BUDGETS)),
    (r"gemini-.*image", Family(strict=True)),
    (r"gemini-3-pro", Family(strict=True, levels=_LEVELS | {"medium": "HIGH"})),
    (
        r"gemini-3(\.[0-7])?-flash",
        Family(strict=True, levels=_LEVELS | {"off": "MINIMAL", "minimal": "MINIMAL"}),
    ),
    (r"gemini-", Family(strict=True, levels=_LEVELS)),
)
_OTHER = Family()
"""Open models behind the same wire."""


def family_of(model: str) -> Family:
    for pattern, family in _FAMILIES:
        if re.search(pattern, model):
            return family
    return _OTHER


def thinking_for(family: Family, reasoning: ReasoningLevel | None) -> dict[str, object]:
    """The `thinkingConfig` of a request; empty where nothing is to be said."""
    if reasoning is None:
        return {}
    config: dict[str, object] = {}
    if family.budgets is not None:
        config["thinkingBudget"] = family.budgets[reasoning]
    elif family.levels is not None:
        config["thinkingLevel"] = family.levels[reasoning]
    if config and reasoning != "off":
        config["includeThoughts"] = True
    return config
