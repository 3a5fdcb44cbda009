"""Decodes the stream of the Messages wire."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.models.sse import Frame
from ostler.models.wires.anthropic import WIRE
from ostler.models.wires.decoder import AnswerDecoder, OpenBlock
from ostler.schema.messages import Opaque, StopReason
from ostler.schema.usage import Usage

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
}


class _CacheCreation(msgspec.Struct, gc=False):
    ephemeral_5m_input_tokens: int = 0
    ephemeral_1h_input_tokens: int = 0


class _Details(msgspec.Struct, gc=False):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None
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


class _Citation(msgspec.Struct, gc=False):
    """A place on the web or in a search result, or in a document of the request."""

    url: str | None = None
    source: str | None = None
    title: str | None = None
    document_title: str | None = None
    document_index: int | None = None
    file_id: str | None = None


class _Fragment(msgspec.Struct, gc=False):
    """Any of the deltas of a block: which field is present says which."""

    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: _Citation | None = None


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


class AnthropicDecoder(AnswerDecoder):
    def _configure(self) -> None:
        self._open: dict[int, OpenBlock] = {}
        self._empty: set[int] = set()
        """Text blocks without text so far: one that stays empty is not part of the answer."""
        self._texts: dict[int, OpenBlock] = {}
        """The block that each text block belongs to, also after its end."""
        self._inputs: dict[int, dict[str, Any]] = {}
        self._usage: Usage | None = None

    def _reported(self) -> Usage | None:
        return self._usage

    def _take(self, frames: list[Frame]) -> None:
        for name, data in frames:
            if name == b"content_block_delta":
                # Nearly all frames are of this kind, so the common case is handled here.
                frame = _decode_block_delta(data)
                fragment = frame.delta
                text = fragment.text or fragment.partial_json
                block = self._open.get(frame.index)
                if text and block is not None:
                    self._answer.add(block, text)
                else:
                    self._delta(frame)
            elif self.finished or not data:
                continue
            else:
                self._other(name or _decode_nameless(data).type.encode(), data)

    def _delta(self, frame: _BlockDelta) -> None:
        fragment = frame.delta
        block = self._open.get(frame.index)
        if block is None:
            if frame.index not in self._empty:
                return
            if not fragment.text:
                self._cite(fragment.citation)
                return
            self._empty.discard(frame.index)
            # An answer with citations has a block for each citation, split in the middle of sentences.
            block = self._texts.get(frame.index - 1) or self._answer.begin("text")
            self._open[frame.index] = self._texts[frame.index] = block
        text = fragment.text or fragment.partial_json or fragment.thinking
        if text:
            self._answer.add(block, text)
        elif block.kind == "text":
            self._cite(fragment.citation)
        elif fragment.signature and block.kind == "reasoning":
            _sign(block, fragment.signature)

    def _cite(self, citation: _Citation | None) -> None:
        if citation is None:
            return
        number = "" if citation.document_index is None else str(citation.document_index)
        self._answer.cite(
            url=citation.url or citation.source or "",
            title=citation.title or citation.document_title or "",
            id=citation.file_id or number,
        )

    def _other(self, name: bytes, data: bytes) -> None:
        if name == b"content_block_delta":
            self._delta(_decode_block_delta(data))
        elif name == b"content_block_start":
            self._start(_decode_block_start(data))
        elif name == b"content_block_stop":
            self._stop(_decode_block_stop(data).index)
        elif name == b"message_start":
            message = _decode_message_start(data).message
            self._model = message.model
            self.request_id = self.request_id or message.id
            self._count(message.usage)
        elif name == b"message_delta":
            self._message_delta(_decode_message_delta(data))
        elif name == b"message_stop":
            self.finished = True
            for index in [*self._open, *self._empty]:
                self._stop(index)
        elif name == b"error":
            error = _decode_error(data).error
            raise self.vendor_error(error)

    def _start(self, frame: _BlockStart) -> None:
        started, index = frame.content_block, frame.index
        self._stop(index)
        if started.type == "tool_use":
            self._open[index] = self._answer.begin_call(started.id, started.name)
            self._inputs[index] = started.input or {}
        elif started.type == "thinking":
            block = self._open[index] = self._answer.begin("reasoning")
            if started.signature:
                _sign(block, started.signature)
            if started.thinking:
                self._answer.add(block, started.thinking)
        elif started.type == "redacted_thinking":
            data = {"type": "redacted_thinking", "data": started.data}
            self._answer.begin("reasoning").opaque = Opaque(WIRE, data)
        elif started.type == "text":
            self._empty.add(index)
            if started.text:
                self._delta(_BlockDelta(index, _Fragment(text=started.text)))

    def _stop(self, index: int) -> None:
        self._empty.discard(index)
        block = self._open.pop(index, None)
        if block is not None and block.kind == "call":
            # Other servers of this wire send the whole input with the start of its block.
            self._answer.end_call(block, msgspec.json.encode(self._inputs.pop(index)).decode())

    def _message_delta(self, frame: _MessageDelta) -> None:
        self._count(frame.usage)
        stop = frame.delta
        if stop.stop_reason is not None:
            self._stop_reason = _STOP_REASONS.get(stop.stop_reason, "other")
        if stop.stop_details is not None and stop.stop_details.explanation:
            self._answer.warn(stop.stop_details.explanation)

    def _count(self, usage: _Usage | None) -> None:
        """Counts are cumulative: a later one replaces an earlier one."""
        if usage is None:
            return
        written, by_lifetime = usage.cache_creation_input_tokens, usage.cache_creation
        if written is None and by_lifetime is not None:
            written = by_lifetime.ephemeral_5m_input_tokens + by_lifetime.ephemeral_1h_input_tokens
        counts = {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_input_tokens,
            "cache_write_tokens": written,
            "reasoning_tokens": usage.output_tokens_details and usage.output_tokens_details.thinking_tokens,
        }
        reported = {name: count for name, count in counts.items() if count is not None}
        self._usage = msgspec.structs.replace(self._usage or Usage(), **reported)


def _sign(block: OpenBlock, more: str) -> None:
    signature = block.opaque.data["signature"] if block.opaque else ""
    block.opaque = Opaque(WIRE, {"type": "thinking", "signature": signature + more})
