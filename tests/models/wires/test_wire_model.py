"""Unsupported features are omitted from the request and reported."""

from __future__ import annotations

from typing import Any

from ostler.core.model import ModelRequest
from ostler.models.catalogue import ModelProfile
from ostler.models.wires.anthropic import AnthropicModel
from ostler.models.wires.chat import ChatModel
from ostler.models.wires.chat_dialects import DIALECTS
from ostler.schema.events import Warned
from ostler.schema.messages import File, Image, Message, Text, ToolCall, ToolResult, user
from ostler.testkit.vendors import FakeVendor, turn
from tests.models.wires.wire_cases import READ, answer_of, request_of

PIXEL = "iVBORw0KGgo="
CALL = Message("assistant", (ToolCall("call_a", "read", "{}"),))
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def warnings(request: ModelRequest, model: Any) -> list[str]:
    return list(model.warnings(request))


async def test_unsupported_features_are_reported_once_and_not_sent() -> None:
    request = request_of(reasoning="high", answer_schema=SCHEMA)
    async with FakeVendor([turn("ok"), turn("ok")]) as vendor:
        old = AnthropicModel("claude-3-5-haiku-20241022", base_url=vendor.anthropic_url)
        plain = ChatModel(
            "gpt-4o", provider="deepseek", base_url=vendor.chat_url, settings=ModelProfile(reasons=False)
        )
        for model in (old, plain):
            events = (await answer_of(model, request)).events
            texts = [event.text for event in events if isinstance(event, Warned)]
            assert texts[0] == f"{model.name} does not support reasoning levels; none is sent"
            assert all(event.call == "mc_1" for event in events if isinstance(event, Warned))
            await model.aclose()
        first, second = (received.json for received in vendor.requests)
    assert not {"thinking", "output_config"} & first.keys()
    assert not {"reasoning_effort"} & second.keys()


def test_later_steps_do_not_repeat_warnings() -> None:
    model = AnthropicModel("claude-3-5-haiku-20241022")
    options: dict[str, Any] = {"reasoning": "low", "answer_schema": {"type": "object"}, "tools": (READ,)}
    result = Message("tool", (ToolResult("call_a", "read", (Text("a"),)),))
    assert len(warnings(request_of(user("Hi"), **options), model)) == 2
    assert warnings(request_of(user("Hi"), CALL, result, **options), model) == []
    assert warnings(request_of(user("Hi"), reasoning="off"), model) == []


def test_an_omitted_block_is_reported_when_it_is_new() -> None:
    picture = Image("image/png", PIXEL)
    blind = ChatModel("deepseek-chat", provider="deepseek", dialect=DIALECTS["deepseek"])
    request = request_of(user("Look", picture, picture, File("application/pdf", "a.pdf", "JVBERi0=")))
    assert warnings(request, blind) == [
        "deepseek/deepseek-chat cannot read an image of type image/png; it is omitted",
        "deepseek/deepseek-chat cannot read the file 'a.pdf' of type application/pdf; it is omitted",
    ]
    assert "image_url" not in blind.body(request).decode()
    result = Message("tool", (ToolResult("call_a", "read", (Image("image/tiff", PIXEL),)),))
    seeing = AnthropicModel("claude-sonnet-5-5")
    assert len(warnings(request_of(user("Hi"), CALL, result), seeing)) == 1
    assert warnings(request_of(user("Hi", picture)), seeing) == []
