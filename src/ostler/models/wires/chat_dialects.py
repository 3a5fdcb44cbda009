"""How providers of the Chat Completions wire differ from each other."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ostler.models.families import FAMILIES, LEVELS, WORDS, Level, Levels

NO_MODEL = "(?!)"
"""A pattern that matches no name."""


def efforts(*levels: Level, **more: Any) -> dict[Level, Any]:
    """The levels as `reasoning_effort`, with more fields."""
    return {level: {"reasoning_effort": WORDS[level], **more} for level in levels}


def reasoning_switch(off: dict[str, Any], on: dict[str, Any]) -> Levels:
    """The levels of a model whose reasoning is only on or off."""
    spelled: dict[Level, Any] = dict.fromkeys(LEVELS, on) | {"off": off}
    return Levels(spelled, assumed={"off": off, "high": on})


class ReasoningControl(msgspec.Struct, frozen=True):
    """How to set the reasoning level of the models whose name matches the pattern `models`."""

    models: str
    levels: Levels
    without_level: dict[str, Any] = {}
    """The fields of a request without a level."""


USUAL = efforts("low", "medium", "high")

LISTED = Levels(efforts(*LEVELS), assumed={})
"""For models that take a level only if their levels are listed."""

ANY = Levels(efforts(*LEVELS), assumed={"off": {}, **USUAL})
"""For unknown models: not every server can turn reasoning off."""


class ChatDialect(msgspec.Struct, frozen=True, kw_only=True):
    """The patterns are searched in a model's name, so an empty one matches all models."""

    output_limit: str = "max_tokens"
    """The field that limits the answer's length."""
    usage_option: bool = True
    """Whether usage must be requested; a server that always reports it may refuse the option."""
    call_id: str = ""
    """A pattern that matches every id it accepts; empty for any."""
    controls: tuple[ReasoningControl, ...] = (ReasoningControl("", ANY),)
    """The first that matches a model applies; the last matches all."""
    replay: Literal["never", "with_calls", "always"] = "with_calls"
    """Which messages include their reasoning, in the field in which it came."""
    missing_reasoning: str = ""
    """The `reasoning_content` of a message with calls and without reasoning, if it is required."""
    forced_tools: Literal["any_time", "without_reasoning", "never"] = "any_time"
    """When a request can require a tool call."""
    named_tools: bool = True
    """Whether a request can require a certain tool; otherwise it requires any."""
    seeing: str = ""
    """The models that get images, of those that the catalogue does not describe."""
    pdf: Literal["never", "if_it_sees", "always"] = "if_it_sees"
    """`always` if the server reads it for models that see nothing."""
    schemas: str = ""
    """The models for which the server can enforce a schema."""

    def control(self, model: str) -> ReasoningControl:
        return next(control for control in self.controls if re.search(control.models, model))


def _for_all(levels: Levels) -> tuple[ReasoningControl, ...]:
    return (ReasoningControl("", levels),)


_OFF_AND_USUAL = Levels(efforts(*LEVELS), assumed=efforts("off", "low", "medium", "high"))
_EFFORT_OBJECT = Levels({level: {"reasoning": {"effort": word}} for level, word in WORDS.items()})
_SWITCH = reasoning_switch({"reasoning": {"enabled": False}}, {"reasoning": {"enabled": True}})
_ON, _OFF = ({"chat_template_kwargs": {"enable_thinking": is_on}} for is_on in (True, False))
_ENABLED, _DISABLED = ({"thinking": {"type": word}} for word in ("enabled", "disabled"))
_DEEPSEEK_EFFORTS = Levels(
    {"off": _DISABLED} | {level: _ENABLED | fields for level, fields in efforts("low", "high", "max").items()}
)

_OPENAI_CONTROLS = tuple(
    ReasoningControl(pattern, Levels(efforts(*levels), stoppable="off" in levels))
    for pattern, levels in FAMILIES
)

_PARSED = {"reasoning_format": "parsed"}
"""Without it, some models of Groq write their reasoning into the text."""

DIALECTS: dict[str, ChatDialect] = {
    "openai": ChatDialect(
        output_limit="max_completion_tokens",
        call_id=r"[a-zA-Z0-9_-]{1,40}",
        controls=(*_OPENAI_CONTROLS, ReasoningControl("", ANY)),
    ),
    "openrouter": ChatDialect(controls=_for_all(_EFFORT_OBJECT), pdf="always"),
    "groq": ChatDialect(
        controls=(
            ReasoningControl("gpt-oss", Levels(USUAL)),
            ReasoningControl(
                r"qwen3\.8",
                Levels(efforts("off") | efforts("low", "medium", "high", **_PARSED)),
                without_level=_PARSED,
            ),
            ReasoningControl(
                "qwen",
                reasoning_switch({"reasoning_effort": "none"}, {"reasoning_effort": "default", **_PARSED}),
                without_level=_PARSED,
            ),
            ReasoningControl("", LISTED),
        ),
        replay="never",
        pdf="never",
        # It supports schemas, but not for an answer that is streamed.
        schemas=NO_MODEL,
    ),
    "mistral": ChatDialect(
        usage_option=False,
        call_id=r"[a-zA-Z0-9]{9}",
        controls=(
            ReasoningControl(
                r"mistral-(small-(latest|2[6-9])|medium-(latest|3[-.]5|2[6-9]))",
                Levels(efforts("off", "high")),
            ),
            ReasoningControl("mistral-large-4", Levels(USUAL)),
            ReasoningControl("", LISTED),
        ),
        replay="never",
        pdf="never",
    ),
    "deepseek": ChatDialect(
        controls=_for_all(_DEEPSEEK_EFFORTS),
        replay="always",
        missing_reasoning=" ",
        forced_tools="without_reasoning",
        seeing="vision",
        pdf="never",
        schemas=NO_MODEL,
    ),
    "moonshot": ChatDialect(
        controls=(
            ReasoningControl(r"kimi-k2\.[56]", reasoning_switch(_DISABLED, _ENABLED)),
            # It always reasons, without a level.
            ReasoningControl(r"kimi-k2\.7", Levels({"high": _ENABLED})),
            ReasoningControl(r"kimi-k[3-9]", Levels(efforts("low", "high", "max"))),
            ReasoningControl("", LISTED),
        ),
        missing_reasoning=" ",
        forced_tools="without_reasoning",
        pdf="never",
        schemas=NO_MODEL,
    ),
    "xai": ChatDialect(
        output_limit="max_completion_tokens",
        controls=(
            ReasoningControl("grok-3-mini", Levels(efforts("low", "high"))),
            ReasoningControl(r"grok-4\.3", Levels(efforts("off", "low", "medium", "high"))),
            ReasoningControl(r"grok-(4\.[4-9]|latest)", Levels(USUAL)),
            ReasoningControl("", LISTED),
        ),
        replay="never",
        pdf="never",
    ),
    "together": ChatDialect(
        controls=(
            ReasoningControl("gpt-oss", Levels(USUAL)),
            ReasoningControl(r"(?i)deepseek-v|glm-|kimi-k2\.|qwen3\.|cogito", _SWITCH),
            ReasoningControl("", Levels(_SWITCH.spelled, assumed={})),
        ),
        pdf="never",
    ),
    "fireworks": ChatDialect(controls=_for_all(_OFF_AND_USUAL), pdf="never"),
    # It ignores a tool choice silently.
    "ollama": ChatDialect(controls=_for_all(_OFF_AND_USUAL), forced_tools="never", pdf="never"),
    "lmstudio": ChatDialect(named_tools=False, pdf="never"),
    "llamacpp": ChatDialect(controls=_for_all(reasoning_switch(_OFF, _ON)), named_tools=False, pdf="never"),
    "vllm": ChatDialect(
        controls=_for_all(Levels({**efforts(*LEVELS), "off": _OFF}, assumed={"off": _OFF, **USUAL})),
        pdf="never",
    ),
    "jan": ChatDialect(pdf="never"),
}
