"""The Gemini wire reads what Google's own SDK reads from the same server."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ostler.schema.events import (
    SourceCited,
    TextDelta,
    ToolInputDelta,
    ToolInputEnded,
    ToolInputStarted,
    Warned,
)
from ostler.schema.messages import Image, Reasoning, Text, ToolCall
from ostler.schema.usage import Usage
from ostler.testkit.vendors import Call, FakeVendor, Think, call, say, turn
from ostler.testkit.vendors.script import Cite
from tests.models.wires.gemini_cases import MODEL, OLDER, ask, decoded, frame, sdk_reads
from tests.models.wires.wire_cases import KEY

TURNS = {
    "text": turn(say("Hel", "lo ", "wörld ✓")),
    "one call": turn("I will look.", call("read", {"path": "a.txt"}, id="fc-1")),
    "parallel calls": turn(
        call("read", {"path": "a"}, id="fc-1"), call("write", {"path": "b", "text": "x" * 90}, id="fc-2")
    ),
    "reasoning": turn(
        Think(("Let me ", "see."), "sig-1"), "The answer.", usage=Usage(3, 9, reasoning_tokens=4)
    ),
    "reasoning and call": turn(Think(("Hm.",), "sig-2"), call("read", {"path": "é"}, id="fc-1")),
    "two signatures": turn(Think(("Hm.",), "sig-3"), Think(redacted="sig-4"), "Yes."),
    "no arguments": turn(call("read", "", id="fc-1")),
    "cut": turn("It was a dark and", stop="length"),
    "refused": turn("I cannot", stop="refusal"),
    "prompt refused": turn(stop="refusal"),
    "something else": turn("Well", stop="other"),
    "cached": turn("Yes.", usage=Usage(7, 5, cache_read_tokens=100)),
    "sources": turn("It is so.", Cite("https://a.example/", "A page"), Cite("https://b.example/")),
}
STOPS = {"STOP": "end", "MAX_TOKENS": "length", "SAFETY": "refusal", "OTHER": "other"}


async def read_by_sdk(vendor: FakeVendor, model: str) -> dict[str, Any]:
    chunks = await sdk_reads(vendor, model=model)
    candidates = [candidate for chunk in chunks for candidate in chunk.candidates or []]
    parts = [part for one in candidates if one.content for part in one.content.parts or []]
    calls = [part.function_call for part in parts if part.function_call]
    stop = "refusal" if chunks[-1].prompt_feedback else ""
    for one in candidates:
        stop = STOPS[one.finish_reason.value] if one.finish_reason else stop
    usage = chunks[-1].usage_metadata
    assert usage is not None
    read, thoughts = usage.cached_content_token_count or 0, usage.thoughts_token_count or 0
    chunks_of_web = [
        grounding.web
        for one in candidates
        if one.grounding_metadata
        for grounding in one.grounding_metadata.grounding_chunks or []
        if grounding.web
    ]
    cited = [
        source
        for one in candidates
        if one.citation_metadata
        for source in one.citation_metadata.citations or []
    ]
    return {
        "text": "".join(part.text or "" for part in parts if not part.thought),
        "thinking": "".join(part.text or "" for part in parts if part.thought),
        "calls": [(grounding.id, grounding.name, grounding.args) for grounding in calls],
        "stop": "tool_calls" if calls and stop == "end" else stop,
        "usage": (
            (usage.prompt_token_count or 0) - read,
            (usage.candidates_token_count or 0) + thoughts,
            read,
            thoughts,
        ),
        "signatures": sorted(part.thought_signature for part in parts if part.thought_signature),
        "sources": [(source.uri, source.title or "") for source in [*chunks_of_web, *cited]],
    }


def signatures_of(content: Any) -> list[bytes]:
    grounding = []
    for block in content:
        data = block.opaque.data if block.opaque else {}
        grounding += [data["signature"]] if "signature" in data else []
        grounding += [signature for _, _, signature in data.get("signatures", [])]
    return sorted(map(base64.b64decode, grounding))


@pytest.mark.parametrize("model", [MODEL, OLDER])
@pytest.mark.parametrize("case", TURNS)
async def test_the_wire_reads_what_the_vendors_sdk_reads_with_gemini(case: str, model: str) -> None:
    async with FakeVendor(lambda request: TURNS[case], api_key=KEY) as vendor:
        theirs = await read_by_sdk(vendor, model)
        answer = await ask(vendor, model=model)
    done = answer.done
    assert {
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
            done.usage.reasoning_tokens,
        ),
        "signatures": signatures_of(done.content),
        "sources": [(event.url, event.title) for event in answer.events if isinstance(event, SourceCited)],
    } == theirs
    assert theirs["text"] or theirs["calls"] or theirs["stop"] == "refusal"


async def test_a_call_arrives_in_one_delta() -> None:
    async with FakeVendor([TURNS["parallel calls"]]) as vendor:
        answer = await ask(vendor)
    kinds = [type(event) for event in answer.events[:-1]]
    assert kinds == [ToolInputStarted, ToolInputDelta, ToolInputEnded] * 2


async def test_calls_without_an_id_get_one_that_the_session_has_not_seen() -> None:
    script = [turn(call("read", {"path": "a"}), call("read", {"path": "b"}))]
    async with FakeVendor(script) as vendor:
        done = (await ask(vendor, model=OLDER)).done
    ids = {block.id for block in done.content if isinstance(block, ToolCall)}
    assert len(ids) == 2 and all(ids)


async def test_arguments_are_passed_on_as_they_were_written() -> None:
    text = '{ "path" : "\\u00e9", "n": 1.0, "path": "twice" }'
    async with FakeVendor([turn(Call("read", (text,), "fc-1"))]) as vendor:
        done = (await ask(vendor)).done
    assert [block.arguments for block in done.content if isinstance(block, ToolCall)] == [text]


async def test_a_call_that_the_vendor_could_not_read_is_a_failure() -> None:
    async with FakeVendor([turn("Hm", Call("read", ('{"path": "a',)))]) as vendor:
        failure = (await ask(vendor)).failure.failure
    assert failure.kind == "stream_broken"
    assert "MALFORMED_FUNCTION_CALL" in failure.message and "try again" in failure.message


async def test_a_refused_prompt_is_reported_and_charged() -> None:
    async with FakeVendor([turn(stop="refusal")]) as vendor:
        answer = await ask(vendor)
    assert [event.text for event in answer.events if isinstance(event, Warned)] == [
        "google refused the prompt (PROHIBITED_CONTENT)"
    ]
    assert answer.done.stop_reason == "refusal" and answer.done.usage.input_tokens == 10


async def test_the_model_that_answered_is_named_where_it_is_another() -> None:
    async with FakeVendor([turn("Hi")]) as vendor:
        assert (await ask(vendor)).done.model == ""
    other = decoded([frame({"text": "Hi"}, finish="STOP", modelVersion="gemini-3.6-flash", responseId="r-1")])
    assert (other.done.model, other.done.request_id) == ("gemini-3.6-flash", "r-1")


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("STOP", "end"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        ("SAFETY", "refusal"),
        ("RECITATION", "refusal"),
        ("BLOCKLIST", "refusal"),
        ("PROHIBITED_CONTENT", "refusal"),
        ("SPII", "refusal"),
        ("LANGUAGE", "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
def test_every_reason_to_stop_has_its_name_and_the_unusual_ones_a_warning(reason: str, stop: str) -> None:
    answer = decoded([frame({"text": "Hm"}), frame(finish=reason, candidate={"finishMessage": "why"})])
    assert answer.done.stop_reason == stop
    warnings = [event.text for event in answer.events if isinstance(event, Warned)]
    assert warnings == (
        [f"google stopped the answer ({reason}: why)"] if stop in ("refusal", "other") else []
    )


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"])
def test_an_answer_that_is_unusable_is_a_failure(reason: str) -> None:
    failure = decoded([frame({"text": "Hm"}), frame(finish=reason)]).failure.failure
    assert failure.kind == "stream_broken" and reason in failure.message and failure.stream_opened


def test_chunks_after_the_stop_reason_still_count() -> None:
    counts = {"promptTokenCount": 20, "candidatesTokenCount": 3, "toolUsePromptTokenCount": 4}
    answer = decoded(
        [
            frame({"text": "He"}, finish="STOP"),
            frame({"text": "llo"}, {"functionCall": {"name": "read"}}, finish="STOP"),
            frame(usageMetadata=counts | {"cachedContentTokenCount": 5, "thoughtsTokenCount": 2}),
        ]
    )
    text, read = answer.done.content
    assert text == Text("Hello") and isinstance(read, ToolCall) and read.arguments == "{}"
    assert answer.done.stop_reason == "tool_calls"
    assert answer.done.usage == Usage(19, 5, cache_read_tokens=5, reasoning_tokens=2)


def test_repeated_sources_and_warnings_are_reported_once() -> None:
    sources = {
        "groundingMetadata": {
            "groundingChunks": [
                {"web": {"uri": "https://a", "title": "A"}},
                {"retrievedContext": {"uri": "https://c"}},
                {"image": {}},
            ]
        }
    }
    status = {"modelStatus": {"modelStage": "LEGACY", "message": "This model retires soon."}}
    answer = decoded([frame({"text": "Hi"}, candidate=sources, finish="STOP", **status)] * 2)
    assert [event for event in answer.events if isinstance(event, SourceCited | Warned)] == [
        SourceCited("mc_1", "https://a", "A"),
        SourceCited("mc_1", "https://c"),
        Warned("This model retires soon.", call="mc_1"),
    ]


def test_a_picture_in_the_answer_is_a_block_of_it() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    draft = {"inlineData": {"mimeType": "image/png", "data": "bm8="}, "thought": True}
    answer = decoded([frame({"text": "Look: "}, draft, picture, {"text": "nice"}, finish="STOP")])
    assert answer.done.content == (Text("Look: "), Image("image/png", "aGk="), Text("nice"))
    assert [event.block for event in answer.events if isinstance(event, TextDelta)] == [0, 2]


def test_other_candidates_and_unknown_parts_are_ignored() -> None:
    chunk = {
        "candidates": [
            {"content": {"parts": [{"executableCode": {"code": "1"}}, {"text": "a", "new": [1]}]}},
            {"content": {"parts": [{"text": "b"}]}, "finishReason": "STOP"},
        ],
        "surprise": {},
    }
    answer = decoded(
        [b"data: " + json.dumps(chunk).encode() + b"\n\n", b"data: {}\n\n", frame(finish="STOP")]
    )
    assert answer.done.content == (Text("a"),)
