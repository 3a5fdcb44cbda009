"""Requests of the vendors' own SDKs that the fake vendors accept and refuse like the real ones."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from ostler.testkit.vendors import FakeVendor, turn

LATER = {"role": "system", "content": "From now on, be brief."}
USER, SAID = {"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
FUNCTION = {"type": "function", "name": "plant", "strict": False, "parameters": {"type": "object"}}


async def ask_anthropic(vendor: FakeVendor, messages: list[Any], model: str) -> str:
    client = anthropic.AsyncAnthropic(api_key="x", base_url=vendor.anthropic_url, max_retries=0)
    async with client, client.messages.stream(model=model, max_tokens=9, messages=messages) as stream:
        return await stream.get_final_text()


@pytest.mark.parametrize("messages", [[USER, LATER], [USER, LATER, SAID, USER], [USER, SAID, USER, LATER]])
async def test_instructions_may_follow_a_users_message(messages: list[Any]) -> None:
    async with FakeVendor([turn("yes")]) as vendor:
        assert await ask_anthropic(vendor, messages, "claude-opus-5-5") == "yes"
        assert vendor.complaints == []


@pytest.mark.parametrize(
    ("messages", "model", "why"),
    [
        ([LATER, USER], "claude-opus-5-5", "must follow a user message"),
        ([USER, LATER, LATER], "claude-opus-5-5", "must follow a user message"),
        ([USER, SAID, LATER], "claude-opus-5-5", "must follow a user message"),
        ([USER, LATER, USER], "claude-opus-5-5", "end its turn"),
        ([USER, LATER], "claude-haiku-4-5-20251001", "not supported on this model"),
        ([USER, {"role": "system", "content": [IMAGE]}], "claude-opus-5-5", "text blocks only"),
    ],
)
async def test_instructions_in_other_places_are_refused(messages: list[Any], model: str, why: str) -> None:
    async with FakeVendor([turn("yes")]) as vendor:
        with pytest.raises(anthropic.BadRequestError, match=why):
            await ask_anthropic(vendor, messages, model)
        assert len(vendor.complaints) == 1


async def ask_openai(vendor: FakeVendor, tools: list[Any]) -> str:
    client = openai.AsyncOpenAI(api_key="x", base_url=vendor.chat_url, max_retries=0)
    async with client, client.responses.stream(model="gpt-5", input="hello", tools=tools) as stream:
        return (await stream.get_final_response()).output_text


async def test_namespaces_and_hosted_tools_are_accepted() -> None:
    orchard = {"type": "namespace", "name": "orchard", "description": "Trees.", "tools": [FUNCTION]}
    async with FakeVendor([turn("yes")]) as vendor:
        assert await ask_openai(vendor, [FUNCTION, orchard, {"type": "web_search"}]) == "yes"


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ({"type": "namespace", "name": "orchard", "tools": [FUNCTION]}, "description"),
        ({"type": "namespace", "name": "or chard", "description": "Trees.", "tools": []}, "pattern"),
        (
            {"type": "namespace", "name": "a", "description": "b", "tools": [{"type": "web_search"}]},
            "functions or custom tools",
        ),
        ({"type": "spade", "name": "orchard"}, "pattern"),
        (FUNCTION | {"parameters": {"type": "array"}}, "Invalid schema"),
    ],
)
async def test_invalid_tools_are_refused(tool: dict[str, Any], why: str) -> None:
    async with FakeVendor([turn("yes")]) as vendor:
        with pytest.raises(openai.BadRequestError, match=why):
            await ask_openai(vendor, [tool])
