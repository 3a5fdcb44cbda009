"""Decodes the stream of the Gemini wire."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ostler.models.sse import Frame
from ostler.models.wires.decoder import AnswerDecoder, OpenBlock
from ostler.models.wires.gemini import WIRE
from ostler.schema.messages import Image, Opaque, StopReason
from ostler.schema.usage import Usage

_REFUSALS = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"}
    | {"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}
)

_STOP_REASONS: dict[str, StopReason] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(_REFUSALS, "refusal"),
}

_UNUSABLE = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"})
"""The vendor could not parse its model's output, and has discarded it."""


class _Wire(msgspec.Struct, gc=False, rename="camel"):
    pass


class _Blob(_Wire):
    mime_type: str = ""
    data: str = ""


class _FunctionCall(_Wire):
    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw()


class _Part(_Wire):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None
    inline_data: _Blob | None = None


class _Content(_Wire):
    parts: list[_Part] | None = None


class _Source(_Wire):
    uri: str | None = None
    title: str | None = None


class _GroundingChunk(_Wire):
    web: _Source | None = None
    retrieved_context: _Source | None = None
    maps: _Source | None = None


class _Grounding(_Wire):
    grounding_chunks: list[_GroundingChunk] | None = None


class _Citations(_Wire):
    citation_sources: list[_Source] | None = None
    citations: list[_Source] | None = None


class _Candidate(_Wire):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    grounding_metadata: _Grounding | None = None
    citation_metadata: _Citations | None = None


class _PromptFeedback(_Wire):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Usage(_Wire):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class _ModelStatus(_Wire):
    message: str | None = None


class _Chunk(_Wire):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _PromptFeedback | None = None
    usage_metadata: _Usage | None = None
    model_version: str | None = None
    response_id: str | None = None
    model_status: _ModelStatus | None = None
    error: Any = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class GeminiDecoder(AnswerDecoder):
    """The wire has no final event: the answer ends with the body, after a reason to stop."""

    def _configure(self) -> None:
        self._open: OpenBlock | None = None
        self._usage: _Usage | None = None
        self._warned: set[str] = set()

    def _cut(self) -> bool:
        return self._stop_reason is None

    def _reported(self) -> Usage | None:
        usage = self._usage
        if usage is None:
            return None
        cached = usage.cached_content_token_count or 0
        thoughts = usage.thoughts_token_count or 0
        fresh = (usage.prompt_token_count or 0) - cached + (usage.tool_use_prompt_token_count or 0)
        return Usage(
            input_tokens=max(0, fresh),
            output_tokens=(usage.candidates_token_count or 0) + thoughts,
            cache_read_tokens=cached,
            reasoning_tokens=thoughts,
        )

    def _take(self, frames: list[Frame]) -> None:
        for _, data in frames:
            if data and not self.finished:
                self._chunk(_decode_chunk(data))

    def _chunk(self, chunk: _Chunk) -> None:
        if chunk.usage_metadata is not None:
            self._usage = chunk.usage_metadata
        if not self._model:
            self._model = chunk.model_version or ""
            self.request_id = self.request_id or chunk.response_id or ""
        if chunk.candidates:
            self._candidate(chunk.candidates[0])
        if chunk.error is not None:
            raise self.vendor_error(chunk.error)
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._stop_reason = "refusal"
            detail = chunk.prompt_feedback.block_reason_message
            self._warn(f"{self._provider} refused the prompt", chunk.prompt_feedback.block_reason, detail)
        if chunk.model_status is not None and chunk.model_status.message:
            self._warn(chunk.model_status.message)

    def _candidate(self, candidate: _Candidate) -> None:
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                self._part(part)
        if candidate.grounding_metadata is not None:
            for chunk in candidate.grounding_metadata.grounding_chunks or ():
                self._cite(chunk.web or chunk.retrieved_context or chunk.maps or _Source())
        if candidate.citation_metadata is not None:
            citations = candidate.citation_metadata
            for source in citations.citation_sources or citations.citations or ():
                self._cite(source)
        if candidate.finish_reason:
            self._stop(candidate.finish_reason, candidate.finish_message)
        if self._stop_reason == "end" and self._answer.has_calls():
            self._stop_reason = "tool_calls"

    def _part(self, part: _Part) -> None:
        if part.function_call is not None:
            self._call(part.function_call, part.thought_signature)
        elif part.inline_data is not None:
            if part.inline_data.mime_type.startswith("image/") and not part.thought:
                self._open = None
                self._answer.put(Image(part.inline_data.mime_type, part.inline_data.data))
        elif part.text or part.thought_signature:
            self._prose("reasoning" if part.thought else "text", part.text or "", part.thought_signature)

    def _prose(self, kind: Literal["text", "reasoning"], text: str, signature: str | None) -> None:
        block = self._open
        if block is None or block.kind != kind:
            block = self._open = self._answer.begin(kind)
        begin = block.offset
        if text:
            self._answer.add(block, text)
        if signature:
            block.opaque = block.opaque or Opaque(WIRE, {"signatures": []})
            block.opaque.data["signatures"].append([begin, block.offset, signature])

    def _call(self, call: _FunctionCall, signature: str | None) -> None:
        self._open = None
        block = self._answer.begin_call(call.id or "", call.name or "")
        if signature:
            block.opaque = Opaque(WIRE, {"signature": signature})
        arguments = bytes(call.args).decode()
        self._answer.end_call(block, "{}" if arguments in ("", "null") else arguments)

    def _cite(self, source: _Source) -> None:
        if source.uri:
            self._answer.cite(source.uri, source.title or "")

    def _stop(self, reason: str, detail: str | None) -> None:
        if reason in _UNUSABLE:
            raise self._broken(f"is unusable ({reason}: {detail})" if detail else f"is unusable ({reason})")
        self._stop_reason = _STOP_REASONS.get(reason, "other")
        if self._stop_reason in ("refusal", "other"):
            self._warn(f"{self._provider} stopped the answer", reason, detail)

    def _warn(self, text: str, reason: str = "", detail: str | None = None) -> None:
        text = f"{text} ({reason}: {detail})" if detail else f"{text} ({reason})" if reason else text
        if text not in self._warned:
            self._warned.add(text)
            self._answer.warn(text)
