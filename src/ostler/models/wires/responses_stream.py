"""Decodes the stream of the Responses wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ostler.models.sse import Frame
from ostler.models.wires.decoder import AnswerDecoder, OpenBlock
from ostler.models.wires.responses import WIRE
from ostler.schema.messages import Opaque, StopReason
from ostler.schema.usage import Usage

_CUT_SHORT: dict[str, StopReason] = {"max_output_tokens": "length", "content_filter": "refusal"}


class _Delta(msgspec.Struct, gc=False):
    """A fragment, and its place: the item, and the part of the item."""

    delta: str = ""
    output_index: int = 0
    content_index: int = 0
    summary_index: int = 0


class _Annotation(msgspec.Struct, gc=False):
    url: str | None = None
    title: str | None = None
    file_id: str | None = None
    filename: str | None = None


class _AnnotationFrame(msgspec.Struct, gc=False):
    annotation: _Annotation | None = None


class _ItemFrame(msgspec.Struct, gc=False):
    item: msgspec.Raw = msgspec.Raw(b"{}")
    output_index: int = 0


class _Part(msgspec.Struct, gc=False):
    text: str | None = None
    refusal: str | None = None
    annotations: list[_Annotation] | None = None


class _MessageItem(msgspec.Struct, gc=False):
    content: list[_Part] | None = None
    phase: str | None = None


class _Called(msgspec.Struct, gc=False):
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None


class _Thought(msgspec.Struct, gc=False):
    id: str | None = None
    summary: list[dict[str, Any]] | None = None
    content: list[_Part] | None = None
    encrypted_content: str | None = None


class _InputDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None
    cost: float | None = None


class _Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class _Response(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None
    incomplete_details: _Incomplete | None = None
    error: Any = None
    output: msgspec.Raw = msgspec.Raw(b"[]")


class _ResponseFrame(msgspec.Struct, gc=False):
    response: _Response


class _Typed(msgspec.Struct, gc=False):
    type: str = ""


_decode_delta = msgspec.json.Decoder(_Delta).decode
_decode_annotation = msgspec.json.Decoder(_AnnotationFrame).decode
_decode_item = msgspec.json.Decoder(_ItemFrame).decode
_decode_message_item = msgspec.json.Decoder(_MessageItem).decode
_decode_called = msgspec.json.Decoder(_Called).decode
_decode_thought = msgspec.json.Decoder(_Thought).decode
_decode_response = msgspec.json.Decoder(_ResponseFrame).decode
_decode_output = msgspec.json.Decoder(list[msgspec.Raw] | None).decode
_decode_typed = msgspec.json.Decoder(_Typed).decode
_decode_anything = msgspec.json.Decoder().decode


class ResponsesDecoder(AnswerDecoder):
    """Blocks are found by the index of their item; text blocks also by the index of their part.

    The end of an item is authoritative: its deltas may be incomplete.
    """

    def _configure(self) -> None:
        self._prose: dict[tuple[str, int, int], OpenBlock] = {}
        self._calls: dict[int, OpenBlock] = {}
        self._thought_part = 0
        self._unknown: set[str] = set()
        self._refused = False
        self._usage: _Usage | None = None

    def _take(self, frames: list[Frame]) -> None:
        for name, data in frames:
            if self.finished:
                return
            if not data:
                continue
            reader = _READERS.get(name or _decode_typed(data).type.encode())
            if reader is not None:
                reader(self, data)

    def _reported(self) -> Usage | None:
        if self._usage is None:
            return None
        details = self._usage.input_tokens_details or _InputDetails()
        read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
        made = self._usage.output_tokens_details or _OutputDetails()
        return Usage(
            input_tokens=max(0, self._usage.input_tokens - read - written),
            output_tokens=self._usage.output_tokens,
            cache_read_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=made.reasoning_tokens or 0,
            cost=self._usage.cost,
        )

    def _text_delta(self, data: bytes) -> None:
        frame = _decode_delta(data)
        if frame.delta:
            self._answer.add(self._block("text", frame.output_index, frame.content_index), frame.delta)

    def _refusal_delta(self, data: bytes) -> None:
        self._refused = True
        self._text_delta(data)

    def _arguments_delta(self, data: bytes) -> None:
        frame = _decode_delta(data)
        block = self._calls.get(frame.output_index)
        if block is not None and frame.delta and not block.ended:
            self._answer.add(block, frame.delta)

    def _thought_delta(self, data: bytes) -> None:
        frame = _decode_delta(data)
        if not frame.delta:
            return
        block = self._block("reasoning", frame.output_index)
        part = frame.summary_index or frame.content_index
        if part != self._thought_part and block.parts:
            self._answer.add(block, "\n\n")
        self._thought_part = part
        self._answer.add(block, frame.delta)

    def _annotation(self, data: bytes) -> None:
        self._cite(_decode_annotation(data).annotation)

    def _item_added(self, data: bytes) -> None:
        frame = _decode_item(data)
        # Text and reasoning begin with their first fragment: an item may turn out to hold none.
        if _decode_typed(frame.item).type == "function_call":
            self._call(frame.output_index, _decode_called(frame.item))

    def _item_done(self, data: bytes) -> None:
        frame = _decode_item(data)
        self._end_item(frame.output_index, frame.item)

    def _end_item(self, index: int, item: msgspec.Raw) -> None:
        kind = _decode_typed(item).type
        if kind == "message":
            self._end_message(index, _decode_message_item(item))
        elif kind == "function_call":
            called = _decode_called(item)
            block = self._call(index, called)
            if not block.ended:
                self._fill(block, called.arguments or "")
                self._answer.end_call(block)
        elif kind == "reasoning":
            self._end_thought(index, _decode_thought(item))
        else:
            self._leave_out(kind)

    def _end_message(self, index: int, message_item: _MessageItem) -> None:
        for place, part in enumerate(message_item.content or ()):
            if part.refusal:
                self._refused = True
            text = part.text or part.refusal
            if text:
                block = self._block("text", index, place)
                self._fill(block, text)
                if message_item.phase:
                    block.opaque = self._own({"phase": message_item.phase})
            for annotation in part.annotations or ():
                self._cite(annotation)

    def _end_thought(self, index: int, thought: _Thought) -> None:
        summary = thought.summary or []
        texts = [str(part.get("text", "")) for part in summary]
        texts += [part.text or "" for part in thought.content or ()]
        text = "\n\n".join(filter(None, texts))
        if not text and not thought.encrypted_content:
            return
        block = self._block("reasoning", index)
        if text and not block.parts:
            self._answer.add(block, text)
        if thought.encrypted_content and thought.id:
            # Nothing more of the item is taken back: its status and its text are refused.
            reasoning = {"id": thought.id, "summary": summary, "encrypted_content": thought.encrypted_content}
            block.opaque = self._own(reasoning)

    def _leave_out(self, kind: str) -> None:
        # The reasoning that led to an item is refused without it.
        if self._answer.blocks and self._answer.blocks[-1].kind == "reasoning":
            self._answer.blocks[-1].opaque = None
        if kind not in self._unknown:
            self._unknown.add(kind)
            self._answer.warn(f"{self._provider} answered with an unsupported item: {kind or 'no type'}")

    def _progress(self, data: bytes) -> None:
        self._describe(_decode_response(data).response)

    def _end(self, data: bytes) -> None:
        response = _decode_response(data).response
        self._describe(response)
        if not self._answer.blocks:
            # A server that repeats another server's answer may send the items only here.
            for index, item in enumerate(_decode_output(response.output) or ()):
                self._end_item(index, item)
        self._answer.end_calls()
        self._stop_reason = self._reason_to_stop(response)
        self.finished = True

    def _failed(self, data: bytes) -> None:
        response = _decode_response(data).response
        self._describe(response)
        raise self.vendor_error(response.error)

    def _error(self, data: bytes) -> None:
        raise self.vendor_error(_decode_anything(data))

    def _untyped(self, data: bytes) -> None:
        """A gateway between the vendor and us may report errors in its own format."""
        value = _decode_anything(data)
        if isinstance(value, dict) and value.get("error"):
            raise self.vendor_error(value)

    def _describe(self, response: _Response) -> None:
        self._model = response.model or self._model
        self._usage = response.usage or self._usage
        self.request_id = self.request_id or response.id or ""

    def _reason_to_stop(self, response: _Response) -> StopReason:
        if response.incomplete_details is not None:
            return _CUT_SHORT.get(response.incomplete_details.reason or "", "other")
        if self._refused:
            return "refusal"
        return "tool_calls" if self._answer.has_calls() else "end"

    def _block(self, kind: Literal["text", "reasoning"], index: int, place: int = 0) -> OpenBlock:
        block = self._prose.get((kind, index, place))
        if block is None:
            block = self._prose[kind, index, place] = self._answer.begin(kind)
        return block

    def _call(self, index: int, called: _Called) -> OpenBlock:
        block = self._calls.get(index)
        if block is None:
            block = self._calls[index] = self._answer.begin_call(called.call_id or "", called.name or "")
        return block

    def _fill(self, block: OpenBlock, whole: str) -> None:
        """Adds what the deltas lack. If they differ from the whole, the whole counts."""
        streamed = "".join(block.parts)
        if not whole.startswith(streamed):
            block.parts = [whole or streamed]
        elif len(whole) > len(streamed):
            self._answer.add(block, whole[len(streamed) :])

    def _cite(self, annotation: _Annotation | None) -> None:
        if annotation is not None and (annotation.url or annotation.file_id):
            title = annotation.title or annotation.filename or ""
            self._answer.cite(annotation.url or "", title, annotation.file_id or "")

    def _own(self, fields: dict[str, Any]) -> Opaque:
        """Fields of an item that only its vendor understands.

        Encrypted reasoning is readable only where it was made. One item that is not makes the vendor refuse
        every later request of the session, so another model of the same provider does not get them either.
        """
        return Opaque(WIRE, {"provider": self._provider, "model": self._asked_model, "fields": fields})


_READERS: dict[bytes, Callable[[ResponsesDecoder, bytes], None]] = {
    b"response.output_text.delta": ResponsesDecoder._text_delta,
    b"response.function_call_arguments.delta": ResponsesDecoder._arguments_delta,
    b"response.reasoning_summary_text.delta": ResponsesDecoder._thought_delta,
    b"response.reasoning_text.delta": ResponsesDecoder._thought_delta,
    b"response.refusal.delta": ResponsesDecoder._refusal_delta,
    b"response.output_text.annotation.added": ResponsesDecoder._annotation,
    b"response.output_item.added": ResponsesDecoder._item_added,
    b"response.output_item.done": ResponsesDecoder._item_done,
    b"response.created": ResponsesDecoder._progress,
    b"response.in_progress": ResponsesDecoder._progress,
    b"response.completed": ResponsesDecoder._end,
    b"response.incomplete": ResponsesDecoder._end,
    b"response.failed": ResponsesDecoder._failed,
    b"error": ResponsesDecoder._error,
    b"": ResponsesDecoder._untyped,
}
