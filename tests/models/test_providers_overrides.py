"""A user's overrides of a model change its requests, on every wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ostler.models.catalogue import Catalogue, ModelProfile
from ostler.models.providers import ProviderSettings, Wire, configured_providers
from ostler.schema.messages import File, Image, Message, Text, ToolCall, ToolResult, user
from ostler.schema.usage import Usage
from ostler.testkit.vendors import FakeVendor, turn
from tests.models.wires.wire_cases import KEY, READ, answer_of, load_model, request_of

NAMES: dict[Wire, str] = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "chat": "xai/grok-4.7",
    "responses": "openai/gpt-6.1-sol",
    "gemini": "google/gemini-4-argon",
}
CALLED = Message("assistant", (ToolCall("call_a", "read", "{}"),))
PICTURE, DOCUMENT = Image("image/png", "UElY"), File("application/pdf", "a.pdf", "UERG")
every_wire = pytest.mark.parametrize("wire", NAMES)


def model_of(wire: Wire, **override: Any) -> Any:
    catalogue = Catalogue({NAMES[wire]: override}) if override else None
    return load_model(NAMES[wire], api_key=KEY, environment={}, catalogue=catalogue)


def body_of(model: Any, *messages: Message, **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(model.body(request_of(*messages, **fields)))
    return body


def reasoning_in(body: dict[str, Any]) -> Any:
    """All that a body says about reasoning."""
    generation = body.get("generationConfig", {})
    words = ("reasoning_effort", "reasoning", "include", "thinking", "output_config")
    sent_fields = {field: body[field] for field in words if field in body}
    return sent_fields | (
        {"thinkingConfig": generation["thinkingConfig"]} if "thinkingConfig" in generation else {}
    )


@every_wire
def test_a_model_that_does_not_reason_gets_no_reasoning_fields(wire: Wire) -> None:
    assert reasoning_in(body_of(model_of(wire), reasoning="high"))
    model = model_of(wire, reasoning=False)
    for level in (None, "off", "low", "high"):
        assert reasoning_in(body_of(model, reasoning=level)) == {}
    warning = f"{model.name} does not support reasoning levels; none is sent"
    assert model.warnings(request_of(reasoning="high")) == [warning]
    assert model.warnings(request_of(reasoning="off")) == []


LOWEST: dict[Wire, Any] = {
    "anthropic": {
        "output_config": {"effort": "low"},
        "thinking": {"type": "adaptive", "display": "summarized"},
    },
    "chat": {"reasoning_effort": "low"},
    "responses": {
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    },
    "gemini": {"thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True}},
}


@every_wire
def test_only_listed_levels_are_sent_to_a_model(wire: Wire) -> None:
    model = model_of(wire, reasoning_levels=["off", "low"])
    assert reasoning_in(body_of(model, reasoning="high")) == LOWEST[wire]
    warning = f"{model.name} cannot reason at the level high; the level is low"
    assert model.warnings(request_of(reasoning="high")) == [warning]


def test_a_model_that_lists_only_off_gets_off() -> None:
    model = model_of("anthropic", reasoning_levels=["off"])
    assert body_of(model, reasoning="high")["thinking"] == {"type": "disabled"}
    warning = f"{model.name} cannot reason at the level high; reasoning is turned off"
    assert model.warnings(request_of(reasoning="high")) == [warning]


@every_wire
def test_a_model_without_tool_support_gets_no_tools(wire: Wire) -> None:
    options: dict[str, Any] = {"tools": (READ,), "tool_choice": "required"}
    offered = {"tools", "tool_choice", "toolConfig", "parallel_tool_calls"}
    assert body_of(model_of(wire), **options).keys() & offered >= {"tools"}
    model = model_of(wire, tools=False)
    assert not body_of(model, **options).keys() & offered
    assert model.warnings(request_of(**options)) == [f"{model.name} does not support tools; none are sent"]
    assert model.warnings(request_of()) == []


@every_wire
def test_unreadable_blocks_are_replaced_and_reported(wire: Wire) -> None:
    result = Message("tool", (ToolResult("call_a", "read", (Text("a"), PICTURE)),))
    messages = (user("Look", PICTURE, DOCUMENT), CALLED, result)
    body = json.dumps(body_of(model_of(wire), *messages))
    assert body.count("UElY") == 2
    assert ("UERG" in body) == (wire != "chat")
    blind = model_of(wire, input=["text"])
    body = json.dumps(body_of(blind, *messages))
    assert "UElY" not in body and "UERG" not in body
    assert body.count("[an image of type image/png is omitted: this model cannot read it]") == 2
    assert body.count("[the file 'a.pdf' of type application/pdf is omitted: this model cannot read it]") == 1
    assert blind.warnings(request_of(*messages[:1])) == [
        f"{blind.name} cannot read an image of type image/png; it is omitted",
        f"{blind.name} cannot read the file 'a.pdf' of type application/pdf; it is omitted",
    ]
    assert len(blind.warnings(request_of(*messages))) == 1


@every_wire
def test_models_with_and_without_vision_can_share_a_transcript(wire: Wire) -> None:
    request = request_of(user("Look", PICTURE))
    assert b"UElY" in model_of(wire).body(request)
    assert b"UElY" not in model_of(wire, input=["text"]).body(request)
    assert b"UElY" in model_of(wire, input=["text", "image"]).body(request)


@every_wire
def test_a_text_file_is_read_to_a_model_that_sees_nothing(wire: Wire) -> None:
    file = File("text/plain", "a.txt", "aGVsbG8gdGhlcmU=")
    assert "hello there" in json.dumps(body_of(model_of(wire, input=["text"]), user("Read", file)))


def test_a_picture_in_an_answer_is_omitted_for_a_model_without_vision() -> None:
    drawn = Message("assistant", (Text("Here."), PICTURE))
    body = body_of(model_of("gemini", input=["text"]), user("Draw"), drawn, user("Again"))
    assert body["contents"][1] == {"role": "model", "parts": [{"text": "Here."}]}


@pytest.mark.parametrize(
    ("name", "override", "sends_images"),
    [
        ("deepseek/deepseek-v4-pro", {}, False),
        ("deepseek/deepseek-v4-pro", {"input": ["text", "image"]}, True),
        ("deepseek/deepseek-flash", {}, True),
        ("deepseek/unheard-of", {}, False),
        ("deepseek/unheard-of-vision", {}, True),
        ("groq/openai/gpt-oss-120b", {}, False),
        ("groq/unheard-of", {}, True),
    ],
)
def test_images_are_sent_to_models_with_vision(
    name: str, override: dict[str, Any], sends_images: bool
) -> None:
    model: Any = load_model(name, api_key=KEY, environment={}, catalogue=Catalogue({name: override}))
    assert (b"UElY" in model.body(request_of(user("Look", PICTURE)))) == sends_images


@every_wire
def test_no_answer_may_be_longer_than_the_model_can_write(wire: Wire) -> None:
    body = body_of(model_of(wire, output_limit=777), max_output_tokens=5000)
    fields = body | body.get("generationConfig", {})
    limits = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
    assert [fields[name] for name in limits if name in fields] == [777]


@every_wire
def test_settings_in_code_override_the_user_and_the_catalogue(wire: Wire) -> None:
    settings = ModelProfile(
        input=("text", "image"), reasons=True, reasoning_levels=("low",), tools=True, output_limit=50
    )
    override = {"input": ["text"], "reasoning": False, "reasoning_levels": ["high"], "tools": False}
    model: Any = load_model(
        NAMES[wire],
        api_key=KEY,
        environment={},
        settings=settings,
        catalogue=Catalogue({NAMES[wire]: override}),
    )
    body = body_of(model, user("Look", PICTURE), reasoning="high", tools=(READ,))
    assert reasoning_in(body) == LOWEST[wire]
    assert "tools" in body and "UElY" in json.dumps(body)


@pytest.mark.parametrize(
    ("override", "level", "fields"),
    [
        ({}, None, {}),
        ({}, "off", {}),
        ({"reasoning": True}, None, {"include": ["reasoning.encrypted_content"]}),
        ({"reasoning": True}, "off", {"include": ["reasoning.encrypted_content"]}),
        ({"reasoning_levels": ["low", "high"]}, None, {"include": ["reasoning.encrypted_content"]}),
        ({"reasoning_levels": ["minimal", "low"]}, "off", "minimal"),
        ({"reasoning_levels": ["off", "low"]}, "off", "none"),
        ({"reasoning": True}, "minimal", "low"),
        ({"reasoning": False}, "high", {}),
    ],
)
@pytest.mark.parametrize("name", ["azure/mydeploy", "azure/gpt-4-is-what-we-call-it"])
def test_a_deployment_has_the_fields_that_the_user_sets(
    name: str, override: dict[str, Any], level: str | None, fields: Any
) -> None:
    catalogue = Catalogue({name: {"reasoning": True} | override if "gpt" in name and override else override})
    model: Any = load_model(
        name, api_key=KEY, base_url="https://mine.example/openai/v1", environment={}, catalogue=catalogue
    )
    sent = reasoning_in(body_of(model, reasoning=level))
    if isinstance(fields, str):
        assert sent["reasoning"]["effort"] == fields and "include" in sent
    else:
        assert sent == fields


@pytest.mark.parametrize(
    ("name", "charges", "cost"),
    [("ollama/x", None, 3.0), ("xai/grok-4.7", False, 3.0), ("ollama/y", None, 0.0), ("groq/x", None, None)],
)
async def test_the_users_prices_go_before_those_of_a_server_that_does_not_charge(
    name: str, charges: bool | None, cost: float | None
) -> None:
    prices = {"input": 1e6, "output": 1e6}
    catalogue = Catalogue({"ollama/x": {"prices": prices}, "xai/grok-4.7": {"prices": prices}})
    provider = name.partition("/")[0]
    async with FakeVendor([turn("ok", usage=Usage(1, 2))]) as vendor:
        settings = ProviderSettings(base_url=vendor.chat_url, charges=charges)
        model: Any = load_model(
            name,
            api_key=KEY,
            environment={},
            providers=configured_providers({provider: settings}),
            catalogue=catalogue,
        )
        assert (await answer_of(model, request_of())).done.usage.cost == cost
        await model.aclose()


def test_a_provider_like_another_has_its_models() -> None:
    providers = configured_providers(
        {
            "proxy": ProviderSettings(base_url="https://proxy.example", wire="anthropic", like="anthropic"),
            "mine": ProviderSettings(base_url="https://mine.example/v1", like="azure"),
            "other": ProviderSettings(base_url="https://other.example/v1"),
        }
    )
    catalogue = Catalogue({"proxy/claude-opus-5": {"output_limit": 5}})

    def body(name: str, **fields: Any) -> dict[str, Any]:
        model: Any = load_model(name, api_key=KEY, environment={}, providers=providers, catalogue=catalogue)
        return body_of(model, **fields)

    assert body("proxy/claude-opus-5", reasoning="off")["thinking"] == {"type": "disabled"}
    assert body("proxy/claude-opus-5", max_output_tokens=9)["max_tokens"] == 5
    mine = body("mine/gpt-5-pro", reasoning="low", max_output_tokens=9)
    assert mine["reasoning_effort"] == "high" and mine["max_completion_tokens"] == 9
    assert body("other/gpt-5-pro", reasoning="low")["reasoning_effort"] == "low"


def test_the_users_fields_override_the_like_provider() -> None:
    catalogue = Catalogue({"proxy/claude-opus-5": {"tools": False}, "openai/mine": {"context_window": 7}})
    info = catalogue.lookup("anthropic/claude-opus-5")
    like = catalogue.lookup("proxy/claude-opus-5", like="anthropic")
    assert (like.name, like.tools, like.prices) == ("proxy/claude-opus-5", False, info.prices)
    assert catalogue.lookup("azure/mine", like="openai").context_window == 7
    assert not catalogue.lookup("azure/unheard-of", like="openai").known
    assert catalogue.lookup("azure/gpt-5.1", like="anthropic").known, "its own entry goes first"
