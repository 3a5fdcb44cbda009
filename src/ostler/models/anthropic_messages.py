"""Messages as the Messages wire spells them, each as one piece of JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from ostler.kernel.model import ToolOffer
from ostler.models.sendable import (
    IMAGE_TYPES,
    placeholder,
    sendable_arguments,
    sendable_id,
    sendable_name,
    text_of_file,
)
from ostler.vocabulary.messages import (
    Block,
    File,
    Image,
    Message,
    PlainBlock,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

WIRE = "anthropic"

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MARKER = b',"cache_control":{"type":"ephemeral"}'

_encode = msgspec.json.Encoder().encode


def encode_message(message: Message) -> bytes:
    """One message, or nothing where no part of it can be sent. `with_marker` needs `content` to be last."""
    role = "assistant" if message.role == "assistant" else "user"
    content = [block for part in message.content if (block := _block(part)) is not None]
    if role == "assistant":
        # A message that ends in thinking is refused; it does when the answer was cut before it began.
        while content and content[-1]["type"] in ("thinking", "redacted_thinking"):
            content.pop()
    else:
        content.sort(key=lambda block: block["type"] != "tool_result")
    return _encode({"role": role, "content": content}) if content else b""


def with_marker(message: bytes) -> bytes:
    """The same message with a cache breakpoint on its last block, without encoding it again."""
    return message[:-3] + _MARKER + message[-3:]


def encode_system(text: str) -> bytes:
    return _encode([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}])


def encode_tools(tools: Iterable[ToolOffer]) -> bytes:
    offers: list[dict[str, Any]] = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": {"type": "object", "properties": {}} | tool.schema,
        }
        for tool in tools
    ]
    offers[-1]["cache_control"] = {"type": "ephemeral"}
    return _encode(offers)


def _block(block: Block) -> dict[str, Any] | None:
    if isinstance(block, ToolCall):
        return {
            "type": "tool_use",
            "id": sendable_id(block.id, _CALL_ID),
            "name": sendable_name(block.name),
            "input": msgspec.Raw(sendable_arguments(block.arguments).encode()),
        }
    if isinstance(block, ToolResult):
        return _tool_result(block)
    if isinstance(block, Reasoning):
        return _thinking(block)
    return _plain(block)


def _plain(block: PlainBlock) -> dict[str, Any] | None:
    if isinstance(block, Text):
        # White space alone is refused as well.
        return {"type": "text", "text": block.text} if block.text.strip() else None
    if isinstance(block, Image):
        return _image(block)
    return _document(block)


def _image(image: Image) -> dict[str, Any]:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    if image.media_type not in IMAGE_TYPES:
        return {"type": "text", "text": placeholder(f"an image of type {image.media_type}")}
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": image.media_type, "data": image.data},
    }


def _document(file: File) -> dict[str, Any]:
    source: dict[str, Any]
    if file.url:
        source = {"type": "url", "url": file.url}
    elif file.media_type == "application/pdf":
        source = {"type": "base64", "media_type": file.media_type, "data": file.data}
    elif (text := text_of_file(file)) is not None:
        source = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        return {"type": "text", "text": placeholder(f"the file {file.name!r} of type {file.media_type}")}
    return {"type": "document", "source": source} | ({"title": file.name} if file.name else {})


def _thinking(block: Reasoning) -> dict[str, Any] | None:
    opaque = block.opaque
    if opaque is None or opaque.wire != WIRE:
        return None
    if opaque.data["type"] == "redacted_thinking":
        return {"type": "redacted_thinking", "data": opaque.data["data"]}
    return {"type": "thinking", "thinking": block.text, "signature": opaque.data["signature"]}


def _tool_result(result: ToolResult) -> dict[str, Any]:
    content = [block for part in result.content if (block := _plain(part)) is not None]
    encoded: dict[str, Any] = {"type": "tool_result", "tool_use_id": sendable_id(result.call, _CALL_ID)}
    if not content and result.failed:
        content = [{"type": "text", "text": "failed without a message"}]
    if len(content) == 1 and content[0]["type"] == "text":
        encoded["content"] = content[0]["text"]
    elif content:
        encoded["content"] = content
    if result.failed:
        encoded["is_error"] = True
    return encoded
