"""The Messages and the Chat wire read what the vendors' own SDKs read from the same server."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

from ostler.models.providers import Wire
from ostler.schema.events import (
    SourceCited,
)
from ostler.schema.messages import Reasoning, Text, ToolCall
from ostler.schema.usage import Usage
from ostler.testkit.vendors import Cite, FakeVendor, Think, call, say, turn
from tests.models.wires.wire_cases import (
    KEY,
    ask,
)

TURNS = {
    "text": turn(say("Hel", "lo ", "wörld ✓")),
    "one call": turn("I will look.", call("read", {"path": "a.txt"}, id="call_one_of_its_kind_0001")),
    "parallel calls": turn(
        call("read", {"path": "a"}, id="call_first_of_several_0001"),
        call("write", {"path": "b", "text": "x" * 90}, id="call_first_of_several_0002"),
    ),
    "reasoning": turn(
        Think(("Let me ", "see."), "sig-1"), "The answer.", usage=Usage(3, 9, reasoning_tokens=4)
    ),
    "reasoning and call": turn(Think(("Hm.",), "sig-2"), call("read", {"path": "é"}, id="c" * 24)),
    "no arguments": turn(call("read", "", id="call_without_arguments_01")),
    "cut": turn("It was a dark and", stop="length"),
    "refused": turn("I cannot", stop="refusal"),
    "cited": turn(
        say("It rains", "."),
        Cite("https://example.org/rain", "Rain"),
        Cite("https://example.org/sky", ""),
        "And it snows.",
        Cite("https://example.org/snow", "Snow"),
    ),
    "cached": turn("Yes.", usage=Usage(7, 5, cache_read_tokens=100, cache_write_tokens=20)),
}


async def sdk_reads_anthropic(url: str) -> dict[str, Any]:
    hello: Any = {"role": "user", "content": "Hello"}
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client,
        client.messages.stream(model="claude-sonnet-5-5", max_tokens=100, messages=[hello]) as stream,
    ):
        message = await stream.get_final_message()
    usage = message.usage
    stops = {"end_turn": "end", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "refusal"}
    return {
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "thinking": "".join(block.thinking for block in message.content if block.type == "thinking"),
        "calls": [(b.id, b.name, b.input) for b in message.content if b.type == "tool_use"],
        "stop": stops[message.stop_reason or ""],
        "usage": (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else 0,
        ),
        "sources": [
            (citation.url, citation.title)
            for block in message.content
            if block.type == "text"
            for citation in block.citations or []
            if citation.type == "web_search_result_location"
        ],
    }


async def sdk_reads_chat(url: str) -> dict[str, Any]:
    text, thinking, usage, stop = "", "", None, ""
    sources: list[tuple[str, str]] = []
    calls: dict[int, list[str]] = {}
    async with openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="gpt-x",
            messages=[{"role": "user", "content": "Hello"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                thinking += getattr(choice.delta, "reasoning_content", None) or ""
                stop = choice.finish_reason or stop
                for annotation in getattr(choice.delta, "annotations", None) or []:
                    sources.append((annotation["url_citation"]["url"], annotation["url_citation"]["title"]))
                for delta in choice.delta.tool_calls or []:
                    parts = calls.setdefault(delta.index, ["", "", ""])
                    parts[0] += delta.id or ""
                    parts[1] += (delta.function and delta.function.name) or ""
                    parts[2] += (delta.function and delta.function.arguments) or ""
    assert usage is not None and usage.prompt_tokens_details is not None
    read = usage.prompt_tokens_details.cached_tokens or 0
    written = usage.prompt_tokens_details.cache_write_tokens or 0
    assert usage.completion_tokens_details is not None
    thought = usage.completion_tokens_details.reasoning_tokens
    stops = {"stop": "end", "content_filter": "refusal"}
    return {
        "text": text,
        "thinking": thinking,
        "calls": [(parts[0], parts[1], json.loads(parts[2] or "{}")) for parts in calls.values()],
        "stop": stops.get(stop, stop),
        "usage": (usage.prompt_tokens - read - written, usage.completion_tokens, read, written, thought),
        "sources": sources,
    }


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
@pytest.mark.parametrize("case", TURNS)
async def test_the_wire_reads_what_the_vendors_sdk_reads(wire: Wire, case: str) -> None:
    async with FakeVendor([TURNS[case], TURNS[case]]) as vendor:
        sdk = sdk_reads_anthropic if wire == "anthropic" else sdk_reads_chat
        theirs = await sdk(vendor.base_url(wire))
        answer = await ask(vendor, wire)
    done = answer.done
    ours = {
        "text": "".join(block.text for block in done.content if isinstance(block, Text)),
        "thinking": "".join(block.text for block in done.content if isinstance(block, Reasoning)),
        "calls": [
            (block.id, block.name, json.loads(block.arguments))
            for block in done.content
            if isinstance(block, ToolCall)
        ],
        "stop": done.stop_reason,
        "usage": (
            done.usage.input_tokens,
            done.usage.output_tokens,
            done.usage.cache_read_tokens,
            done.usage.cache_write_tokens,
            done.usage.reasoning_tokens,
        ),
        "sources": [(event.url, event.title) for event in answer.events if isinstance(event, SourceCited)],
    }
    assert ours == theirs
    assert ours["text"] or ours["calls"]


async def test_signed_and_redacted_thinking_is_replayed_on_its_own_wire() -> None:
    script = [turn(Think(("Hm",), "signed"), Think(redacted="secret-blob"), "Yes.")]
    async with FakeVendor(script) as vendor:
        done = (await ask(vendor, "anthropic")).done
    first, second, third = done.content
    assert isinstance(first, Reasoning) and isinstance(second, Reasoning) and third == Text("Yes.")
    assert first.opaque is not None and first.opaque.wire == "anthropic"
    assert first.opaque.data == {"type": "thinking", "signature": "signed"}
    assert second.opaque is not None
    assert second.opaque.data == {"type": "redacted_thinking", "data": "secret-blob"}
