"""Unusual answers of servers of the Messages wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ostler.core.model import ModelDone, ModelEvent, ModelFailure, ModelRequest
from ostler.core.transcript import Transcript
from ostler.models.wires.anthropic_stream import AnthropicDecoder
from ostler.schema.events import (
    SourceCited,
    TextDelta,
    ToolInputDelta,
    ToolInputEnded,
    ToolInputStarted,
    Warned,
)
from ostler.schema.messages import Text, ToolCall

STOP = {"type": "message_stop"}


def read(*frames: dict[str, Any]) -> tuple[list[ModelEvent], ModelEvent]:
    decoder = AnthropicDecoder(ModelRequest("mc_1", "m", Transcript()), "someone", "m", None)
    events = decoder.feed("".join(f"data: {json.dumps(frame)}\n\n" for frame in frames).encode())
    return events, events[-1] if events and isinstance(events[-1], ModelFailure) else decoder.end()[-1]


def decode(*frames: dict[str, Any]) -> tuple[list[ModelEvent], ModelDone]:
    events, last = read(*frames)
    assert isinstance(last, ModelDone), last
    return events, last


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def test_unknown_events_missing_names_and_a_whole_input_are_accepted() -> None:
    events, done = decode(
        {"type": "message_start", "message": {"id": "m", "model": "m", "usage": {"input_tokens": 2}}},
        {"type": "novelty", "x": 1},
        start(0, type="novel_block"),
        delta(0, type="novel_delta", x=1),
        stop(0),
        start(1, type="tool_use", id="", name="read", input={"p": 1}),
        stop(1),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        STOP,
    )
    (call,) = done.content
    assert isinstance(call, ToolCall) and call.id and call.arguments == '{"p":1}'
    assert [type(event) for event in events] == [ToolInputStarted, ToolInputDelta, ToolInputEnded]


def test_a_sentence_that_citations_cut_into_blocks_is_one_text() -> None:
    place = {"type": "web_search_result_location", "url": "https://example.org", "title": "Rain"}
    events, done = decode(
        start(0, type="text", text=""),
        delta(0, type="text_delta", text="They say that "),
        stop(0),
        start(1, type="text", text=""),
        delta(1, type="citations_delta", citation=place),
        delta(1, type="text_delta", text="it rains"),
        stop(1),
        start(2, type="text", text=", as ever."),
        stop(2),
        start(3, type="server_tool_use", id="s", name="web_search"),
        stop(3),
        start(4, type="text", text="And snows."),
        stop(4),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        STOP,
    )
    assert done.content == (Text("They say that it rains, as ever."), Text("And snows."))
    deltas = [(one.block, one.offset, one.text) for one in events if isinstance(one, TextDelta)]
    assert deltas == [
        (0, 0, "They say that "),
        (0, 14, "it rains"),
        (0, 22, ", as ever."),
        (1, 0, "And snows."),
    ]


def test_the_explanation_of_a_refusal_is_a_warning() -> None:
    details = {"type": "refusal", "explanation": "It touches on something."}
    events, done = decode(
        {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}, STOP
    )
    assert events == [Warned("It touches on something.", call="mc_1")]
    assert done.stop_reason == "refusal"


@pytest.mark.parametrize(
    ("citation", "cited"),
    [
        (
            {"type": "web_search_result_location", "url": "https://a.example", "title": "A"},
            SourceCited("mc_1", "https://a.example", "A"),
        ),
        (
            {"type": "search_result_location", "source": "https://a.example", "title": None},
            SourceCited("mc_1", "https://a.example"),
        ),
        (
            {"type": "page_location", "document_index": 1, "document_title": "Plan", "file_id": None},
            SourceCited("mc_1", title="Plan", id="1"),
        ),
        (
            {"type": "char_location", "document_index": 0, "document_title": None, "file_id": "file_1"},
            SourceCited("mc_1", id="file_1"),
        ),
    ],
)
def test_every_kind_of_citation_is_reported_once(citation: dict[str, Any], cited: SourceCited) -> None:
    cites = delta(0, type="citations_delta", citation=citation)
    events, done = decode(start(0, type="text", text=""), cites, delta(0, text="Yes."), cites, stop(0), STOP)
    assert [event for event in events if isinstance(event, SourceCited)] == [cited]
    assert done.content == (Text("Yes."),)


def test_an_empty_text_block_is_not_part_of_the_answer() -> None:
    _, done = decode(
        start(0, type="text", text=""),
        stop(0),
        start(1, type="text", text="Yes."),
        delta(1, text=" No."),
        STOP,
    )
    assert done.content == (Text("Yes. No."),)


def test_a_call_without_an_end_event_ends_with_the_message() -> None:
    events, done = decode(
        start(0, type="tool_use", id="c1", name="read", input={}), delta(0, partial_json="{"), STOP
    )
    assert done.content == (ToolCall("c1", "read", "{"),)
    assert events[-1] == ToolInputEnded("mc_1", 0, "c1")


def test_nothing_follows_an_error() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    events, last = read(start(0, type="text", text="A"), error, delta(0, text="B"), STOP)
    assert isinstance(last, ModelFailure) and last.failure.kind == "overloaded"
    assert events[-1] is last and len(events) == 2


def test_cache_writes_by_lifetime_are_summed() -> None:
    lifetimes = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 12}
    message = {"usage": {"input_tokens": 1, "cache_creation": lifetimes}}
    _, done = decode({"type": "message_start", "message": message}, STOP)
    assert done.usage.cache_write_tokens == 42
    message["usage"]["cache_creation_input_tokens"] = 40
    _, done = decode({"type": "message_start", "message": message}, STOP)
    assert done.usage.cache_write_tokens == 40
