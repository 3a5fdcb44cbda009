"""Each provider gets its own dialect of the Chat Completions wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ostler.core.model import ModelRequest
from ostler.core.transcript import Transcript
from ostler.models.wires.chat import ChatModel
from ostler.models.wires.chat_dialects import DIALECTS
from ostler.schema.messages import Message, Opaque, Reasoning, Text, ToolCall, ToolResult, user
from tests.models.wires.wire_cases import READ, request_of

ON, OFF = {"type": "enabled"}, {"type": "disabled"}


def model_of(provider: str, model: str = "m") -> ChatModel:
    return ChatModel(model, provider=provider, dialect=DIALECTS.get(provider))


def sent(provider: str, model: str, *messages: Message, **fields: Any) -> dict[str, Any]:
    return json.loads(model_of(provider, model).body(request_of(*messages, **fields)))


@pytest.mark.parametrize(
    ("provider", "model", "level", "fields"),
    [
        ("openai", "gpt-6.1-sol", "off", {"reasoning_effort": "low"}),
        ("openai", "ft:gpt-4o-mini:mine", "high", {}),
        ("openai", "gpt-5.2-chat-latest", "high", {"reasoning_effort": "medium"}),
        ("openai", "gpt-5-pro", "low", {"reasoning_effort": "high"}),
        ("openai", "gpt-5.2-pro", "low", {"reasoning_effort": "medium"}),
        ("openai", "gpt-5.1-codex", "off", {"reasoning_effort": "low"}),
        ("openai", "mine", "off", {}),
        ("openai", "gpt-5.1", "minimal", {"reasoning_effort": "low"}),
        ("openai", "gpt-5-mini", "off", {"reasoning_effort": "minimal"}),
        ("openai", "o4-mini", "minimal", {"reasoning_effort": "low"}),
        ("openai", "gpt-4o", "high", {}),
        ("openrouter", "x/y", "minimal", {"reasoning": {"effort": "minimal"}}),
        ("openrouter", "x/y", "off", {"reasoning": {"effort": "none"}}),
        ("groq", "openai/gpt-oss-120b", "high", {"reasoning_effort": "high"}),
        ("groq", "qwen/qwen3-32b", "low", {"reasoning_effort": "default", "reasoning_format": "parsed"}),
        ("groq", "qwen/qwen3-32b", "off", {"reasoning_effort": "none"}),
        ("groq", "qwen/qwen3-32b", None, {"reasoning_format": "parsed"}),
        ("groq", "llama-3.3-70b-versatile", "high", {}),
        ("groq", "qwen/qwen3.8-27b", "low", {"reasoning_effort": "low", "reasoning_format": "parsed"}),
        ("mistral", "mistral-medium-3-5", "low", {"reasoning_effort": "high"}),
        ("mistral", "mistral-small-latest", "off", {"reasoning_effort": "none"}),
        ("mistral", "mistral-large-4", "off", {"reasoning_effort": "low"}),
        ("mistral", "magistral-medium-latest", "high", {}),
        ("deepseek", "deepseek-chat", "off", {"thinking": OFF}),
        ("deepseek", "deepseek-chat", "medium", {"thinking": ON, "reasoning_effort": "high"}),
        ("deepseek", "deepseek-chat", None, {}),
        ("moonshot", "kimi-k2.6", "low", {"thinking": ON}),
        ("moonshot", "kimi-k2.7-code", "low", {"thinking": ON}),
        ("moonshot", "kimi-k3", "medium", {"reasoning_effort": "high"}),
        ("moonshot", "kimi-k2-thinking", "low", {}),
        ("xai", "grok-4.3", "off", {"reasoning_effort": "none"}),
        ("xai", "grok-3-mini", "medium", {"reasoning_effort": "high"}),
        ("xai", "grok-latest", "off", {"reasoning_effort": "low"}),
        ("xai", "grok-4", "high", {}),
        ("together", "zai-org/GLM-5", "off", {"reasoning": {"enabled": False}}),
        ("together", "openai/gpt-oss-20b", "low", {"reasoning_effort": "low"}),
        ("fireworks", "m", "off", {"reasoning_effort": "none"}),
        ("ollama", "qwen3", "off", {"reasoning_effort": "none"}),
        ("llamacpp", "m", "off", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("vllm", "m", "high", {"reasoning_effort": "high"}),
        ("someone", "m", "minimal", {"reasoning_effort": "low"}),
        ("someone", "m", "off", {}),
    ],
)
def test_a_reasoning_level_is_sent_in_the_providers_format(
    provider: str, model: str, level: Any, fields: dict[str, Any]
) -> None:
    usual = {"model", "stream", "stream_options", "messages"}
    body = sent(provider, model, reasoning=level)
    assert {name: value for name, value in body.items() if name not in usual} == fields


NAMED = {"type": "function", "function": {"name": "read"}}


@pytest.mark.parametrize(
    ("provider", "model", "choice", "word", "thinking"),
    [
        ("openai", "gpt-6", "read", NAMED, None),
        ("lmstudio", "m", "read", "required", None),
        ("llamacpp", "m", "none", "none", None),
        ("ollama", "m", "required", None, None),
        ("deepseek", "deepseek-chat", "read", NAMED, OFF),
        ("deepseek", "deepseek-chat", "none", "none", ON),
        ("deepseek", "deepseek-chat", "auto", None, ON),
        ("moonshot", "kimi-k2.6", "required", "required", OFF),
        ("moonshot", "kimi-k2-thinking", "required", None, None),
    ],
)
def test_a_tool_is_forced_where_and_how_the_provider_lets_it_be(
    provider: str, model: str, choice: str, word: Any, thinking: Any
) -> None:
    fields: dict[str, Any] = {"tools": (READ,), "tool_choice": choice, "reasoning": "high"}
    body = sent(provider, model, **fields)
    assert body.get("tool_choice") == word
    assert body.get("thinking") == thinking
    warnings = model_of(provider, model).warnings(request_of(**fields))
    assert any("tool choice" in sentence for sentence in warnings) == (choice != "auto" and word is None)


@pytest.mark.parametrize("provider", ["deepseek", "groq", "moonshot"])
def test_without_schema_support_the_prompt_contains_it_and_a_warning_is_sent(provider: str) -> None:
    request = request_of(system="Be kind.", answer_schema={"type": "object"})
    model = model_of(provider)
    body = json.loads(model.body(request))
    assert "response_format" not in body
    assert body["messages"][0] == {
        "role": "system",
        "content": 'Be kind.\n\nAnswer only with JSON that matches this JSON Schema: {"type":"object"}',
    }
    assert model.warnings(request) == [f"{provider}/m cannot enforce a schema; its answer may not match it"]


def thought(provider: str, field: str, *more: Any) -> Message:
    opaque = Opaque("chat", {"provider": provider, "field": field})
    return Message("assistant", (Reasoning("Hm.", opaque), *more))


@pytest.mark.parametrize(
    ("provider", "field", "with_calls", "without"),
    [
        ("deepseek", "reasoning_content", "Hm.", "Hm."),
        ("moonshot", "reasoning_content", "Hm.", None),
        ("fireworks", "reasoning_content", "Hm.", None),
        ("openrouter", "reasoning", "Hm.", None),
        ("ollama", "reasoning", "Hm.", None),
        ("groq", "reasoning", None, None),
        ("xai", "reasoning_content", None, None),
        ("mistral", "reasoning_content", None, None),
    ],
)
def test_reasoning_is_replayed_to_providers_that_want_it(
    provider: str, field: str, with_calls: str | None, without: str | None
) -> None:
    called = thought(provider, field, ToolCall("call12345", "read", "{}"))
    result = Message("tool", (ToolResult("call12345", "read", (Text("a"),)),))
    answer = thought(provider, field, Text("Yes."))
    messages = sent(provider, "m", user("Hi"), called, result, answer, user("And?"))["messages"]
    assert (messages[1].get(field), messages[3].get(field)) == (with_calls, without)


@pytest.mark.parametrize(("provider", "stand_in"), [("deepseek", " "), ("moonshot", " "), ("openai", None)])
def test_a_call_without_reasoning_gets_a_stand_in_where_its_absence_is_refused(
    provider: str, stand_in: str | None
) -> None:
    called = Message("assistant", (ToolCall("c1", "read", "{}"),))
    result = Message("tool", (ToolResult("c1", "read", (Text("a"),)),))
    messages = sent(provider, "m", user("Hi"), called, result)["messages"]
    assert messages[1].get("reasoning_content") == stand_in


def test_a_transcript_can_be_sent_to_several_providers() -> None:
    called = thought("deepseek", "reasoning_content", ToolCall("c1", "read", "{}"))
    transcript = Transcript([user("Hi"), called, Message("tool", (ToolResult("c1", "read"),))])
    request = ModelRequest("mc", "m", transcript)
    first = model_of("deepseek").body(request)
    assert b"Hm." not in model_of("groq").body(request)
    assert b'"c1"' not in model_of("mistral").body(request)
    assert model_of("deepseek").body(request) == first and b"Hm." in first
