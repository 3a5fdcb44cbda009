"""Answers of servers of the Chat Completions wire that differ from OpenAI's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ostler.core.model import ModelDone, ModelEvent, ModelFailure, ModelRequest
from ostler.core.transcript import Transcript
from ostler.models.wires.chat import ChatModel
from ostler.models.wires.chat_stream import ChatDecoder
from ostler.schema.events import SourceCited, TextDelta, ToolInputDelta, ToolInputEnded, ToolInputStarted
from ostler.schema.messages import Message, Reasoning, Text, ToolCall, ToolResult, user
from ostler.schema.usage import UNKNOWN_USAGE


def read(
    *frames: dict[str, Any] | str, transcript: Transcript | None = None
) -> tuple[list[ModelEvent], ModelEvent]:
    request = ModelRequest("mc_1", "m", transcript or Transcript())
    decoder = ChatDecoder(request, "someone", "m", None)
    texts = (frame if isinstance(frame, str) else json.dumps(frame) for frame in frames)
    events = decoder.feed("".join(f"data: {text}\n\n" for text in texts).encode())
    return events, events[-1] if events and isinstance(events[-1], ModelFailure) else decoder.end()[-1]


def decode(
    *frames: dict[str, Any] | str, transcript: Transcript | None = None
) -> tuple[list[ModelEvent], ModelDone]:
    events, last = read(*frames, transcript=transcript)
    assert isinstance(last, ModelDone), last
    return events, last


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": fields, "finish_reason": finish}]}


def tool(
    index: int | None = None, id: str | None = None, name: str | None = None, args: Any = None
) -> dict[str, Any]:
    return delta(tool_calls=[{"index": index, "id": id, "function": {"name": name, "arguments": args}}])


END = delta("tool_calls")


def calls(done: ModelDone) -> list[tuple[str, str]]:
    return [(block.name, block.arguments) for block in done.content if isinstance(block, ToolCall)]


def ids(done: ModelDone) -> list[str]:
    return [block.id for block in done.content if isinstance(block, ToolCall)]


def test_arguments_before_the_id_are_buffered() -> None:
    events, done = decode(
        tool(0, None, "read", '{"a"'), tool(0, None, None, ":1"), tool(0, "c" * 24, None, "}"), END
    )
    assert events == [
        ToolInputStarted("mc_1", 0, "c" * 24, "read"),
        ToolInputDelta("mc_1", 0, "c" * 24, 0, '{"a":1'),
        ToolInputDelta("mc_1", 0, "c" * 24, 6, "}"),
        ToolInputEnded("mc_1", 0, "c" * 24),
    ]
    assert calls(done) == [("read", '{"a":1}')]


@pytest.mark.parametrize("missing", [None, ""])
def test_calls_without_ids_get_ids_of_their_own(missing: str | None) -> None:
    events, done = decode(tool(0, missing, "read", "{}"), tool(1, missing, "write", "{}"), END)
    assert calls(done) == [("read", "{}"), ("write", "{}")]
    assert len(set(ids(done))) == 2 and all(ids(done))
    assert [e.call for e in events if isinstance(e, ToolInputStarted)] == ids(done)


def test_a_call_without_an_id_keeps_its_place_before_one_that_has_one() -> None:
    events, done = decode(tool(0, None, "read", "{}"), tool(1, "a2", "write", "{}"), END)
    assert calls(done) == [("read", "{}"), ("write", "{}")]
    assert [event.name for event in events if isinstance(event, ToolInputStarted)] == ["read", "write"]


def test_two_calls_of_one_id_get_two_ids() -> None:
    _, done = decode(tool(0, "same", "read", "{}"), tool(1, "same", "read", "{}"), END)
    assert ids(done)[0] == "same" and ids(done)[1] not in ("", "same")


def test_an_id_that_an_earlier_answer_used_is_not_used_again() -> None:
    transcript = Transcript([user("Hi"), Message("assistant", (ToolCall("call_0", "read", "{}"),))])
    _, done = decode(tool(0, "call_0", "read", "{}"), END, transcript=transcript)
    assert ids(done) != ["call_0"]


def test_whole_calls_that_all_have_index_zero_are_several() -> None:
    _, done = decode(tool(0, "a1", "read", '{"p":1}'), tool(0, "a2", "read", '{"p":2}'), END)
    assert calls(done) == [("read", '{"p":1}'), ("read", '{"p":2}')]
    _, done = decode(tool(0, "", "read", '{"p":1}'), tool(0, "", "read", '{"p":2}'), END)
    assert calls(done) == [("read", '{"p":1}'), ("read", '{"p":2}')]


def test_calls_without_an_index_are_identified_by_their_ids() -> None:
    frames = (tool(None, "a1", "read", '{"p"'), tool(None, None, None, ":1}"))
    _, done = decode(*frames, tool(None, "a2", "write", "{}"), END)
    assert calls(done) == [("read", '{"p":1}'), ("write", "{}")]


def test_interleaved_calls_keep_their_own_arguments() -> None:
    frames = (
        tool(0, "a1", "read", "{"),
        tool(1, "a2", "write", "{"),
        tool(0, args='"x":0}'),
        tool(1, args="}"),
    )
    _, done = decode(*frames, END)
    assert calls(done) == [("read", '{"x":0}'), ("write", "{}")]


def test_a_name_and_an_id_repeated_with_every_delta_is_one_call() -> None:
    _, done = decode(
        tool(0, "a1", "read", '{"p":'), tool(0, "a1", "read", "{}"), tool(0, "a1", "read", "}"), END
    )
    assert calls(done) == [("read", '{"p":{}}')]


def test_arguments_may_be_an_object() -> None:
    _, done = decode(tool(0, "a1", "read", {"path": "x"}), END)
    assert calls(done) == [("read", '{"path":"x"}')]


def test_calls_count_with_any_finish_reason() -> None:
    _, done = decode(tool(0, "a1", "read", "{}"), delta("stop"), "[DONE]")
    assert done.stop_reason == "tool_calls"
    _, done = decode(delta(content="Hi"), delta("tool_calls"))
    assert done.stop_reason == "end"


def test_text_and_calls_keep_their_order() -> None:
    _, done = decode(delta(content="A"), tool(0, "a1", "read", "{}"), delta(content="B"), END)
    assert done.content == (Text("A"), ToolCall("a1", "read", "{}"), Text("B"))


def test_usage_may_stand_in_the_choice_and_may_bring_its_cost() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 3, "cost": 0.25}
    _, done = decode(
        delta(content="A"), {"choices": [{"delta": {}, "finish_reason": "stop", "usage": usage}]}
    )
    assert (done.usage.input_tokens, done.usage.cache_read_tokens, done.usage.cost) == (6, 3, 0.25)


def test_more_cached_than_prompt_tokens_do_not_make_a_negative_count() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 50}}
    _, done = decode(delta("stop", content="A"), {"choices": [], "usage": usage})
    assert done.usage.input_tokens == 5


def test_a_total_without_parts_is_not_split() -> None:
    _, done = decode(delta("stop", content="A"), {"choices": [], "usage": {"total_tokens": 12}})
    assert done.usage == UNKNOWN_USAGE


def test_a_refusal_is_text_and_a_reason_to_stop() -> None:
    _, done = decode(delta(refusal="I will "), delta("stop", refusal="not."))
    assert (done.content, done.stop_reason) == ((Text("I will not."),), "refusal")


def test_thinking_in_a_list_of_parts_is_reasoning() -> None:
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]
    _, done = decode(delta(content=thinking), delta("stop", content=[{"type": "text", "text": "Yes."}]))
    assert done.content == (Reasoning("Hm."), Text("Yes."))


def test_late_reasoning_details_are_joined_and_replayed() -> None:
    def part(text: str, **more: Any) -> dict[str, Any]:
        return {"type": "reasoning.text", "index": 0, "text": text, **more}

    _, done = decode(
        delta(reasoning="Let ", reasoning_details=[part("Let ", signature=None)]),
        delta(reasoning="me see", reasoning_details=[part("me see", signature="sig")]),
        tool(0, "a1", "read", "{}"),
        delta("tool_calls", reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "blob"}]),
    )
    transcript = Transcript(
        [Message("assistant", done.content), Message("tool", (ToolResult("a1", "read"),))]
    )
    body = json.loads(ChatModel("m", provider="someone").body(ModelRequest("mc", "m", transcript)))
    assert body["messages"][0]["reasoning"] == "Let me see"
    assert body["messages"][0]["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "Let me see", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "blob"},
    ]


def test_unknown_frames_and_fields_are_ignored() -> None:
    _, done = decode({"object": "novelty", "x": [1]}, delta("stop", content="A", mood="good"), "[DONE]")
    assert done.content == (Text("A"),)


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_the_size_of_the_reads_changes_nothing(size: int) -> None:
    frames = [
        delta(reasoning_content="Hm "),
        delta(content="Größe ✓"),
        tool(0, "a1", "read", '{"p":"é"}'),
        END,
    ]
    data = b": hello\r\n\r\n" + "".join(f"data: {json.dumps(frame)}\r\n\r\n" for frame in frames).encode()
    decoder = ChatDecoder(ModelRequest("mc_1", "m", Transcript()), "someone", "m", None)
    events = [event for i in range(0, len(data), size) for event in decoder.feed(data[i : i + size])]
    whole, done = decode(*frames)
    assert events == whole
    assert decoder.end()[-1] == done


def test_sources_in_chunks_are_reported_once_with_titles() -> None:
    sources = {
        "citations": ["https://a.example", "https://b.example"],
        "search_results": [{"title": "A", "url": "https://a.example", "date": None}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": {"total_cost": 0.5, "input": 0.1}},
    }
    events, done = decode(
        delta(content="It ") | sources, delta(content="rains.") | sources, delta("stop") | sources
    )
    assert [event for event in events if isinstance(event, SourceCited)] == [
        SourceCited("mc_1", "https://a.example", "A"),
        SourceCited("mc_1", "https://b.example"),
    ]
    assert done.usage.cost == 0.5


@pytest.mark.parametrize("citations", [["https://a.example"], [{"url": "https://a.example"}]])
def test_sources_may_come_only_with_the_last_chunk(citations: Any) -> None:
    events, _ = decode(delta("stop", content="Yes."), {"choices": [], "citations": citations}, "[DONE]")
    assert events[-1] == SourceCited("mc_1", "https://a.example")


def test_annotations_of_other_kinds_are_ignored() -> None:
    notes = [{"type": "file_citation", "file_id": "f"}, {"type": "url_citation", "url_citation": {"url": ""}}]
    events, _ = decode(delta("stop", content="Yes.", annotations=notes))
    assert not any(isinstance(event, SourceCited) for event in events)


@pytest.mark.parametrize(("total", "output"), [(160, 50), (130, 20), (None, 20)])
def test_reasoning_that_is_not_counted_in_the_answer_is_added_to_it(total: int | None, output: int) -> None:
    usage = {"prompt_tokens": 110, "completion_tokens": 20, "total_tokens": total}
    usage["completion_tokens_details"] = {"reasoning_tokens": 30}  # type: ignore[assignment]
    _, done = decode(delta("stop", content="A"), {"choices": [], "usage": usage})
    assert (done.usage.output_tokens, done.usage.reasoning_tokens) == (output, 30)


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (delta("insufficient_system_resource"), "overloaded"),
        (delta("error"), "server_failed"),
        ({**delta("error"), "error": {"code": 401, "message": "who?"}}, "authentication_failed"),
    ],
)
def test_an_answer_that_ends_with_an_error_is_a_failure(frame: dict[str, Any], kind: str) -> None:
    events, last = read(delta(content="It was a"), frame, delta(content="more"), "[DONE]")
    assert isinstance(last, ModelFailure) and last.failure.kind == kind
    assert events[-1] is last and last.failure.stream_opened


@pytest.mark.parametrize(
    ("word", "reason"),
    [("eos", "end"), ("model_length", "length"), ("content_filter", "refusal"), ("x", "other")],
)
def test_finish_reasons_of_other_servers_are_mapped(word: str, reason: str) -> None:
    assert decode(delta(word, content="A"))[1].stop_reason == reason


def test_a_last_frame_without_its_blank_line_is_streamed_too() -> None:
    decoder = ChatDecoder(ModelRequest("mc_1", "m", Transcript()), "acme", "x", None)
    decoder.feed(b'data: {"choices":[{"delta":{"content":"head"}}]}\n\n')
    decoder.feed(b'data: {"choices":[{"delta":{"content":" tail"},"finish_reason":"stop"}]}')
    *deltas, done = decoder.end()
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == [" tail"]
    assert isinstance(done, ModelDone) and done.content == (Text("head tail"),)
