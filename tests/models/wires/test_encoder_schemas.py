"""An answer schema is sent in the format of each vendor's SDK."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pydantic
import pytest
from anthropic.lib._parse._transform import transform_schema
from openai.lib._pydantic import to_strict_json_schema

from ostler.models.wires.encoder import closed, is_strict
from ostler.schema.events import Warned
from ostler.testkit.vendors import FakeVendor, turn
from tests.models.wires.wire_cases import KEY, ask, model_for, request_of


class Part(pydantic.BaseModel):
    count: int = pydantic.Field(ge=1, description="How many.")
    note: str | None = None


class answer(pydantic.BaseModel):
    parts: list[Part] = pydantic.Field(min_length=1)
    kind: str = pydantic.Field(pattern="[a-z]+")


async def test_the_schema_of_an_answer_is_sent_to_messages_as_the_sdk_sends_it() -> None:
    request = request_of(answer_schema=answer.model_json_schema(), reasoning="low")
    hello: Any = {"role": "user", "content": "Hello"}
    async with FakeVendor([turn('{"parts":[{"count":1}],"kind":"a"}')] * 2, api_key=KEY) as vendor:
        events = (await ask(vendor, "anthropic", request)).events
        async with (
            anthropic.AsyncAnthropic(base_url=vendor.anthropic_url, api_key=KEY) as client,
            client.messages.stream(
                model="claude-sonnet-5-5", max_tokens=99, messages=[hello], output_format=answer
            ) as stream,
        ):
            await stream.get_final_message()
        ours, theirs = (received.json["output_config"] for received in vendor.requests)
    assert ours == {**theirs, "effort": "low"}
    assert not any(isinstance(event, Warned) for event in events)


async def test_the_schema_of_an_answer_is_sent_to_chat_as_the_sdk_sends_it() -> None:
    request = request_of(answer_schema=to_strict_json_schema(answer))
    async with FakeVendor([turn('{"parts":[{"count":1,"note":null}],"kind":"a"}')] * 2) as vendor:
        await ask(vendor, "chat", request)
        async with (
            openai.AsyncOpenAI(base_url=vendor.chat_url, api_key=KEY) as client,
            client.chat.completions.stream(
                model="gpt-x", messages=[{"role": "user", "content": "Hi"}], response_format=answer
            ) as stream,
        ):
            await stream.get_final_completion()
        ours, theirs = (received.json["response_format"] for received in vendor.requests)
    assert ours == theirs and ours["json_schema"]["strict"] is True
    lax = json.loads(model_for("chat").body(request_of(answer_schema=answer.model_json_schema())))
    assert lax["response_format"]["json_schema"]["strict"] is False


@pytest.mark.parametrize(
    "schema",
    [
        answer.model_json_schema(),
        {"type": "string", "format": "date", "maxLength": 9},
        {"type": "string", "format": "regex", "description": "One."},
        {"type": "array", "items": {"oneOf": [{"type": "integer"}, {"const": 3}]}, "minItems": 2},
        {"enum": ["a", 1, None], "type": "string", "title": "T"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"x": {"type": "null"}}}}},
    ],
)
def test_a_schema_is_closed_as_the_sdk_closes_it(schema: dict[str, Any]) -> None:
    assert closed(schema) == transform_schema(schema)
    assert json.dumps(closed(schema)) == json.dumps(closed(schema))


@pytest.mark.parametrize(
    "schema",
    [
        answer.model_json_schema(),
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": True}, "required": ["a"], "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
        to_strict_json_schema(answer) | {"patternProperties": {}},
    ],
)
def test_a_schema_with_anything_open_in_it_is_not_strict(schema: dict[str, Any]) -> None:
    assert not is_strict(schema)
    assert is_strict(to_strict_json_schema(answer))
