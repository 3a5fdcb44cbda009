"""The Messages wire's stream, decoded."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.kernel.model import ModelDone, ModelEvent, ModelFailure, ModelRequest
from ostler.models.anthropic_messages import WIRE
from ostler.models.call_ids import CallIds
from ostler.models.failures import error_in_stream
from ostler.models.settings import Prices
from ostler.models.sse import Frame, SseSplitter
from ostler.vocabulary.errors import ModelError, StreamBroken, failure_of
from ostler.vocabulary.events import (
    ReasoningDelta,
    TextDelta,
    ToolInputDelta,
    ToolInputEnded,
    ToolInputStarted,
    Warned,
)
from ostler.vocabulary.messages import Block, Opaque, Reasoning, StopReason, Text, ToolCall
from ostler.vocabulary.usage import UNKNOWN_USAGE, Usage

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
}


class _Details(msgspec.Struct, gc=False):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _Details | None = None


class _Message(msgspec.Struct, gc=False):
    id: str = ""
    model: str = ""
    usage: _Usage | None = None


class _MessageStart(msgspec.Struct, gc=False):
    message: _Message


class _StartedBlock(msgspec.Struct, gc=False):
    type: str
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] | None = None


class _BlockStart(msgspec.Struct, gc=False):
    index: int
    content_block: _StartedBlock


class _Fragment(msgspec.Struct, gc=False):
    """Any of the deltas of a block: which field is present says which."""

    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None


class _BlockDelta(msgspec.Struct, gc=False):
    index: int
    delta: _Fragment


class _BlockStop(msgspec.Struct, gc=False):
    index: int


class _StopDetails(msgspec.Struct, gc=False):
    explanation: str | None = None


class _Stop(msgspec.Struct, gc=False):
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _MessageDelta(msgspec.Struct, gc=False):
    delta: _Stop
    usage: _Usage | None = None


class _Error(msgspec.Struct, gc=False):
    error: Any = None


class _Nameless(msgspec.Struct, gc=False):
    type: str = ""


_decode_message_start = msgspec.json.Decoder(_MessageStart).decode
_decode_block_start = msgspec.json.Decoder(_BlockStart).decode
_decode_block_delta = msgspec.json.Decoder(_BlockDelta).decode
_decode_block_stop = msgspec.json.Decoder(_BlockStop).decode
_decode_message_delta = msgspec.json.Decoder(_MessageDelta).decode
_decode_error = msgspec.json.Decoder(_Error).decode
_decode_nameless = msgspec.json.Decoder(_Nameless).decode


class _OpenBlock:
    """A block of the answer. `number` is its place among those that are kept, once it has one."""

    __slots__ = ("call", "input", "kind", "name", "number", "offset", "opaque", "parts")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.number = -1
        self.offset = 0
        self.parts: list[str] = []
        self.call = ""
        self.name = ""
        self.input: dict[str, Any] | None = None
        self.opaque: dict[str, str] | None = None


class AnthropicDecoder:
    """See `Decoder`."""

    def __init__(self, request: ModelRequest, provider: str, model: str, prices: Prices | None) -> None:
        self.finished = False
        self.request_id = ""
        self._message = request.id
        self._provider = provider
        self._asked_model = model
        self._prices = prices
        self._ids = CallIds(request.transcript)
        self._splitter = SseSplitter()
        self._open: dict[int, _OpenBlock] = {}
        self._kept: list[_OpenBlock] = []
        self._model = ""
        self._usage: Usage | None = None
        self._stop_reason: StopReason | None = None

    def feed(self, data: bytes) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        try:
            self._take(self._splitter.feed(data), events)
        except msgspec.DecodeError as error:
            self._fail(self._malformed(error), events)
        except ModelError as error:
            self._fail(error, events)
        return events

    def end(self) -> ModelEvent:
        events: list[ModelEvent] = []
        try:
            self._take(self._splitter.flush(), events)
        except msgspec.DecodeError:
            self._fail(self._broken("was cut in the middle of a frame"), events)
        if not self.finished:
            self._fail(self._broken("was cut before its end"), events)
        if events and isinstance(events[-1], ModelFailure):
            return events[-1]
        return ModelDone(
            content=tuple(map(_closed, self._kept)),
            stop_reason=self._stop_reason or "other",
            usage=self.usage(),
            model="" if self._model == self._asked_model else self._model,
            request_id=self.request_id,
        )

    def usage(self) -> Usage:
        if self._usage is None:
            return UNKNOWN_USAGE
        if self._prices is None:
            return self._usage
        return msgspec.structs.replace(self._usage, cost=self._prices.cost(self._usage))

    def _take(self, frames: list[Frame], events: list[ModelEvent]) -> None:
        for name, data in frames:
            if name == b"content_block_delta":
                self._delta(_decode_block_delta(data), events)
            elif self.finished or not data:
                continue
            else:
                self._other(name or _decode_nameless(data).type.encode(), data, events)

    def _delta(self, frame: _BlockDelta, events: list[ModelEvent]) -> None:
        block = self._open.get(frame.index)
        if block is None:
            return
        fragment = frame.delta
        if fragment.text:
            if block.number < 0:
                self._keep(block)
            text = fragment.text
            events.append(TextDelta(self._message, block.number, block.offset, text))
        elif fragment.partial_json:
            text = fragment.partial_json
            events.append(ToolInputDelta(self._message, block.number, block.call, block.offset, text))
        elif fragment.thinking:
            text = fragment.thinking
            events.append(ReasoningDelta(self._message, block.number, block.offset, text))
        else:
            if fragment.signature and block.kind == "thinking":
                signature = (block.opaque or {}).get("signature", "") + fragment.signature
                block.opaque = {"type": "thinking", "signature": signature}
            return
        block.offset += len(text)
        block.parts.append(text)

    def _other(self, name: bytes, data: bytes, events: list[ModelEvent]) -> None:
        if name == b"content_block_delta":
            self._delta(_decode_block_delta(data), events)
        elif name == b"content_block_start":
            self._start(_decode_block_start(data), events)
        elif name == b"content_block_stop":
            self._stop(_decode_block_stop(data).index, events)
        elif name == b"message_start":
            message = _decode_message_start(data).message
            self._model = message.model
            self.request_id = self.request_id or message.id
            self._count(message.usage)
        elif name == b"message_delta":
            self._message_delta(_decode_message_delta(data), events)
        elif name == b"message_stop":
            self.finished = True
        elif name == b"error":
            error = _decode_error(data).error
            self._fail(error_in_stream(self._provider, error, request_id=self.request_id), events)

    def _start(self, frame: _BlockStart, events: list[ModelEvent]) -> None:
        started = frame.content_block
        block = _OpenBlock(started.type)
        first = _Fragment()
        if started.type == "tool_use":
            self._keep(block)
            block.call, block.name = self._ids.unique(started.id), started.name
            block.input = started.input
            events.append(ToolInputStarted(self._message, block.number, block.call, block.name))
        elif started.type == "thinking":
            self._keep(block)
            if started.signature:
                block.opaque = {"type": "thinking", "signature": started.signature}
            first.thinking = started.thinking
        elif started.type == "redacted_thinking":
            self._keep(block)
            block.opaque = {"type": "redacted_thinking", "data": started.data}
        elif started.type == "text":
            first.text = started.text
        else:
            return
        self._open[frame.index] = block
        if first.text or first.thinking:
            self._delta(_BlockDelta(frame.index, first), events)

    def _stop(self, index: int, events: list[ModelEvent]) -> None:
        block = self._open.pop(index, None)
        if block is None or block.kind != "tool_use":
            return
        if not block.parts:
            # Others who speak this wire give the whole input with the start of its block.
            text = msgspec.json.encode(block.input or {}).decode()
            block.parts.append(text)
            events.append(ToolInputDelta(self._message, block.number, block.call, 0, text))
        events.append(ToolInputEnded(self._message, block.number, block.call))

    def _message_delta(self, frame: _MessageDelta, events: list[ModelEvent]) -> None:
        self._count(frame.usage)
        stop = frame.delta
        if stop.stop_reason is not None:
            self._stop_reason = _STOP_REASONS.get(stop.stop_reason, "other")
        if stop.stop_details is not None and stop.stop_details.explanation:
            events.append(Warned(stop.stop_details.explanation, call=self._message))

    def _keep(self, block: _OpenBlock) -> None:
        block.number = len(self._kept)
        self._kept.append(block)

    def _count(self, usage: _Usage | None) -> None:
        """Counts are cumulative: a later one replaces an earlier one, and an absent one does not."""
        if usage is None:
            return
        counts = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_input_tokens,
            "cache_write_tokens": usage.cache_creation_input_tokens,
            "reasoning_tokens": usage.output_tokens_details and usage.output_tokens_details.thinking_tokens,
        }
        known = {name: count for name, count in counts.items() if count is not None}
        self._usage = msgspec.structs.replace(self._usage or Usage(), **known)

    def _fail(self, error: ModelError, events: list[ModelEvent]) -> None:
        self.finished = True
        events.append(ModelFailure(failure_of(error), self.usage()))

    def _malformed(self, error: msgspec.DecodeError) -> ModelError:
        return self._broken(f"holds a frame that is not what the wire promises ({error})")

    def _broken(self, what: str) -> ModelError:
        return StreamBroken(
            f"the answer of {self._provider} {what}; try again",
            request_id=self.request_id,
            stream_opened=True,
        )


def _closed(block: _OpenBlock) -> Block:
    text = "".join(block.parts)
    if block.kind == "tool_use":
        return ToolCall(block.call, block.name, text or "{}")
    if block.kind == "text":
        return Text(text)
    return Reasoning(text, Opaque(WIRE, block.opaque) if block.opaque else None)
