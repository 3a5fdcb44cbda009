"""The Responses wire reads what the vendor's own SDK reads from the same server."""

from __future__ import annotations

import json
import sys
from typing import Any

import openai
import pytest

from ostler.models.catalogue import ModelProfile, Prices
from ostler.models.wires.responses import ResponsesModel
from ostler.models.wires.responses_stream import ResponsesDecoder
from ostler.schema.events import (
    SourceCited,
    ToolInputDelta,
    Warned,
)
from ostler.schema.messages import Message, Reasoning, Text, ToolCall, user
from ostler.schema.usage import Usage
from ostler.testkit.vendors import Call, FakeVendor, Think, call, responses, say, turn
from ostler.testkit.vendors.script import Cite
from tests.models.wires.responses_cases import (
    MODEL,
    Canned,
    added,
    ask,
    completed,
    delta,
    done,
    frame,
    read,
)
from tests.models.wires.wire_cases import KEY, Answer, answer_of, request_of

TURNS = {
    "text": turn(say("Hel", "lo ", "wörld ✓")),
    "one call": turn("I will look.", call("read", {"path": "a.txt"}, id="call_1")),
    "parallel calls": turn(
        call("read", {"path": "a"}, id="call_1"), call("write", {"path": "b", "text": "x" * 90}, id="call_2")
    ),
    "reasoning": turn(
        Think(("Let me ", "see."), "sealed-1"), "The answer.", usage=Usage(3, 9, reasoning_tokens=4)
    ),
    "reasoning and call": turn(Think(("Hm.",), "sealed-2"), call("read", {"path": "é"}, id="call_1")),
    "redacted reasoning": turn(Think(redacted="sealed-3"), "Yes."),
    "no arguments": turn(call("read", "", id="call_1")),
    "cut": turn("It was a dark and", stop="length"),
    "a call that was cut": turn(Call("read", ('{"path": "a', "b"), "call_1"), stop="length"),
    "refused": turn("I cannot", stop="refusal"),
    "filtered": turn(Think(("Hm.",), "sealed-4"), stop="refusal"),
    "stopped otherwise": turn("So", stop="other"),
    "cached": turn("Yes.", usage=Usage(7, 5, cache_read_tokens=100, cache_write_tokens=20)),
    "sources": turn(
        "Paris.", Cite("https://example.org/a", "A"), Cite("https://example.org/b", "B"), "And Rome."
    ),
    "nothing": turn(),
}


async def sdk_reads(vendor: FakeVendor) -> dict[str, Any]:
    streamed, response = "", None
    async with (
        openai.AsyncOpenAI(base_url=vendor.chat_url, api_key=KEY, max_retries=0) as client,
        client.responses.stream(
            model=MODEL, input="Hello", store=False, include=["reasoning.encrypted_content"]
        ) as stream,
    ):
        async for event in stream:
            if event.type in ("response.output_text.delta", "response.refusal.delta"):
                streamed += event.delta
            if event.type in ("response.completed", "response.incomplete"):
                response = event.response
    assert response is not None and response.usage is not None
    input_details, made = response.usage.input_tokens_details, response.usage.output_tokens_details
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    thoughts = [item for item in response.output if item.type == "reasoning"]
    text = "".join(part.text if part.type == "output_text" else part.refusal for part in parts)
    assert text == streamed
    calls = [item for item in response.output if item.type == "function_call"]
    refused = any(part.type == "refusal" for part in parts)
    reason = response.incomplete_details and response.incomplete_details.reason
    stops = {"max_output_tokens": "length", "content_filter": "refusal", "max_messages": "other"}
    return {
        "text": text,
        "thinking": ["\n\n".join(part.text for part in item.summary) for item in thoughts],
        "sealed": [(item.id, item.encrypted_content) for item in thoughts],
        "calls": [(item.call_id, item.name, item.arguments or "{}") for item in calls],
        "sources": [
            (source.url, source.title)
            for part in parts
            if part.type == "output_text"
            for source in part.annotations
            if source.type == "url_citation"
        ],
        "stop": stops[reason] if reason else "refusal" if refused else "tool_calls" if calls else "end",
        "usage": (
            response.usage.input_tokens - input_details.cached_tokens - input_details.cache_write_tokens,
            response.usage.output_tokens,
            input_details.cached_tokens,
            input_details.cache_write_tokens,
            made.reasoning_tokens,
        ),
        "model": response.model,
    }


def we_read(answer: Answer) -> dict[str, Any]:
    done, usage = answer.done, answer.done.usage
    thoughts = [block for block in done.content if isinstance(block, Reasoning)]
    opaque_fields = [block.opaque.data["fields"] for block in thoughts if block.opaque]
    return {
        "text": "".join(block.text for block in done.content if isinstance(block, Text)),
        "thinking": [block.text for block in thoughts],
        "sealed": [(fields["id"], fields["encrypted_content"]) for fields in opaque_fields],
        "calls": [(b.id, b.name, b.arguments) for b in done.content if isinstance(b, ToolCall)],
        "sources": [(event.url, event.title) for event in answer.events if isinstance(event, SourceCited)],
        "stop": done.stop_reason,
        "usage": (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
        ),
        "model": done.model or MODEL,
    }


@pytest.mark.parametrize("case", TURNS)
async def test_the_wire_reads_what_the_vendors_sdk_reads_with_responses(case: str) -> None:
    async with FakeVendor([TURNS[case]]) as vendor:
        theirs = await sdk_reads(vendor)
    async with FakeVendor([TURNS[case]]) as vendor:
        ours = we_read(await ask(vendor))
    assert ours == theirs


async def test_the_servers_cost_overrides_the_prices() -> None:
    settings = ModelProfile(prices=Prices(input=1, output=10, cache_read=0.1, cache_write=2))
    reported = completed(usage={"input_tokens": 3, "output_tokens": 4, "cost": 0.25})
    assert (await read(reported, settings=settings)).done.usage == Usage(3, 4, cost=0.25)


async def test_without_a_header_the_request_id_is_the_responses() -> None:
    assert (await read(completed())).done.request_id == "resp_1"


async def test_an_answer_names_a_model_other_than_the_requested_one() -> None:
    assert (await read(completed(model="gpt-5.1-2025-11-13"))).done.model == "gpt-5.1-2025-11-13"
    assert (await read(completed())).done.model == ""


THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}],
    "encrypted_content": "sealed",
}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": '{"a":1}'}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
}


async def test_the_parts_of_a_summary_are_paragraphs() -> None:
    answer = await read(
        added(THOUGHT | {"summary": []}),
        delta("reasoning_summary_text", "One."),
        delta("reasoning_summary_text", "Tw", summary_index=1),
        delta("reasoning_summary_text", "o.", summary_index=1),
        done(THOUGHT),
        delta("reasoning_summary_text", "Three.", item=1),
        completed(),
    )
    assert [block.text for block in answer.done.content] == ["One.\n\nTwo.", "Three."]  # type: ignore[union-attr]


async def test_plain_reasoning_is_streamed_but_not_replayed() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm"}],
    }
    answer = await read(delta("reasoning_text", "H"), delta("reasoning_text", "m"), done(item), completed())
    assert answer.done.content == (Reasoning("Hm"),)


@pytest.mark.parametrize("named", [True, False])
async def test_text_missing_in_deltas_comes_with_the_end_of_the_item(named: bool) -> None:
    answer = await read(
        delta("output_text", "Hel"),
        done(MESSAGE),
        done(THOUGHT, 1),
        added(CALL | {"arguments": ""}, 2),
        delta("function_call_arguments", '{"a"', item=2),
        done(CALL, 2),
        completed(),
        named=named,
    )
    text_block, thought, called = answer.done.content
    assert text_block == Text("Hello") and called == ToolCall("call_1", "read", '{"a":1}')
    assert isinstance(thought, Reasoning) and thought.text == "One.\n\nTwo."
    inputs = [event.text for event in answer.events if isinstance(event, ToolInputDelta)]
    assert inputs == ['{"a"', ":1}"]


async def test_the_end_of_an_item_overrides_its_deltas() -> None:
    content = (await read(delta("output_text", "Help"), done(MESSAGE), completed())).done.content
    assert content == (Text("Hello"),)


async def test_items_that_come_only_with_the_final_event_are_read() -> None:
    answer = await read(completed(output=[MESSAGE, CALL]))
    assert answer.done.content == (Text("Hello"), ToolCall("call_1", "read", '{"a":1}'))
    assert answer.done.stop_reason == "tool_calls"


async def test_a_source_may_be_a_file_and_is_named_once() -> None:
    annotation = {"type": "file_citation", "file_id": "file_1", "filename": "a.pdf", "index": 3}
    text = MESSAGE["content"][0] | {"annotations": [annotation]}  # type: ignore[index, operator]
    answer = await read(
        delta("output_text", "Hello"),
        {"type": "response.output_text.annotation.added", "annotation": annotation, "output_index": 0},
        done(MESSAGE | {"content": [text]}),
        completed(),
    )
    sources = [event for event in answer.events if isinstance(event, SourceCited)]
    assert sources == [SourceCited("mc_1", title="a.pdf", id="file_1")]


async def test_an_item_of_another_kind_is_warned_of_and_its_reasoning_not_replayed() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "arguments": {"q": []}}
    answer = await read(
        done(THOUGHT), added(search, 1), done(search, 1), done(search, 2), done(MESSAGE, 3), completed()
    )
    thought, text_block = answer.done.content
    assert (
        isinstance(thought, Reasoning)
        and thought.text
        and thought.opaque is None
        and text_block == Text("Hello")
    )
    (warning,) = [event for event in answer.events if isinstance(event, Warned)]
    assert "web_search_call" in warning.text and warning.call == "mc_1"


async def test_events_of_unknown_kinds_are_ignored() -> None:
    odd = {"type": "response.surprise", "response": 3, "delta": []}
    answer = await read(odd, delta("output_text", "Hi"), odd, completed())
    assert answer.done.content == (Text("Hi"),)


async def test_what_follows_the_end_is_not_read() -> None:
    events = (delta("output_text", "Hi"), completed(), delta("output_text", " again"))
    whole = b"".join(map(frame, events)) + b"data: [DONE]\n\n"
    model = ResponsesModel(MODEL, transport=Canned([whole]))
    assert (await answer_of(model, request_of())).done.content == (Text("Hi"),)


async def test_the_phase_of_a_message_is_replayed_to_its_own_model() -> None:
    text_block = (await read(done(MESSAGE | {"phase": "commentary"}), completed())).done.content[0]
    request = request_of(user("Hi"), Message("assistant", (text_block,)), user("Go on"))
    async with FakeVendor([turn("ok"), turn("ok")]) as vendor:
        await ask(vendor, request)
        await ask(vendor, request, model="gpt-5.2")
        own, other = (json.loads(received.body)["input"][1] for received in vendor.requests)
    assert own == {"role": "assistant", "content": "Hello", "phase": "commentary"}
    assert other == {"role": "assistant", "content": "Hello"}


def steps_to_read_arguments(size: int) -> int:
    """Calls of functions, of Python's and of C's, while arguments arrive in pieces of eight characters."""
    frames = list(responses.frames(turn(call("write", "x" * size, size=8)), {"model": MODEL}, 1))
    decoder = ResponsesDecoder(request_of(), "openai", MODEL, None)
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        for data in frames:
            decoder.feed(data)
    finally:
        sys.setprofile(None)
    assert decoder.finished
    return steps


def test_the_cost_of_arguments_grows_with_their_length_only() -> None:
    assert steps_to_read_arguments(100_000) <= 4.1 * steps_to_read_arguments(25_000)
