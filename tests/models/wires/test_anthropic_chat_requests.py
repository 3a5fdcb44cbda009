"""The Messages and the Chat wire send what the vendors' own SDKs would send."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from ostler.core.model import ModelRequest
from ostler.models.catalogue import ModelProfile
from ostler.models.providers import Wire
from ostler.models.wires.anthropic import AnthropicModel
from ostler.models.wires.chat import ChatModel
from ostler.schema.messages import Message, Text, ToolResult, user
from ostler.testkit.vendors import FakeVendor, Think, call, turn
from tests.models.wires.transcripts import AWKWARD, CALLS, PIXEL, RESULTS
from tests.models.wires.wire_cases import (
    KEY,
    READ,
    WRITE,
    answer_of,
    ask,
    model_for,
    request_of,
)


def sent(wire: Wire, request: ModelRequest, **options: Any) -> dict[str, Any]:
    return json.loads(model_for(wire, **options).body(request))


def without_markers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_markers(inner) for name, inner in value.items() if name != "cache_control"}
    return [without_markers(inner) for inner in value] if isinstance(value, list) else value


async def test_the_messages_request_is_what_the_sdk_sends() -> None:
    request = request_of(user("Hi"), CALLS, RESULTS, system="Be brief.", tools=(READ,), max_output_tokens=500)
    results: list[Any] = [
        {"type": "tool_result", "tool_use_id": "call_a", "content": "alpha"},
        {"type": "tool_result", "tool_use_id": "call_b", "content": "no b", "is_error": True},
    ]
    calls: list[Any] = [
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "call_a", "name": "read", "input": {"path": "a"}},
        {"type": "tool_use", "id": "call_b", "name": "read", "input": {"path": "b"}},
    ]
    async with FakeVendor([turn("ok"), turn("ok")], api_key=KEY) as vendor:
        await ask(vendor, "anthropic", request)
        async with (
            anthropic.AsyncAnthropic(base_url=vendor.anthropic_url, api_key=KEY) as client,
            client.messages.stream(
                model="claude-sonnet-5-5",
                max_tokens=500,
                system=[{"type": "text", "text": "Be brief."}],
                tools=[{"name": READ.name, "description": READ.description, "input_schema": READ.schema}],
                messages=[
                    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                    {"role": "assistant", "content": calls},
                    {"role": "user", "content": results},
                ],
            ) as stream,
        ):
            await stream.get_final_message()
        ours, theirs = vendor.requests
    assert ours.path == theirs.path
    assert without_markers(ours.json) == theirs.json
    assert ours.headers["x-api-key"] == KEY
    assert ours.headers["content-type"] == theirs.headers["content-type"]


async def test_the_chat_request_is_what_the_sdk_sends() -> None:
    request = request_of(user("Hi"), CALLS, RESULTS, system="Be brief.", tools=(READ,), max_output_tokens=500)
    function = {"name": READ.name, "description": READ.description, "parameters": READ.schema}
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {
                    "id": f"call_{letter}",
                    "type": "function",
                    "function": {"name": "read", "arguments": f'{{"path":"{letter}"}}'},
                }
                for letter in "ab"
            ],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "alpha"},
        {"role": "tool", "tool_call_id": "call_b", "content": "[error] no b"},
    ]
    async with FakeVendor([turn("ok"), turn("ok")], api_key=KEY) as vendor:
        await ask(vendor, "chat", request)
        async with openai.AsyncOpenAI(base_url=vendor.chat_url, api_key=KEY) as client:
            stream = await client.chat.completions.create(
                model="gpt-x",
                max_tokens=500,
                messages=messages,
                tools=[{"type": "function", "function": function}],
                stream=True,
                stream_options={"include_usage": True},
            )
            async for _ in stream:
                pass
        ours, theirs = vendor.requests
    assert ours.path == theirs.path
    assert ours.json == theirs.json
    assert ours.headers["authorization"] == theirs.headers["authorization"] == f"Bearer {KEY}"


def test_results_of_one_step_are_one_message_for_one_wire_and_several_for_the_other() -> None:
    request = request_of(user("Hi"), CALLS, RESULTS)
    assert [m["role"] for m in sent("anthropic", request)["messages"]] == ["user", "assistant", "user"]
    assert [m["role"] for m in sent("chat", request)["messages"]] == ["user", "assistant", "tool", "tool"]


def test_pictures_of_tools_follow_all_results_on_chat_and_only_when_there_are_any() -> None:
    messages = sent("chat", request_of(*AWKWARD["a picture from a tool"]))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert messages[4]["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"
    plain = sent("chat", request_of(user("Hi"), CALLS, RESULTS))["messages"]
    assert plain[-1]["role"] == "tool"


def test_pictures_of_a_tool_are_within_its_result_on_messages_unless_it_failed() -> None:
    fine = sent("anthropic", request_of(*AWKWARD["a picture from a tool"]))["messages"][2]["content"]
    assert [block["type"] for block in fine] == ["tool_result", "tool_result"]
    assert fine[0]["content"][0]["source"]["data"] == PIXEL
    case = AWKWARD["pictures and documents from a tool that failed"]
    failed = sent("anthropic", request_of(*case))["messages"][2]["content"]
    kinds = [block["type"] for block in failed]
    assert kinds == ["tool_result", "tool_result", "text", "image", "text", "document"]
    assert failed[0]["content"] == "no" and failed[0]["is_error"]


def test_files_have_the_form_of_their_wire() -> None:
    request = request_of(*AWKWARD["documents"])
    _, pdf, text, other = sent("anthropic", request)["messages"][0]["content"]
    assert pdf["source"] == {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    assert text["source"]["data"] == "hello" and other["type"] == "text"
    _, pdf, text, other = sent("chat", request)["messages"][0]["content"]
    data = "data:application/pdf;base64,JVBERi0="
    assert pdf == {"type": "file", "file": {"filename": "a.pdf", "file_data": data}}
    assert text["text"].endswith("hello") and other["type"] == "text"


async def test_thinking_is_replayed_to_its_own_wire_as_it_came() -> None:
    script = [
        turn(Think(("Let ", "me see"), "signed"), Think(redacted="blob"), call("read", {"path": "a"})),
        turn("done"),
    ]
    async with FakeVendor(script) as vendor:
        first = (await ask(vendor, "anthropic", request_of(tools=(READ,)))).done
        answer = Message("assistant", first.content)
        result = Message("tool", (ToolResult(answer.calls[0].id, "read", (Text("a"),)),))
        request = request_of(user("Hello"), answer, result, tools=(READ,))
        await ask(vendor, "anthropic", request)
        replayed = vendor.requests[1].json["messages"][1]["content"]
    assert replayed[0] == {"type": "thinking", "thinking": "Let me see", "signature": "signed"}
    assert replayed[1] == {"type": "redacted_thinking", "data": "blob"}
    assert b"signed" not in json.dumps(sent("chat", request)).encode()


async def test_reasoning_content_is_replayed_with_calls_to_its_own_provider_only() -> None:
    async with FakeVendor(
        [turn(Think(("Let ", "me see")), call("read", {"path": "a"})), turn("done")]
    ) as vendor:
        first = (await ask(vendor, "chat", request_of(tools=(READ,)))).done
        answer = Message("assistant", first.content)
        result = Message("tool", (ToolResult(answer.calls[0].id, "read", (Text("a"),)),))
        request = request_of(user("Hello"), answer, result)
        await ask(vendor, "chat", request)
        assert vendor.requests[1].json["messages"][1]["reasoning_content"] == "Let me see"
    other = json.loads(ChatModel("m", provider="groq").body(request))
    assert "reasoning_content" not in other["messages"][1]
    assert "Let me see" not in json.dumps(sent("anthropic", request))
    finished = request_of(
        user("Hello"), Message("assistant", (*first.content[:1], Text("Yes"))), user("And?")
    )
    assert "reasoning_content" not in sent("chat", finished)["messages"][1]


def test_cache_breakpoints_are_on_system_tools_and_the_last_two_messages_from_the_user() -> None:
    transcript = [user("Hi"), CALLS, RESULTS, Message("assistant", (Text("So."),)), user("Go on")]
    body = sent("anthropic", request_of(*transcript, system="S", tools=(READ, WRITE)))
    assert "cache_control" in body["system"][0]
    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]
    marked = [["cache_control" in block for block in message["content"]] for message in body["messages"]]
    assert marked == [[False], [False, False, False], [False, True], [False], [True]]


@pytest.mark.parametrize(
    ("level", "budget"), [("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16384)]
)
async def test_a_level_of_reasoning_is_a_budget_below_the_limit(level: Any, budget: int) -> None:
    request = request_of(reasoning=level, max_output_tokens=1000)
    async with FakeVendor([turn("ok")]) as vendor:
        model = AnthropicModel("claude-haiku-4-5", base_url=vendor.anthropic_url)
        assert (await answer_of(model, request)).done.stop_reason == "end"
        await model.aclose()
        body = vendor.requests[0].json
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] > budget


@pytest.mark.parametrize(
    ("model", "output", "thinking"),
    [
        ("claude-3-haiku-20240307", 4096, None),
        ("claude-3-5-sonnet-20241022", 8192, None),
        ("claude-3-7-sonnet-20250219", 32000, "enabled"),
        ("claude-sonnet-4-20250514", 32000, "enabled"),
        ("claude-opus-4-1-20250805", 32000, "enabled"),
        ("claude-haiku-4-5", 32000, "enabled"),
        ("claude-opus-4-6", 32000, "adaptive"),
        ("claude-opus-4-8", 32000, "adaptive"),
        ("claude-sonnet-5", 32000, "adaptive"),
        ("claude-sonnet-5-5", 32000, "adaptive"),
        ("kimi-k2", 32000, "enabled"),
    ],
)
def test_each_claude_family_gets_its_own_thinking_fields(
    model: str, output: int, thinking: str | None
) -> None:
    body = json.loads(AnthropicModel(model).body(request_of(reasoning="medium")))
    assert body["max_tokens"] == output
    assert body.get("thinking", {}).get("type") == thinking
    assert body.get("output_config") == ({"effort": "medium"} if thinking == "adaptive" else None)
    silent = json.loads(AnthropicModel(model).body(request_of()))
    assert "thinking" not in silent and "output_config" not in silent
    off = json.loads(AnthropicModel(model).body(request_of(reasoning="off")))
    assert "thinking" not in off


@pytest.mark.parametrize("choice", ["required", "read"])
async def test_a_forced_tool_disables_thinking(choice: str) -> None:
    request = request_of(reasoning="high", tools=(READ,), tool_choice=choice)
    async with FakeVendor([turn(call("read", {"path": "a"}))]) as vendor:
        assert (await ask(vendor, "anthropic", request)).done.stop_reason == "tool_calls"


@pytest.mark.parametrize(
    ("choice", "messages", "chat"),
    [
        ("auto", None, None),
        ("none", {"type": "none"}, "none"),
        ("required", {"type": "any"}, "required"),
        ("read", {"type": "tool", "name": "read"}, {"type": "function", "function": {"name": "read"}}),
    ],
)
def test_the_choice_of_a_tool_has_the_form_of_its_wire(choice: str, messages: Any, chat: Any) -> None:
    request = request_of(tools=(READ,), tool_choice=choice)
    assert sent("anthropic", request).get("tool_choice") == messages
    assert sent("chat", request).get("tool_choice") == chat
    assert "tool_choice" not in sent("chat", request_of(tool_choice=choice))


def test_the_output_limit_uses_the_field_of_its_server() -> None:
    request = request_of(max_output_tokens=77)
    assert sent("chat", request)["max_tokens"] == 77
    assert sent("chat", request, base_url="https://api.openai.com/v1")["max_completion_tokens"] == 77
    assert not {"max_tokens", "max_completion_tokens"} & sent("chat", request_of()).keys()


@pytest.mark.parametrize("given", ["", "/", "/v1", "/v1/"])
async def test_the_messages_base_url_may_omit_v1(given: str) -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        answer = await ask(vendor, "anthropic", base_url=vendor.anthropic_url + given)
    assert answer.done.stop_reason == "end"


def test_the_output_limit_never_exceeds_the_models_limit() -> None:
    short = ModelProfile(output_limit=6000)
    bodies = [
        json.loads(kind("m", settings=short).body(request_of(max_output_tokens=asked)))
        for kind in (AnthropicModel, ChatModel)
        for asked in (9000, 500)
    ]
    assert [body["max_tokens"] for body in bodies] == [6000, 500, 6000, 500]
    assert json.loads(AnthropicModel("m", settings=short).body(request_of()))["max_tokens"] == 6000
    thinking = json.loads(AnthropicModel("m", settings=short).body(request_of(reasoning="high")))
    assert thinking["thinking"]["budget_tokens"] + 4096 <= thinking["max_tokens"] == 6000


@pytest.mark.parametrize(("header", "value"), [("authorization", f"Bearer {KEY}"), ("api-key", KEY)])
async def test_the_key_is_sent_in_the_configured_header(header: str, value: str) -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        model = ChatModel("m", base_url=vendor.chat_url, api_key=KEY, key_header=header)
        assert (await answer_of(model, request_of())).done.stop_reason == "end"
        await model.aclose()
        headers = vendor.requests[0].headers
    assert headers[header] == value
    assert [name for name, content in headers.items() if KEY in content] == [header]
