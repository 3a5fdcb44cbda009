"""OpenAI's Chat Completions API: what it streams, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ostler.schema.messages import StopReason
from ostler.schema.usage import Usage
from ostler.testkit.vendors.script import Call, Cite, Refusal, Think, Turn, is_json_object, prompt_tokens

PATH = re.compile(r"/v1/chat/completions")
MALFORMED = b"data: {this is no JSON\n\n"

_STOP_REASONS: dict[StopReason, str] = {
    "end": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "stop_sequence": "stop",
    "refusal": "content_filter",
}

_IMAGE_DATA = tuple(f"data:image/{kind};base64," for kind in ("jpeg", "png", "gif", "webp"))
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def frames(turn: Turn, request: dict[str, Any], number: int) -> Iterator[bytes]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _frame({**head, "choices": [choice]})

    head = {
        "id": f"chatcmpl-{number:04d}",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": request["model"],
    }
    yield chunk({"role": "assistant", "content": ""})
    calls = 0
    for part in turn.blocks:
        if isinstance(part, Call):
            call_id = part.id or f"call_{number:04d}_{calls}"
            yield from map(chunk, _call_deltas(part, calls, call_id))
            calls += 1
        elif isinstance(part, Think):
            yield from (chunk({"reasoning_content": piece}) for piece in part.pieces)
        elif isinstance(part, Cite):
            source = {"url": part.url, "title": part.title, "start_index": 0, "end_index": 1}
            yield chunk({"annotations": [{"type": "url_citation", "url_citation": source}]})
        else:
            yield from (chunk({"content": piece}) for piece in part.pieces)
    yield chunk({}, _STOP_REASONS.get(turn.stop_reason, "stop"))
    if turn.usage is not None and (request.get("stream_options") or {}).get("include_usage"):
        yield _frame({**head, "choices": [], "usage": _usage(turn.usage)})
    yield b"data: [DONE]\n\n"


def _call_deltas(part: Call, index: int, call_id: str) -> Iterator[dict[str, Any]]:
    function = {"name": part.name, "arguments": ""}
    yield {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}
    for piece in part.pieces:
        yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt_tokens(usage),
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt_tokens(usage) + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def error_frame(code: str, message: str) -> bytes:
    return _frame({"error": {"message": message, "type": code, "param": None, "code": code}})


def error_body(refusal: Refusal, number: int) -> bytes:
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    error = {"message": refusal.message, "type": kind, "param": None, "code": refusal.code or None}
    return msgspec.json.encode({"error": error})


def key_of(headers: Mapping[str, str]) -> str:
    return headers.get("authorization", "").removeprefix("Bearer ")


def _frame(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def complaints(request: dict[str, Any], headers: Mapping[str, str]) -> Iterator[str]:
    if not request.get("stream"):
        yield "stream: only streams are served"
    messages = request.get("messages")
    if not messages:
        yield "[] is too short - 'messages'"
    for tool in request.get("tools", []):
        if tool.get("type") != "function" or not _NAME.fullmatch(tool["function"]["name"]):
            yield "Invalid 'tools[0].function.name': string does not match pattern"
    if (form := request.get("response_format")) is not None:
        yield from _format_complaints(form)
    waiting: list[str] = []
    for index, message in enumerate(messages or ()):
        where = f"messages.[{index}]"
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"{where}: role 'tool' must be a response to a preceding message with 'tool_calls'"
            if not isinstance(message.get("content"), str):
                yield f"{where}: content of a tool message must be a string"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield f"{where}: 'tool_calls' must be followed by tool messages; no response for {waiting}"
        yield from (f"{where}: {problem}" for problem in _message_complaints(message))
        waiting = [call["id"] for call in message.get("tool_calls") or []]
        if len(set(waiting)) < len(waiting):
            yield f"{where}: duplicate tool_call ids"
    if waiting:
        yield f"'tool_calls' must be followed by tool messages; no response for {waiting}"


def _format_complaints(form: dict[str, Any]) -> Iterator[str]:
    answer = form.get("json_schema")
    if form.get("type") != "json_schema" or not isinstance(answer, dict):
        yield "Missing required parameter: 'response_format.json_schema'"
    elif not _NAME.fullmatch(answer.get("name", "")):
        yield "Invalid 'response_format.json_schema.name': string does not match pattern"
    elif answer.get("strict") and answer.get("schema", {}).get("additionalProperties") is not False:
        yield "Invalid schema for response_format: 'additionalProperties' is required to be false"


def _message_complaints(message: dict[str, Any]) -> Iterator[str]:
    role, content = message["role"], message.get("content")
    if role not in ("system", "developer", "user", "assistant"):
        yield f"{role!r} is not a role"
    calls = message.get("tool_calls") or []
    if role == "assistant":
        if not content and not calls:
            yield "expected a non-empty content or tool_calls"
        for call in calls:
            yield from _call_complaints(call)
    elif not content:
        yield "expected a non-empty content"
    elif isinstance(content, list):
        for part in content:
            yield from _part_complaints(part)


def _part_complaints(part: dict[str, Any]) -> Iterator[str]:
    match part:
        case {"type": "image_url", "image_url": {"url": url}}:
            if not url.startswith(("https://", *_IMAGE_DATA)):
                yield "unsupported image"
        case {"type": "file", "file": {"file_data": data}}:
            if not data.startswith("data:application/pdf;base64,"):
                yield "expected a file with an application/pdf MIME type"
        case {"type": "text", "text": text} if text:
            pass
        case _:
            yield "invalid part of a content"


def _call_complaints(call: dict[str, Any]) -> Iterator[str]:
    function = call["function"]
    if not call["id"] or not _NAME.fullmatch(function["name"]):
        yield "invalid tool call: it needs an id and a name"
    if not isinstance(function["arguments"], str):
        yield "invalid tool call: arguments must be a string"
    if not is_json_object(function["arguments"]):
        yield "invalid tool call: arguments must be the JSON of an object"
