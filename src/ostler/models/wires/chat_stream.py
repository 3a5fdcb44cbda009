"""Decodes the stream of the Chat Completions wire.

A tool call should have an index, and its id and name in its first delta. Servers omit the index or repeat one
for all calls; omit the id or send it later; repeat the name; send a call in one piece. All of these are
accepted.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.models.sse import Frame
from ostler.models.wires.chat import WIRE
from ostler.models.wires.decoder import AnswerBuilder, AnswerDecoder, OpenBlock
from ostler.schema.messages import Opaque, StopReason
from ostler.schema.usage import Usage


class FunctionDelta(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallDelta(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class _OpenCall:
    """`offered` is the server's id; `early` are the arguments that came before it had a block."""

    __slots__ = ("block", "early", "index", "name", "offered")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.offered = ""
        self.name = ""
        self.early: list[str] = []
        self.block: OpenBlock | None = None


class OpenCalls:
    """The calls of one answer. A call has a block once its id and its name are known."""

    def __init__(self, answer: AnswerBuilder) -> None:
        self._answer = answer
        self._calls: list[_OpenCall] = []

    def take(self, delta: CallDelta) -> None:
        function = delta.function or FunctionDelta()
        calls = self._calls
        is_usual = calls and not function.name and not delta.id and calls[-1].index == delta.index
        call = calls[-1] if is_usual else self._call_of(delta, function)
        if call is None:
            self._announce_all()
            call = _OpenCall(delta.index)
            calls.append(call)
        if call.block is None:
            call.offered = call.offered or delta.id or ""
            call.name = call.name or function.name or ""
            if call.offered and call.name:
                self._announce(call)
        text = function.arguments
        if not text:
            return
        if not isinstance(text, str):
            text = msgspec.json.encode(text).decode()
        if call.block is None:
            call.early.append(text)
        else:
            self._answer.add(call.block, text)

    def close(self) -> None:
        """Announces the calls that still lack an id, and ends every call."""
        self._announce_all()
        self._answer.end_calls()

    def _call_of(self, delta: CallDelta, function: FunctionDelta) -> _OpenCall | None:
        """The call that a delta continues; None if it begins one."""
        if delta.index is None:
            same_id = [call for call in self._calls if delta.id and call.offered == delta.id]
            candidates = same_id or self._calls
        else:
            candidates = [call for call in self._calls if call.index == delta.index]
        if not candidates:
            return None
        call = candidates[-1]
        if not function.name or not call.name:
            return call
        if delta.id and call.offered:
            return call if delta.id == call.offered else None
        # A second name without an id begins another call if this one is complete; else it is a repetition.
        return None if _is_whole(call.block.parts if call.block else call.early) else call

    def _announce_all(self) -> None:
        for call in self._calls:
            if call.block is None:
                self._announce(call)

    def _announce(self, call: _OpenCall) -> None:
        call.block = self._answer.begin_call(call.offered, call.name)
        if call.early:
            self._answer.add(call.block, "".join(call.early))


def _is_whole(parts: list[str]) -> bool:
    if not parts or not parts[-1].rstrip().endswith("}"):
        return False
    try:
        msgspec.json.decode("".join(parts))
    except msgspec.DecodeError:
        return False
    return True


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
"""Finish reasons that are failures, and the usual code of such a failure."""


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
    def _configure(self) -> None:
        self._open: OpenBlock | None = None
        """The text or reasoning that the next delta continues."""
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
        self._attach_details()
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
                raise self.vendor_error(chunk.error)
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
            raise self.vendor_error(error)
        self._stop_reason = _STOP_REASONS.get(reason, "other")
        self._calls.close()
        if choice.usage is not None:
            self._usage = choice.usage

    def _account(self, chunk: _Chunk) -> None:
        """Reads what comes at the end of an answer; some servers repeat it with every chunk."""
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

    def _attach_details(self) -> None:
        """The first reasoning block gets all details: they may come after the reasoning they belong to."""
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
        completion += thought  # not every server counts reasoning as part of its answer
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
    """Joins streamed reasoning details: neighbours of one type and index are one detail."""
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
