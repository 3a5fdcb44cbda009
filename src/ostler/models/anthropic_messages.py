"""Messages as the Messages wire spells them, each as one piece of JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from ostler.kernel.model import ToolOffer
from ostler.models.sendable import (
    hidden,
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
    content = [block for part in message.content for block in _blocks(part)]
    if role == "assistant":
        # Another vendor's model may have drawn a picture; in an answer this one takes none.
        content = [block for block in content if block["type"] not in ("image", "document")]
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


def _blocks(block: Block) -> list[dict[str, Any]]:
    if isinstance(block, ToolCall):
        call = {
            "type": "tool_use",
            "id": sendable_id(block.id, _CALL_ID),
            "name": sendable_name(block.name),
            "input": msgspec.Raw(sendable_arguments(block.arguments).encode()),
        }
        return [call]
    if isinstance(block, ToolResult):
        return _tool_result(block)
    if isinstance(block, Reasoning):
        return _thinking(block)
    return _plain(block)


def _plain(block: PlainBlock) -> list[dict[str, Any]]:
    if isinstance(block, Text):
        # White space alone is refused as well.
        return [{"type": "text", "text": block.text}] if block.text.strip() else []
    if what := hidden(block):
        return [{"type": "text", "text": placeholder(what)}]
    return [_image(block) if isinstance(block, Image) else _document(block)]


def _image(image: Image) -> dict[str, Any]:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
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
    else:
        source = {"type": "text", "media_type": "text/plain", "data": text_of_file(file)}
    return {"type": "document", "source": source} | ({"title": file.name} if file.name else {})


def _thinking(block: Reasoning) -> list[dict[str, Any]]:
    opaque = block.opaque
    if opaque is None or opaque.wire != WIRE:
        return []
    if opaque.data["type"] == "redacted_thinking":
        return [{"type": "redacted_thinking", "data": opaque.data["data"]}]
    return [{"type": "thinking", "thinking": block.text, "signature": opaque.data["signature"]}]


def _tool_result(result: ToolResult) -> list[dict[str, Any]]:
    encoded: dict[str, Any] = {"type": "tool_result", "tool_use_id": sendable_id(result.call, _CALL_ID)}
    content = [block for part in result.content for block in _plain(part)]
    beside: list[dict[str, Any]] = []
    if result.failed:
        # A failure holds text only, so the rest of what the tool returned follows it.
        beside = [block for block in content if block["type"] != "text"]
        if beside:
            beside.insert(0, {"type": "text", "text": f"What {result.name} returned beside its text:"})
        content = [block for block in content if block["type"] == "text"]
        content = content or [{"type": "text", "text": "failed without a message"}]
    if len(content) == 1 and content[0]["type"] == "text":
        encoded["content"] = content[0]["text"]
    elif content:
        encoded["content"] = content
    if result.failed:
        encoded["is_error"] = True
    return [encoded, *beside]
