"""Anthropic's Messages API: what it streams, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ostler.schema.messages import StopReason
from ostler.schema.usage import Usage
from ostler.testkit.vendors.script import Call, Cite, Refusal, Say, Think, Turn, event_frame

PATH = re.compile(r"/v1/messages")
MALFORMED = b"event: content_block_delta\ndata: {this is no JSON\n\n"

_STOP_REASONS: dict[StopReason, str] = {
    "end": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "other": "pause_turn",
}

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_REFUSED_WORDS = {"minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems", "oneOf"}

_WITHOUT_LATER_SYSTEM = re.compile(r"claude-3|claude-[a-z]+-4(-[0-7])?(-\d{8})?$")
"""Models that accept instructions only before the messages."""

_IMAGE_TYPES = {"image/jpeg", "image/png", "image/gif", "image/webp"}


def frames(turn: Turn, request: dict[str, Any], number: int) -> Iterator[bytes]:
    usage = turn.usage or Usage()
    yield event_frame(
        "message_start",
        message={
            "id": f"msg_{number:04d}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.input_tokens,
                "cache_read_input_tokens": usage.cache_read_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens,
                "output_tokens": 1,
            },
        },
    )
    yield event_frame("ping")
    for index, (part, sources) in enumerate(_with_sources(turn)):
        block, deltas = _block(part, f"{number:04d}_{index}")
        deltas += [{"type": "citations_delta", "citation": _citation(source)} for source in sources]
        yield event_frame("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield event_frame("content_block_delta", index=index, delta=delta)
        yield event_frame("content_block_stop", index=index)
    total: dict[str, Any] = {"output_tokens": usage.output_tokens}
    if usage.reasoning_tokens:
        total["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    stop = {"stop_reason": _STOP_REASONS[turn.stop_reason], "stop_sequence": None}
    yield event_frame("message_delta", delta=stop, usage=total)
    yield event_frame("message_stop")


def _with_sources(turn: Turn) -> list[tuple[Say | Think | Call, list[Cite]]]:
    """The parts that are blocks, each with its sources."""
    blocks: list[tuple[Say | Think | Call, list[Cite]]] = []
    for part in turn.blocks:
        if not isinstance(part, Cite):
            blocks.append((part, []))
            continue
        if not blocks or not isinstance(blocks[-1][0], Say):
            blocks.append((Say(()), []))
        blocks[-1][1].append(part)
    return blocks


def _citation(source: Cite) -> dict[str, Any]:
    return {
        "type": "web_search_result_location",
        "url": source.url,
        "title": source.title,
        "cited_text": "what it says there",
        "encrypted_index": "index",
    }


def _block(part: Say | Think | Call, suffix: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if isinstance(part, Say):
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in part.pieces]
    if isinstance(part, Call):
        block = {"type": "tool_use", "id": part.id or f"toolu_{suffix}", "name": part.name, "input": {}}
        return block, [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *part.pieces)]
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.redacted}, []
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in part.pieces]
    deltas.append({"type": "signature_delta", "signature": part.signature})
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


def error_frame(code: str, message: str) -> bytes:
    return event_frame("error", error={"type": code, "message": message})


def error_body(refusal: Refusal, number: int) -> bytes:
    kind = refusal.code or _ERROR_TYPES.get(refusal.status, "api_error")
    error = {"type": kind, "message": refusal.message}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": f"req_{number:04d}"})


def key_of(headers: Mapping[str, str]) -> str:
    return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")


def complaints(request: dict[str, Any], headers: Mapping[str, str]) -> Iterator[str]:
    if not request.get("stream"):
        yield "stream: only streams are served"
    if "anthropic-version" not in headers:
        yield "anthropic-version: header is required"
    if not isinstance(request.get("max_tokens"), int):
        yield "max_tokens: Field required"
    if msgspec.json.encode(request).count(b'"cache_control"') > 4:
        yield "A maximum of 4 blocks with cache_control may be provided"
    yield from _thinking_complaints(request)
    if (form := (request.get("output_config") or {}).get("format")) is not None:
        if form.get("type") != "json_schema":
            yield "output_config.format.type: Input should be 'json_schema'"
        yield from _schema_complaints(form.get("schema"))
    yield from _tools_complaints(request)
    yield from _later_system_complaints(request)
    yield from _messages_complaints(_merged(request.get("messages") or []))


def _schema_complaints(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield "output_config.format.schema: Input should be a valid dictionary"
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield "For 'object' type, 'additionalProperties' must be explicitly set to false"
    if unknown := _REFUSED_WORDS & schema.keys():
        yield f"For '{schema.get('type')}' type, properties {sorted(unknown)} are not supported"
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for one in [*inner, schema["items"]] if "items" in schema else inner:
        yield from _schema_complaints(one)


def _thinking_complaints(request: dict[str, Any]) -> Iterator[str]:
    thinking = request.get("thinking") or {}
    is_forced = (request.get("tool_choice") or {}).get("type") in ("any", "tool")
    if thinking.get("type") in ("enabled", "adaptive") and is_forced:
        yield "Thinking may not be enabled when tool_choice forces tool use"
    if thinking.get("type") == "enabled" and thinking["budget_tokens"] < 1024:
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    if thinking.get("type") == "enabled" and thinking["budget_tokens"] >= request["max_tokens"]:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`"


def _tools_complaints(request: dict[str, Any]) -> Iterator[str]:
    names = [tool["name"] for tool in request.get("tools", [])]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique"
    if not all(_NAME.fullmatch(name) for name in names):
        yield "tools: name should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
    if any(tool["input_schema"].get("type") != "object" for tool in request.get("tools", [])):
        yield "tools.0.custom.input_schema.type: Field required"
    choice = request.get("tool_choice") or {}
    if choice.get("type") == "tool" and choice["name"] not in names:
        yield f"Tool '{choice['name']}' not found in provided tools"


def _messages_complaints(messages: list[dict[str, Any]]) -> Iterator[str]:
    if not messages:
        yield "messages: at least one message is required"
    if messages[0]["role"] != "user":
        yield "messages: first message must use the user role"
    waiting: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        blocks = message["content"]
        if message["role"] not in ("user", "assistant", "system"):
            yield f"{where}: unexpected role {message['role']!r}"
        if not blocks:
            yield f"{where}: all messages must have non-empty content"
        yield from (f"{where}: {problem}" for block in blocks for problem in _block_complaints(block))
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if set(waiting) - set(answered):
            yield f"{where}: `tool_use` ids without `tool_result` blocks immediately after: {waiting}"
        if set(answered) - set(waiting):
            yield f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {answered}"
        if len(set(answered)) < len(answered):
            yield f"{where}: each tool_use must have a single result"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(waiting)) < len(waiting):
            yield f"{where}: `tool_use` ids must be unique"
        if message["role"] == "assistant" and any(block["type"] in ("image", "document") for block in blocks):
            yield f"{where}: `image` and `document` blocks are not permitted in an assistant message"
        if message["role"] == "assistant" and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
            yield f"{where}: The final block in an assistant message cannot be `thinking`"
    if waiting:
        yield f"messages: `tool_use` ids were found without `tool_result` blocks: {waiting}"


def _later_system_complaints(request: dict[str, Any]) -> Iterator[str]:
    """Instructions among the messages follow a user's message, and only an answer may follow them."""
    messages = request.get("messages") or []
    roles = ["", *(message["role"] for message in messages), "assistant"]
    for index, message in enumerate(messages):
        if message["role"] != "system":
            continue
        if _WITHOUT_LATER_SYSTEM.match(request["model"]):
            yield f"messages.{index}: role 'system' is not supported on this model"
        if roles[index] != "user" or roles[index + 2] != "assistant":
            yield f"messages.{index}: role 'system' must follow a user message and end its turn"
        content = message["content"]
        if not isinstance(content, str) and any(block["type"] != "text" for block in content):
            yield f"messages.{index}: role 'system' supports text blocks only"


def _merged(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours of one role are one message to this vendor."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] = merged[-1]["content"] + blocks
        else:
            merged.append({"role": message["role"], "content": list(blocks)})
    return merged


def _block_complaints(block: dict[str, Any]) -> Iterator[str]:
    match block:
        case {"type": "text", "text": text} if not text.strip():
            yield "text content blocks must contain non-whitespace text"
        case {"type": "thinking"} if not block.get("signature"):
            yield "thinking.signature: Field required"
        case {"type": "thinking" | "redacted_thinking" as kind, "cache_control": _}:
            yield f"{kind}: cache_control is not permitted"
        case {"type": "tool_use", "name": name, "id": id, "input": arguments}:
            if not isinstance(arguments, dict):
                yield "tool_use.input: Input should be a valid dictionary"
            if not (_NAME.fullmatch(name) and _NAME.fullmatch(id)):
                yield "tool_use: name and id should match pattern '^[a-zA-Z0-9_-]+$'"
        case {"type": "tool_result"}:
            content = block.get("content")
            if block.get("is_error") and not content:
                yield "tool_result: content cannot be empty if `is_error` is true"
            for inner in content if isinstance(content, list) else ():
                if block.get("is_error") and inner["type"] != "text":
                    yield "tool_result: all content must be type `text` if `is_error` is true"
                yield from _block_complaints(inner)
        case {"type": "image", "source": {"type": "base64", "media_type": kind}} if kind not in _IMAGE_TYPES:
            yield "image: unsupported media type"
