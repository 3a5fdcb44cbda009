"""How OpenAI's models are told to reason: the levels that each family has."""

from __future__ import annotations

import re
from typing import Any

from ostler.kernel.model import ReasoningLevel
from ostler.models.reasoning_levels import WORDS, Level, Levels, Spelling, nearest
from ostler.models.settings import ModelSettings

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


def openai_levels(model: str, settings: ModelSettings) -> Spelling:
    """The word for each level that the model has; nothing for one that does not reason."""
    family = next((levels for pattern, levels in FAMILIES if re.search(pattern, model)), None)
    if family is None or (not family and settings.reasons):
        return _UNKNOWN.had(settings.reasoning_levels, settings.reasons)
    levels = Levels({level: WORDS[level] for level in family}, stoppable="off" in family)
    return levels.had(settings.reasoning_levels, settings.reasons)


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
