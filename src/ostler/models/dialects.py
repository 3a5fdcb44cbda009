"""The dialects of the Chat Completions wire, by provider. Others speak it as it is written."""

from __future__ import annotations

from ostler.models.chat_dialect import (
    ANY,
    LISTED,
    NO_MODEL,
    USUAL,
    ChatDialect,
    Knob,
    efforts,
    switched,
)
from ostler.models.reasoning_levels import LEVELS, WORDS, Levels
from ostler.models.responses_families import FAMILIES

_OFF_AND_USUAL = Levels(efforts(*LEVELS), assumed=efforts("off", "low", "medium", "high"))
_OPENAI_KNOBS = tuple(
    Knob(pattern, Levels(efforts(*levels), stoppable="off" in levels)) for pattern, levels in FAMILIES
)
_ENABLED, _DISABLED = {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}
_SWITCH = switched({"reasoning": {"enabled": False}}, {"reasoning": {"enabled": True}})
_NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
_PARSED = {"reasoning_format": "parsed"}
"""Left alone, some models of Groq's write their reasoning into the text."""

DIALECTS: dict[str, ChatDialect] = {
    "openai": ChatDialect(
        output_limit="max_completion_tokens",
        call_id=r"[a-zA-Z0-9_-]{1,40}",
        knobs=(*_OPENAI_KNOBS, Knob("", ANY)),
    ),
    "openrouter": ChatDialect(
        knobs=(
            Knob(
                "",
                Levels({level: {"reasoning": {"effort": word}} for level, word in WORDS.items()}),
            ),
        ),
        pdf="always",
    ),
    "groq": ChatDialect(
        knobs=(
            Knob("gpt-oss", Levels(USUAL)),
            Knob(
                r"qwen3\.8",
                Levels(efforts("off") | efforts("low", "medium", "high", **_PARSED)),
                unasked=_PARSED,
            ),
            Knob(
                "qwen",
                switched({"reasoning_effort": "none"}, {"reasoning_effort": "default", **_PARSED}),
                unasked=_PARSED,
            ),
            Knob("", LISTED),
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
            Knob(
                r"mistral-(small-(latest|2[6-9])|medium-(latest|3[-.]5|2[6-9]))",
                Levels(efforts("off", "high")),
            ),
            Knob("mistral-large-4", Levels(USUAL)),
            Knob("", LISTED),
        ),
        replay="never",
        pdf="never",
    ),
    "deepseek": ChatDialect(
        knobs=(
            Knob(
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
            Knob(r"kimi-k2\.[56]", switched(_DISABLED, _ENABLED)),
            # It always reasons, and as much as it likes.
            Knob(r"kimi-k2\.7", Levels({"high": _ENABLED})),
            Knob(r"kimi-k[3-9]", Levels(efforts("low", "high", "max"))),
            Knob("", LISTED),
        ),
        missing_reasoning=" ",
        forced_tools="without_reasoning",
        pdf="never",
        schemas=NO_MODEL,
    ),
    "xai": ChatDialect(
        output_limit="max_completion_tokens",
        knobs=(
            Knob("grok-3-mini", Levels(efforts("low", "high"))),
            Knob(r"grok-4\.3", Levels(efforts("off", "low", "medium", "high"))),
            Knob(r"grok-(4\.[4-9]|latest)", Levels(USUAL)),
            Knob("", LISTED),
        ),
        replay="never",
        pdf="never",
    ),
    "together": ChatDialect(
        knobs=(
            Knob("gpt-oss", Levels(USUAL)),
            Knob(r"(?i)deepseek-v|glm-|kimi-k2\.|qwen3\.|cogito", _SWITCH),
            Knob("", Levels(_SWITCH.spelled, assumed={})),
        ),
        pdf="never",
    ),
    "fireworks": ChatDialect(knobs=(Knob("", _OFF_AND_USUAL),), pdf="never"),
    # It takes no choice of a tool at all, and does not say so.
    "ollama": ChatDialect(knobs=(Knob("", _OFF_AND_USUAL),), forced_tools="never", pdf="never"),
    "lmstudio": ChatDialect(named_tools=False, pdf="never"),
    "llamacpp": ChatDialect(
        knobs=(Knob("", switched(_NO_THINKING, {"chat_template_kwargs": {"enable_thinking": True}})),),
        named_tools=False,
        pdf="never",
    ),
    "vllm": ChatDialect(
        knobs=(
            Knob(
                "", Levels({**efforts(*LEVELS), "off": _NO_THINKING}, assumed={"off": _NO_THINKING, **USUAL})
            ),
        ),
        pdf="never",
    ),
    "jan": ChatDialect(pdf="never"),
}
