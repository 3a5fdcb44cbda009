"""How providers of the Chat Completions wire differ from each other."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ostler.models.families import FAMILIES, LEVELS, WORDS, Level, Levels

NO_MODEL = "(?!)"
"""A pattern that is found in no name."""


def efforts(*levels: Level, **more: Any) -> dict[Level, Any]:
    """The levels by the words of `reasoning_effort`, with more fields beside it."""
    return {level: {"reasoning_effort": WORDS[level], **more} for level in levels}


def reasoning_switch(off: dict[str, Any], on: dict[str, Any]) -> Levels:
    """Of a model that reasons or does not: all that is above `off` is the same to it."""
    spelled: dict[Level, Any] = dict.fromkeys(LEVELS, on) | {"off": off}
    return Levels(spelled, assumed={"off": off, "high": on})


class ReasoningControl(msgspec.Struct, frozen=True):
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
    knobs: tuple[ReasoningControl, ...] = (ReasoningControl("", ANY),)
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

    def knob(self, model: str) -> ReasoningControl:
        return next(knob for knob in self.knobs if re.search(knob.models, model))


_OFF_AND_USUAL = Levels(efforts(*LEVELS), assumed=efforts("off", "low", "medium", "high"))

_OPENAI_KNOBS = tuple(
    ReasoningControl(pattern, Levels(efforts(*levels), stoppable="off" in levels))
    for pattern, levels in FAMILIES
)

_ENABLED, _DISABLED = {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}
_SWITCH = reasoning_switch({"reasoning": {"enabled": False}}, {"reasoning": {"enabled": True}})
_NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}

_PARSED = {"reasoning_format": "parsed"}
"""Left alone, some models of Groq's write their reasoning into the text."""

DIALECTS: dict[str, ChatDialect] = {
    "openai": ChatDialect(
        output_limit="max_completion_tokens",
        call_id=r"[a-zA-Z0-9_-]{1,40}",
        knobs=(*_OPENAI_KNOBS, ReasoningControl("", ANY)),
    ),
    "openrouter": ChatDialect(
        knobs=(
            ReasoningControl(
                "", Levels({level: {"reasoning": {"effort": word}} for level, word in WORDS.items()})
            ),
        ),
        pdf="always",
    ),
    "groq": ChatDialect(
        knobs=(
            ReasoningControl("gpt-oss", Levels(USUAL)),
            ReasoningControl(
                r"qwen3\.8",
                Levels(efforts("off") | efforts("low", "medium", "high", **_PARSED)),
                unasked=_PARSED,
            ),
            ReasoningControl(
                "qwen",
                reasoning_switch({"reasoning_effort": "none"}, {"reasoning_effort": "default", **_PARSED}),
                unasked=_PARSED,
            ),
            ReasoningControl("", LISTED),
        ),
        replay="never",
        pdf="never",
        # It has schemas, but not for an answer that is streamed.
        schemas=NO_MODEL,
    ),
    "mistral": ChatDialect(
        usage_option=False,
        call_id=r"[a-zA-Z0-9]{9}",
        knobs=(
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
        knobs=(
            ReasoningControl(
                "",
                Levels(
                    {
                        "off": _DISABLED,
                        "low": _ENABLED | {"reasoning_effort": "low"},
                        "high": _ENABLED | {"reasoning_effort": "high"},
                        "max": _ENABLED | {"reasoning_effort": "max"},
                    }
                ),
            ),
        ),
        replay="always",
        missing_reasoning=" ",
        forced_tools="without_reasoning",
        seeing="vision",
        pdf="never",
        schemas=NO_MODEL,
    ),
    "moonshot": ChatDialect(
        knobs=(
            ReasoningControl(r"kimi-k2\.[56]", reasoning_switch(_DISABLED, _ENABLED)),
            # It always reasons, and as much as it likes.
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
        knobs=(
            ReasoningControl("grok-3-mini", Levels(efforts("low", "high"))),
            ReasoningControl(r"grok-4\.3", Levels(efforts("off", "low", "medium", "high"))),
            ReasoningControl(r"grok-(4\.[4-9]|latest)", Levels(USUAL)),
            ReasoningControl("", LISTED),
        ),
        replay="never",
        pdf="never",
    ),
    "together": ChatDialect(
        knobs=(
            ReasoningControl("gpt-oss", Levels(USUAL)),
            ReasoningControl(r"(?i)deepseek-v|glm-|kimi-k2\.|qwen3\.|cogito", _SWITCH),
            ReasoningControl("", Levels(_SWITCH.spelled, assumed={})),
        ),
        pdf="never",
    ),
    "fireworks": ChatDialect(knobs=(ReasoningControl("", _OFF_AND_USUAL),), pdf="never"),
    # It takes no choice of a tool at all, and does not say so.
    "ollama": ChatDialect(knobs=(ReasoningControl("", _OFF_AND_USUAL),), forced_tools="never", pdf="never"),
    "lmstudio": ChatDialect(named_tools=False, pdf="never"),
    "llamacpp": ChatDialect(
        knobs=(
            ReasoningControl(
                "", reasoning_switch(_NO_THINKING, {"chat_template_kwargs": {"enable_thinking": True}})
            ),
        ),
        named_tools=False,
        pdf="never",
    ),
    "vllm": ChatDialect(
        knobs=(
            ReasoningControl(
                "", Levels({**efforts(*LEVELS), "off": _NO_THINKING}, assumed={"off": _NO_THINKING, **USUAL})
            ),
        ),
        pdf="never",
    ),
    "jan": ChatDialect(pdf="never"),
}
