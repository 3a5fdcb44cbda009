"""The dialects of the Chat Completions wire, by provider. Others speak it as it is written."""

from __future__ import annotations

from ostler.models.chat_dialect import NO_MODEL, ChatDialect, Knob, efforts, switched

_OPENAI_KNOBS = (
    Knob(r"^(ft:)?(gpt-[34]|chatgpt)", {}),
    Knob(r"^o\d", efforts(off="low")),
    Knob(r"^gpt-5($|-)", efforts(off="minimal", minimal="minimal")),
    Knob("", efforts(off="none")),
)
_ENABLED, _DISABLED = {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}

DIALECTS: dict[str, ChatDialect] = {
    "openai": ChatDialect(
        output_limit="max_completion_tokens", call_id=r"[a-zA-Z0-9_-]{1,40}", knobs=_OPENAI_KNOBS
    ),
    "openrouter": ChatDialect(
        knobs=(
            Knob(
                "",
                {
                    "off": {"reasoning": {"effort": "none"}},
                    "minimal": {"reasoning": {"effort": "minimal"}},
                    "low": {"reasoning": {"effort": "low"}},
                    "medium": {"reasoning": {"effort": "medium"}},
                    "high": {"reasoning": {"effort": "high"}},
                },
            ),
        ),
    ),
    "groq": ChatDialect(
        knobs=(
            Knob("gpt-oss", efforts(off="low")),
            Knob(
                "qwen",
                # Left alone, it writes its reasoning into the text.
                {None: {"reasoning_format": "parsed"}}
                | switched(
                    {"reasoning_effort": "none"},
                    {"reasoning_effort": "default", "reasoning_format": "parsed"},
                ),
            ),
        ),
        replay="never",
        pdf=False,
        # It has schemas, but not for an answer that is streamed.
        schemas=NO_MODEL,
    ),
    "mistral": ChatDialect(
        usage_option=False,
        call_id=r"[a-zA-Z0-9]{9}",
        knobs=(
            Knob(
                r"mistral-(small-(latest|2[6-9])|medium-(latest|3-5)|large-4)",
                efforts(off="none", minimal="none", low="high", medium="high"),
            ),
        ),
        replay="never",
        pdf=False,
    ),
    "deepseek": ChatDialect(
        knobs=(
            Knob(
                "",
                {
                    "off": _DISABLED,
                    "minimal": _ENABLED | {"reasoning_effort": "low"},
                    "low": _ENABLED | {"reasoning_effort": "low"},
                    "medium": _ENABLED | {"reasoning_effort": "high"},
                    "high": _ENABLED | {"reasoning_effort": "high"},
                },
            ),
        ),
        replay="always",
        missing_reasoning=" ",
        forced_tools="without_reasoning",
        seeing="vision",
        pdf=False,
        schemas=NO_MODEL,
    ),
    "moonshot": ChatDialect(
        knobs=(Knob(r"kimi-k2\.[56]", switched(_DISABLED, _ENABLED)),),
        missing_reasoning=" ",
        forced_tools="without_reasoning",
        pdf=False,
        schemas=NO_MODEL,
    ),
    "xai": ChatDialect(
        output_limit="max_completion_tokens",
        knobs=(
            Knob("grok-3-mini", efforts(off="low", medium="high")),
            Knob(r"grok-(4\.[3-9]|latest)", efforts(off="none")),
        ),
        replay="never",
        pdf=False,
    ),
    "together": ChatDialect(
        knobs=(
            Knob("gpt-oss", efforts(off="low")),
            Knob(
                r"(?i)deepseek-v|glm-|kimi-k2\.|qwen3\.|cogito",
                switched({"reasoning": {"enabled": False}}, {"reasoning": {"enabled": True}}),
            ),
        ),
        pdf=False,
    ),
    "fireworks": ChatDialect(knobs=(Knob("", efforts(off="none")),), pdf=False),
    # It takes no choice of a tool at all, and does not say so.
    "ollama": ChatDialect(knobs=(Knob("", efforts(off="none")),), forced_tools="never", pdf=False),
    "lmstudio": ChatDialect(named_tools=False, pdf=False),
    "llamacpp": ChatDialect(
        knobs=(
            Knob(
                "",
                switched(
                    {"chat_template_kwargs": {"enable_thinking": False}},
                    {"chat_template_kwargs": {"enable_thinking": True}},
                ),
            ),
        ),
        named_tools=False,
        pdf=False,
    ),
    "vllm": ChatDialect(
        knobs=(Knob("", efforts() | {"off": {"chat_template_kwargs": {"enable_thinking": False}}}),),
        pdf=False,
    ),
    "jan": ChatDialect(pdf=False),
}
