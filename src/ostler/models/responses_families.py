"""How OpenAI's models are told to reason: the efforts that each family knows."""

from __future__ import annotations

import re
from typing import Any

from ostler.kernel.model import ReasoningLevel

_EFFORTS = ("none", "minimal", "low", "medium", "high")
_USUAL = ("low", "medium", "high")

_FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"gpt-[34]|chatgpt|gpt-5-chat|gpt-audio", ()),
    (r"gpt-5\.\d+-chat", ("medium",)),
    (r"gpt-5-pro", ("high",)),
    (r"gpt-5\.\d+-pro", ("medium", "high")),
    (r"gpt-5\S*-(codex|cyber)", _USUAL),
    (r"gpt-5\.\d|gpt-6-(sol|luna)|gpt-6\.1-terra", ("none", *_USUAL)),
    (r"gpt-5", ("minimal", *_USUAL)),
    (r"gpt-|o\d(-|$)", _USUAL),
)


def efforts_of(model: str) -> tuple[str, ...] | None:
    """From the least; empty for a model that does not reason, `None` for one nobody has described."""
    for pattern, efforts in _FAMILIES:
        if re.search(rf"(^|/)({pattern})", model):
            return efforts
    return None


def reasoning_fields(efforts: tuple[str, ...] | None, level: ReasoningLevel | None) -> dict[str, Any]:
    """The fields of a request that say how much to reason, and that the reasoning is wanted for replay.

    Models that do not reason refuse both. Of an unknown one it is taken that it reasons when somebody
    asks it to.
    """
    if efforts is None:
        efforts = _USUAL if level not in (None, "off") else ()
    if not efforts:
        return {}
    fields: dict[str, Any] = {"include": ["reasoning.encrypted_content"]}
    if level is not None:
        effort = _nearest(efforts, level)
        fields["reasoning"] = {"effort": effort} | ({} if effort == "none" else {"summary": "auto"})
    return fields


def _nearest(efforts: tuple[str, ...], level: ReasoningLevel) -> str:
    """The least effort that is not below the level, or the most that the model knows."""
    wanted = _EFFORTS.index("none" if level == "off" else level)
    return next((effort for effort in efforts if _EFFORTS.index(effort) >= wanted), efforts[-1])
