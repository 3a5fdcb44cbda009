"""The Chat Completions wire's stream, decoded."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.kernel.model import ModelRequest
from ostler.models.answer import AnswerDecoder, OpenBlock
from ostler.models.chat_messages import WIRE
from ostler.models.chat_tool_calls import CallDelta, OpenCalls
from ostler.models.failures import error_in_stream
from ostler.models.settings import Prices
from ostler.models.sse import Frame
from ostler.vocabulary.messages import Opaque, StopReason
from ostler.vocabulary.usage import Usage

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end",
    "eos": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "model_length": "length",
    "content_filter": "refusal",
}
_BROKEN_OFF = {"error": "server_error", "insufficient_system_resource": "overloaded_error"}
"""Reasons to finish that are failures, and what others call such a failure."""


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _Cost(msgspec.Struct, gc=False):
    total_cost: float | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | _Cost | None = None


class _Source(msgspec.Struct, gc=False):
    url: str | None = None
    title: str | None = None


class _Annotation(msgspec.Struct, gc=False):
    url_citation: _Source | None = None


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
    annotations: list[_Annotation] | None = None


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
    search_results: list[_Source] | None = None
    citations: list[str | _Source] | None = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class ChatDecoder(AnswerDecoder):
    """See `Decoder`."""

    def __init__(self, request: ModelRequest, provider: str, model: str, prices: Prices | None) -> None:
        super().__init__(request, provider, model, prices)
        self._open: OpenBlock | None = None
        """The text or reasoning that goes on until something else comes."""
        self._calls = OpenCalls(self._answer)
        self._details: list[dict[str, Any]] = []
        self._usage: _Usage | None = None
        self._refused = False

    def _reported(self) -> Usage | None:
        reported = self._usage
        if reported is None or (reported.prompt_tokens is None and reported.completion_tokens is None):
            return None
        return _usage(reported)

    def _cut(self) -> bool:
        return self._stop_reason is None and not (self.finished and self._answer.blocks)

    def _complete(self) -> None:
        self._keep_details()
        if self._refused:
            self._stop_reason = "refusal"
        elif self._stop_reason in (None, "end", "tool_calls"):
            self._stop_reason = "tool_calls" if self._answer.has_calls() else "end"

    def _take(self, frames: list[Frame]) -> None:
        for _, data in frames:
            if data == b"[DONE]":
                self.finished = True
                self._calls.close()
            if self.finished or not data:
                continue
            chunk = _decode_chunk(data)
            if chunk.error:
                raise error_in_stream(self._provider, chunk.error, request_id=self.request_id)
            choices = chunk.choices
            if choices:
                choice = choices[0]
                if choice.delta is not None:
                    self._delta(choice.delta)
                if choice.finish_reason is not None:
                    self._finish(choice)
            if chunk.usage is not None or self._stop_reason is not None or not choices:
                self._account(chunk)
            if not self._model and chunk.model:
                self._model = chunk.model
                self.request_id = self.request_id or chunk.id or ""

    def _finish(self, choice: _Choice) -> None:
        reason = choice.finish_reason or ""
        if reason in _BROKEN_OFF:
            error = {"type": _BROKEN_OFF[reason], "message": f"it ended with {reason!r}"}
            raise error_in_stream(self._provider, error, request_id=self.request_id)
        self._stop_reason = _STOP_REASONS.get(reason, "other")
        self._calls.close()
        if choice.usage is not None:
            self._usage = choice.usage

    def _account(self, chunk: _Chunk) -> None:
        """What comes with the end of an answer; some servers repeat it with every chunk."""
        if chunk.usage is not None:
            self._usage = chunk.usage
        self._cite([*(chunk.search_results or ()), *(chunk.citations or ())])

    def _delta(self, delta: _Delta) -> None:
        if delta.reasoning_content:
            self._reason(delta.reasoning_content, "reasoning_content")
        elif delta.reasoning:
            self._reason(delta.reasoning, "reasoning")
        if delta.reasoning_details:
            self._details += delta.reasoning_details
        content, block = delta.content, self._open
        if content:
            if not isinstance(content, str):
                self._parts(content)
            elif block is not None and block.kind == "text":
                self._answer.add(block, content)
            else:
                self._text(content)
        if delta.tool_calls:
            self._open = None
            for call in delta.tool_calls:
                self._calls.take(call)
        if delta.refusal:
            self._refused = True
            self._text(delta.refusal)
        if delta.annotations:
            self._cite([note.url_citation for note in delta.annotations if note.url_citation])

    def _text(self, text: str) -> None:
        block = self._open
        if block is None or block.kind != "text":
            block = self._open = self._answer.begin("text")
        self._answer.add(block, text)

    def _reason(self, text: str, field: str) -> None:
        block = self._open
        if block is None or block.kind != "reasoning":
            block = self._open = self._answer.begin("reasoning")
            if field:
                block.opaque = Opaque(WIRE, {"provider": self._provider, "field": field})
        self._answer.add(block, text)

    def _parts(self, parts: list[_Part]) -> None:
        for part in parts:
            thinking = part.thinking
            if not isinstance(thinking, str):
                thinking = "".join(inner.text for inner in thinking)
            if thinking:
                self._reason(thinking, "")
            if part.text:
                self._text(part.text)

    def _cite(self, sources: list[str | _Source]) -> None:
        for source in sources:
            if isinstance(source, str):
                source = _Source(url=source)
            if source.url:
                self._answer.cite(url=source.url, title=source.title or "")

    def _keep_details(self) -> None:
        """Details may come after the reasoning that they belong to; the first block carries them all."""
        if not self._details:
            return
        blocks = [block for block in self._answer.blocks if block.kind == "reasoning"]
        block = blocks[0] if blocks else self._answer.begin("reasoning")
        data = block.opaque.data if block.opaque else {"provider": self._provider}
        block.opaque = Opaque(WIRE, data | {"details": _joined(self._details)})


def _usage(reported: _Usage) -> Usage:
    prompt, completion = reported.prompt_tokens or 0, reported.completion_tokens or 0
    details = reported.prompt_tokens_details or _PromptDetails()
    read = details.cached_tokens or reported.prompt_cache_hit_tokens or reported.cached_tokens or 0
    written = details.cache_write_tokens or 0
    # A server that does not count cached tokens into the prompt would give a negative number.
    fresh = prompt - read - written if prompt >= read + written else prompt
    thought = (reported.completion_tokens_details or _CompletionDetails()).reasoning_tokens or 0
    if thought and reported.total_tokens == prompt + completion + thought:
        completion += thought  # which not every server counts as a part of its answer
    cost = reported.cost
    return Usage(
        input_tokens=fresh,
        output_tokens=completion,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=thought,
        cost=cost.total_cost if isinstance(cost, _Cost) else cost,
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
