"""One request in the format of each provider: a table of the differences."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from ostler.models.providers import PROVIDERS, ProviderSettings, Wire, configured_providers
from ostler.schema.messages import File, Image, Message, Text, ToolCall, ToolResult, user
from ostler.testkit.vendors import FakeVendor, turn
from tests.models.wires.wire_cases import KEY, READ, answer_of, load_model, request_of

LONG_ID = "call_" + "x" * 50
MESSAGES = (
    user("Look", Image("image/png", "UElY"), File("application/pdf", "a.pdf", "UERG")),
    Message("assistant", (ToolCall(LONG_ID, "read", "{}"),)),
    Message("tool", (ToolResult(LONG_ID, "read", (Text("a"),)),)),
    user("Again"),
)
NAMED = {"type": "function", "function": {"name": "read"}}
ON, OFF = {"type": "enabled"}, {"type": "disabled"}
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
THINKING = {"chat_template_kwargs": {"enable_thinking": True}}


class Sent(NamedTuple):
    """What of the request depends on who is asked."""

    high: dict[str, Any]
    off: dict[str, Any]
    choice: Any = NAMED
    limit: str = "max_tokens"
    seen: str = "image pdf"
    long_ids: bool = True


CHAT: dict[str, Sent] = {
    "openai/o4-mini": Sent(
        {"reasoning_effort": "high"},
        {"reasoning_effort": "low"},
        limit="max_completion_tokens",
        long_ids=False,
    ),
    "openai/gpt-5.1": Sent(
        {"reasoning_effort": "high"},
        {"reasoning_effort": "none"},
        limit="max_completion_tokens",
        long_ids=False,
    ),
    "openai/gpt-5-pro": Sent(
        {"reasoning_effort": "high"},
        {"reasoning_effort": "high"},
        limit="max_completion_tokens",
        long_ids=False,
    ),
    "openai/gpt-6.1-sol": Sent(
        {"reasoning_effort": "high"},
        {"reasoning_effort": "low"},
        limit="max_completion_tokens",
        long_ids=False,
    ),
    "openrouter/openrouter/auto": Sent({"reasoning": {"effort": "high"}}, {"reasoning": {"effort": "none"}}),
    "openrouter/z-ai/glm-5.2": Sent(
        {"reasoning": {"effort": "high"}}, {"reasoning": {"effort": "none"}}, seen="pdf"
    ),
    "groq/openai/gpt-oss-120b": Sent({"reasoning_effort": "high"}, {"reasoning_effort": "low"}, seen=""),
    "groq/qwen/qwen3.8-27b": Sent(
        {"reasoning_effort": "high", "reasoning_format": "parsed"}, {"reasoning_effort": "none"}, seen="image"
    ),
    "mistral/mistral-large-4": Sent(
        {"reasoning_effort": "high"}, {"reasoning_effort": "low"}, seen="image", long_ids=False
    ),
    "mistral/mistral-medium-latest": Sent(
        {"reasoning_effort": "high"}, {"reasoning_effort": "none"}, seen="image", long_ids=False
    ),
    "deepseek/deepseek-v4-pro": Sent({"thinking": OFF}, {"thinking": OFF}, seen=""),
    "deepseek/deepseek-flash": Sent({"thinking": OFF}, {"thinking": OFF}, seen="image"),
    "moonshot/kimi-k2.6": Sent({"thinking": OFF}, {"thinking": OFF}, seen="image"),
    "moonshot/kimi-k2.7-code": Sent({"thinking": ON}, {"thinking": ON}, choice=None, seen="image"),
    "moonshot/kimi-k3.1-pro": Sent(
        {"reasoning_effort": "high"}, {"reasoning_effort": "low"}, choice=None, seen="image"
    ),
    "xai/grok-4.7": Sent(
        {"reasoning_effort": "high"},
        {"reasoning_effort": "low"},
        limit="max_completion_tokens",
        seen="image",
    ),
    "xai/grok-4.3": Sent(
        {"reasoning_effort": "high"},
        {"reasoning_effort": "none"},
        limit="max_completion_tokens",
        seen="image",
    ),
    "together/zai-org/GLM-5.3": Sent(
        {"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}, seen=""
    ),
    "together/MiniMaxAI/MiniMax-M3": Sent(
        {"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}, seen="image"
    ),
    "together/openai/gpt-oss-120b": Sent({"reasoning_effort": "high"}, {"reasoning_effort": "low"}, seen=""),
    "fireworks/accounts/fireworks/models/glm-5p3": Sent(
        {"reasoning_effort": "high"}, {"reasoning_effort": "low"}, seen=""
    ),
    "fireworks/mine": Sent({"reasoning_effort": "high"}, {"reasoning_effort": "none"}, seen="image"),
    "ollama/mine": Sent(
        {"reasoning_effort": "high"}, {"reasoning_effort": "none"}, choice=None, seen="image"
    ),
    "lmstudio/mine": Sent({"reasoning_effort": "high"}, {}, choice="required", seen="image"),
    "llamacpp/mine": Sent(THINKING, NO_THINKING, choice="required", seen="image"),
    "vllm/mine": Sent({"reasoning_effort": "high"}, NO_THINKING, seen="image"),
    "jan/mine": Sent({"reasoning_effort": "high"}, {}, seen="image"),
}
USUAL = {"model", "stream", "stream_options", "messages", "tools", "tool_choice"}


def body_of(name: str, wire: Wire | None = None, **fields: Any) -> dict[str, Any]:
    model: Any = load_model(name, api_key=KEY, environment={}, wire=wire)
    options = {"tools": (READ,), "tool_choice": "read", "max_output_tokens": 50}
    body: dict[str, Any] = json.loads(model.body(request_of(*MESSAGES, **options | fields)))
    return body


@pytest.mark.parametrize("name", CHAT)
def test_each_chat_provider_gets_its_dialect(name: str) -> None:
    expected = CHAT[name]
    for level, fields in (("high", expected.high), ("off", expected.off)):
        body = body_of(name, "chat", reasoning=level)
        rest = {field: value for field, value in body.items() if field not in USUAL}
        assert rest == {expected.limit: 50, **fields}, level
        assert body.get("tool_choice") == expected.choice
        assert ("stream_options" in body) == (not name.startswith("mistral/"))
        options, called, result, _ = body["messages"]
        media = ("image", "UElY"), ("pdf", "UERG")
        assert " ".join(what for what, data in media if data in json.dumps(options)) == expected.seen
        assert (called["tool_calls"][0]["id"] == LONG_ID) == expected.long_ids
        assert result["tool_call_id"] == called["tool_calls"][0]["id"]


def test_the_table_has_every_provider_of_the_chat_wire() -> None:
    spoken = {name for name, known in PROVIDERS.items() if known.wire == "chat"}
    assert {name.partition("/")[0] for name in CHAT} == spoken - {"gguf"} | {"openai"}


async def test_azure_gets_its_path_and_the_bare_key() -> None:
    async with FakeVendor([turn("ok"), turn("ok")]) as vendor:
        for endpoint in (vendor.anthropic_url, f"{vendor.anthropic_url}/openai/v1/"):
            environment = {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": endpoint}
            model: Any = load_model("azure/mine", environment=environment)
            assert (await answer_of(model, request_of())).done.stop_reason == "end"
            await model.aclose()
        for received in vendor.requests:
            assert received.path == "/openai/v1/responses"
            assert received.headers["api-key"] == KEY and "authorization" not in received.headers


@pytest.mark.parametrize(
    ("name", "settings", "path"),
    [
        ("azure", {}, "/openai/v1/responses"),
        ("azure", {"wire": "chat"}, "/v1/chat/completions"),
        ("openai", {}, "/v1/chat/completions"),
        ("openai", {"wire": "responses"}, "/v1/responses"),
    ],
)
async def test_the_address_of_a_known_provider_may_be_configured(
    name: str, settings: dict[str, Any], path: str
) -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        address = f"{vendor.anthropic_url}{path.partition('/v1')[0]}/v1"
        configured = {name: ProviderSettings(base_url=address, **settings)}
        model: Any = load_model(
            f"{name}/m",
            api_key=KEY,
            environment={"AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:1"},
            providers=configured_providers(configured),
        )
        assert (await answer_of(model, request_of())).done.stop_reason == "end"
        await model.aclose()
        assert [received.path for received in vendor.requests] == [path]


@pytest.mark.parametrize(
    ("configured", "wire", "path"),
    [
        (None, None, "chat/completions"),
        ("responses", None, "responses"),
        ("responses", "chat", "chat/completions"),
    ],
)
@pytest.mark.parametrize("how", ["named", "in a variable"])
async def test_a_configured_wire_applies_at_any_address(
    configured: Wire | None, wire: Wire | None, path: str, how: str
) -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        model: Any = load_model(
            "openai/m",
            api_key=KEY,
            wire=wire,
            base_url=vendor.chat_url if how == "named" else "",
            environment={"OPENAI_BASE_URL": vendor.chat_url},
            providers=configured_providers({"openai": ProviderSettings(wire=configured)}),
        )
        assert (await answer_of(model, request_of())).done.stop_reason == "end"
        await model.aclose()
        assert [received.path for received in vendor.requests] == [f"/v1/{path}"]


def test_openai_uses_the_responses_wire_by_default() -> None:
    own, chat = (load_model("openai/m", api_key=KEY, environment={}, wire=wire) for wire in (None, "chat"))  # type: ignore[arg-type]
    assert (type(own).__name__, type(chat).__name__) == ("ResponsesModel", "ChatModel")
    configured = configured_providers({"openai": ProviderSettings(wire="chat")})
    model = load_model("openai/m", api_key=KEY, environment={}, providers=configured)
    assert type(model).__name__ == "ChatModel"
