"""The Chat Completions wire's stream, decoded."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.kernel.model import ModelDone, ModelEvent, ModelFailure, ModelRequest
from ostler.models.chat_messages import WIRE
from ostler.models.chat_tool_calls import CallDelta, OpenCalls
from ostler.models.failures import error_in_stream
from ostler.models.settings import Prices
from ostler.models.sse import Frame, SseSplitter
from ostler.vocabulary.errors import ModelError, StreamBroken, failure_of
from ostler.vocabulary.events import ReasoningDelta, TextDelta
from ostler.vocabulary.messages import Block, Opaque, Reasoning, StopReason, Text
from ostler.vocabulary.usage import UNKNOWN_USAGE, Usage

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None


class _Part(msgspec.Struct, gc=False):
    """A part of a content that is a list: text, or thinking made of further parts."""

    text: str = ""
    thinking: list[_Part] | str = ""


class _Delta(msgspec.Struct, gc=False):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[CallDelta] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None


class _Chunk(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class _Prose:
    """Text or reasoning of the answer, closed by whatever comes between it and more of its kind."""

    __slots__ = ("field", "is_text", "number", "offset", "parts")

    def __init__(self, number: int, is_text: bool) -> None:
        self.number = number
        self.is_text = is_text
        self.offset = 0
        self.parts: list[str] = []
        self.field = ""


class ChatDecoder:
    """See `Decoder`."""

    def __init__(self, request: ModelRequest, provider: str, model: str, prices: Prices | None) -> None:
        self.finished = False
        self.request_id = ""
        self._message = request.id
        self._provider = provider
        self._asked_model = model
        self._prices = prices
        self._splitter = SseSplitter()
        self._blocks = 0
        self._prose: list[_Prose] = []
        self._open: _Prose | None = None
        self._details: list[dict[str, Any]] = []
        self._calls = OpenCalls(request)
        self._model = ""
        self._usage: _Usage | None = None
        self._stop_reason: StopReason | None = None
        self._refused = False

    def feed(self, data: bytes) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        try:
            self._take(self._splitter.feed(data), events)
        except msgspec.DecodeError as error:
            self._fail(self._broken(f"holds a frame that is not what the wire promises ({error})"), events)
        except ModelError as error:
            self._fail(error, events)
        return events

    def end(self) -> ModelEvent:
        events: list[ModelEvent] = []
        try:
            self._take(self._splitter.flush(), events)
        except msgspec.DecodeError:
            self._fail(self._broken("was cut in the middle of a frame"), events)
        if events and isinstance(events[-1], ModelFailure):
            return events[-1]
        if self._stop_reason is None and not (self.finished and (self._prose or self._calls)):
            self._fail(self._broken("was cut before its end"), events)
            return events[-1]
        return ModelDone(
            content=self._content(),
            stop_reason=self._reason_to_stop(),
            usage=self.usage(),
            model="" if self._model == self._asked_model else self._model,
            request_id=self.request_id,
        )

    def usage(self) -> Usage:
        reported = self._usage
        if reported is None or (reported.prompt_tokens is None and reported.completion_tokens is None):
            return UNKNOWN_USAGE
        usage = _usage(reported)
        if usage.cost is None and self._prices is not None:
            return msgspec.structs.replace(usage, cost=self._prices.cost(usage))
        return usage

    def _take(self, frames: list[Frame], events: list[ModelEvent]) -> None:
        for _, data in frames:
            if data == b"[DONE]":
                self.finished = True
                self._blocks = self._calls.close(self._blocks, events)
            if self.finished or not data:
                continue
            chunk = _decode_chunk(data)
            if chunk.choices:
                choice = chunk.choices[0]
                if choice.delta is not None:
                    self._delta(choice.delta, events)
                if choice.finish_reason is not None:
                    self._stop_reason = _STOP_REASONS.get(choice.finish_reason, "other")
                    self._blocks = self._calls.close(self._blocks, events)
                if choice.usage is not None:
                    self._usage = choice.usage
            if chunk.usage is not None:
                self._usage = chunk.usage
            if chunk.error:
                self._fail(error_in_stream(self._provider, chunk.error, request_id=self.request_id), events)
                return
            if not self._model and chunk.model:
                self._model = chunk.model
                self.request_id = self.request_id or chunk.id or ""

    def _delta(self, delta: _Delta, events: list[ModelEvent]) -> None:
        if delta.reasoning_content:
            self._reason(delta.reasoning_content, "reasoning_content", events)
        elif delta.reasoning:
            self._reason(delta.reasoning, "reasoning", events)
        if delta.reasoning_details:
            self._details += delta.reasoning_details
        content = delta.content
        if content:
            if isinstance(content, str):
                self._text(content, events)
            else:
                self._parts(content, events)
        if delta.tool_calls:
            self._open = None
            for call in delta.tool_calls:
                self._blocks = self._calls.take(call, self._blocks, events)
        if delta.refusal:
            self._refused = True
            self._text(delta.refusal, events)

    def _text(self, text: str, events: list[ModelEvent]) -> None:
        prose = self._open
        if prose is None or not prose.is_text:
            prose = self._begin(is_text=True)
        events.append(TextDelta(self._message, prose.number, prose.offset, text))
        prose.offset += len(text)
        prose.parts.append(text)

    def _reason(self, text: str, field: str, events: list[ModelEvent]) -> None:
        prose = self._open
        if prose is None or prose.is_text:
            prose = self._begin(is_text=False)
            prose.field = field
        events.append(ReasoningDelta(self._message, prose.number, prose.offset, text))
        prose.offset += len(text)
        prose.parts.append(text)

    def _parts(self, parts: list[_Part], events: list[ModelEvent]) -> None:
        for part in parts:
            thinking = part.thinking
            if not isinstance(thinking, str):
                thinking = "".join(inner.text for inner in thinking)
            if thinking:
                self._reason(thinking, "", events)
            if part.text:
                self._text(part.text, events)

    def _begin(self, *, is_text: bool) -> _Prose:
        prose = self._open = _Prose(self._blocks, is_text)
        self._prose.append(prose)
        self._blocks += 1
        return prose

    def _content(self) -> tuple[Block, ...]:
        if self._details and all(prose.is_text for prose in self._prose):
            self._begin(is_text=False)
        blocks: dict[int, Block] = self._calls.blocks()
        # Details may come after the reasoning that they belong to; one block carries them all.
        details = _joined(self._details)
        for prose in self._prose:
            text = "".join(prose.parts)
            if prose.is_text:
                blocks[prose.number] = Text(text)
                continue
            data = {"provider": self._provider, "field": prose.field, "details": details}
            data = {name: value for name, value in data.items() if value}
            blocks[prose.number] = Reasoning(text, Opaque(WIRE, data) if len(data) > 1 else None)
            details = []
        return tuple(block for _, block in sorted(blocks.items()))

    def _reason_to_stop(self) -> StopReason:
        if self._refused:
            return "refusal"
        reason = self._stop_reason or "end"
        if reason in ("end", "tool_calls"):
            return "tool_calls" if self._calls else "end"
        return reason

    def _fail(self, error: ModelError, events: list[ModelEvent]) -> None:
        self.finished = True
        events.append(ModelFailure(failure_of(error), self.usage()))

    def _broken(self, what: str) -> ModelError:
        return StreamBroken(
            f"the answer of {self._provider} {what}; try again",
            request_id=self.request_id,
            stream_opened=True,
        )


def _usage(reported: _Usage) -> Usage:
    prompt, completion = reported.prompt_tokens or 0, reported.completion_tokens or 0
    details = reported.prompt_tokens_details or _PromptDetails()
    read = details.cached_tokens or reported.prompt_cache_hit_tokens or reported.cached_tokens or 0
    written = details.cache_write_tokens or 0
    # A server that does not count cached tokens into the prompt would give a negative number.
    fresh = prompt - read - written if prompt >= read + written else prompt
    thought = reported.completion_tokens_details or _CompletionDetails()
    return Usage(
        input_tokens=fresh,
        output_tokens=completion,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=thought.reasoning_tokens or 0,
        cost=reported.cost,
    )


def _joined(fragments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Streamed pieces of reasoning details put together: neighbours of one type and index are one detail."""
    joined: list[dict[str, Any]] = []
    texts: list[dict[str, list[str]]] = []
    for fragment in fragments:
        key = (fragment.get("type"), fragment.get("index"))
        if not joined or key != (joined[-1].get("type"), joined[-1].get("index")):
            joined.append({})
            texts.append({})
        for name, value in fragment.items():
            if name in ("text", "summary") and isinstance(value, str):
                texts[-1].setdefault(name, []).append(value)
            elif value is not None or name not in joined[-1]:
                joined[-1][name] = value
    for detail, pieces in zip(joined, texts, strict=True):
        detail |= {name: "".join(parts) for name, parts in pieces.items()}
    return joined
