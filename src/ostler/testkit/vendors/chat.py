"""The Chat Completions wire as its vendor speaks it: what it streams, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ostler.schema.messages import StopReason
from ostler.schema.usage import Usage
from ostler.testkit.vendors.script import Call, Cite, Refusal, Say, Think, Turn

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
    for part in turn.parts:
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
            pieces = part.pieces if isinstance(part, Say) else (part,)
            yield from (chunk({"content": piece}) for piece in pieces)
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
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
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


def complaint(request: dict[str, Any], headers: Mapping[str, str]) -> str:
    """Why the vendor would refuse this request, or nothing."""
    if not request.get("stream"):
        return "stream: only streams are served"
    messages = request.get("messages")
    if not messages:
        return "[] is too short - 'messages'"
    for tool in request.get("tools", []):
        if tool.get("type") != "function" or not _NAME.fullmatch(tool["function"]["name"]):
            return "Invalid 'tools[0].function.name': string does not match pattern"
    if problem := _format_complaint(request.get("response_format")):
        return problem
    waiting: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.[{index}]"
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"{where}: role 'tool' must be a response to a preceding message with 'tool_calls'"
            if not isinstance(message.get("content"), str):
                return f"{where}: content of a tool message must be a string"
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"{where}: 'tool_calls' must be followed by tool messages; no response for {waiting}"
        problem = _message_complaint(message)
        if problem:
            return f"{where}: {problem}"
        waiting = [call["id"] for call in message.get("tool_calls") or []]
        if len(set(waiting)) < len(waiting):
            return f"{where}: duplicate tool_call ids"
    return f"'tool_calls' must be followed by tool messages; no response for {waiting}" if waiting else ""


def _format_complaint(form: dict[str, Any] | None) -> str:
    if form is None:
        return ""
    answer = form.get("json_schema")
    if form.get("type") != "json_schema" or not isinstance(answer, dict):
        return "Missing required parameter: 'response_format.json_schema'"
    if not _NAME.fullmatch(answer.get("name", "")):
        return "Invalid 'response_format.json_schema.name': string does not match pattern"
    schema = answer.get("schema", {})
    if answer.get("strict") and schema.get("additionalProperties") is not False:
        return "Invalid schema for response_format: 'additionalProperties' is required to be false"
    return ""


def _message_complaint(message: dict[str, Any]) -> str:
    role, content = message["role"], message.get("content")
    if role not in ("system", "developer", "user", "assistant"):
        return f"{role!r} is not a role"
    calls = message.get("tool_calls") or []
    if role == "assistant":
        if not content and not calls:
            return "expected a non-empty content or tool_calls"
        return next(filter(None, map(_call_complaint, calls)), "")
    if not content:
        return "expected a non-empty content"
    if isinstance(content, list):
        return next(filter(None, map(_part_complaint, content)), "")
    return ""


def _part_complaint(part: dict[str, Any]) -> str:
    if part["type"] == "image_url":
        url = part["image_url"]["url"]
        return "" if url.startswith(("https://", *_IMAGE_DATA)) else "unsupported image"
    if part["type"] == "file":
        pdf = part["file"]["file_data"].startswith("data:application/pdf;base64,")
        return "" if pdf else "expected a file with an application/pdf MIME type"
    return "" if part["type"] == "text" and part["text"] else "invalid part of a content"


def _call_complaint(call: dict[str, Any]) -> str:
    function = call["function"]
    if not call["id"] or not _NAME.fullmatch(function["name"]):
        return "invalid tool call: it needs an id and a name"
    if not isinstance(function["arguments"], str):
        return "invalid tool call: arguments must be a string"
    try:
        msgspec.json.decode(function["arguments"], type=dict[str, Any])
    except msgspec.DecodeError:
        return "invalid tool call: arguments must be the JSON of an object"
    return ""
