"""Messages as the Chat Completions wire spells them, each as a piece of JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
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
    File,
    Message,
    PlainBlock,
    Reasoning,
    Text,
    ToolResult,
    text_of,
)

WIRE = "chat"

_encode = msgspec.json.Encoder().encode


def message_encoder(provider: str, call_id: re.Pattern[str] | None) -> Callable[[Message], bytes]:
    """An encoder of one message into the items it becomes: none, one, or several with commas between."""

    def encode(message: Message) -> bytes:
        if message.role == "tool":
            items = _tool_messages(message, call_id)
        elif message.role == "assistant":
            items = _assistant_message(message, provider, call_id)
        else:
            items = _user_message(message.content)
        return _encode(items)[1:-1]

    return encode


def encode_system(text: str) -> bytes:
    return _encode({"role": "system", "content": text})


def encode_tools(tools: Iterable[ToolOffer]) -> bytes:
    return _encode(
        [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": {"type": "object", "properties": {}} | tool.schema,
                },
            }
            for tool in tools
        ]
    )


def _user_message(content: Iterable[Any]) -> list[dict[str, Any]]:
    parts = [part for block in content if (part := _part(block)) is not None]
    if not parts:
        return []
    if all(part["type"] == "text" for part in parts):
        # Many servers of this wire take a list of parts only from models that see pictures.
        return [{"role": "user", "content": "\n".join(part["text"] for part in parts)}]
    return [{"role": "user", "content": parts}]


def _part(block: PlainBlock) -> dict[str, Any] | None:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text} if block.text else None
    if isinstance(block, File):
        return _file_part(block)
    if not block.url and block.media_type not in IMAGE_TYPES:
        return {"type": "text", "text": placeholder(f"an image of type {block.media_type}")}
    url = block.url or f"data:{block.media_type};base64,{block.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _file_part(file: File) -> dict[str, Any]:
    text = text_of_file(file)
    if text is not None:
        return {"type": "text", "text": f"{file.name or 'A file'}:\n{text}"}
    if file.url:
        return {"type": "text", "text": f"{file.name or 'A file'} ({file.media_type}): {file.url}"}
    if file.media_type != "application/pdf":
        return {"type": "text", "text": placeholder(f"the file {file.name!r} of type {file.media_type}")}
    data = f"data:{file.media_type};base64,{file.data}"
    return {"type": "file", "file": {"filename": file.name or "file.pdf", "file_data": data}}


def _assistant_message(
    message: Message, provider: str, call_id: re.Pattern[str] | None
) -> list[dict[str, Any]]:
    text = text_of(message.content)
    calls = [
        {
            "id": sendable_id(call.id, call_id),
            "type": "function",
            "function": {"name": sendable_name(call.name), "arguments": sendable_arguments(call.arguments)},
        }
        for call in message.calls
    ]
    if not calls:
        return [{"role": "assistant", "content": text}] if text else []
    item: dict[str, Any] = {"role": "assistant", "content": text or None, "tool_calls": calls}
    return [item | _reasoning(message, provider)]


def _reasoning(message: Message, provider: str) -> dict[str, Any]:
    """What the vendor wants back of its reasoning while a tool answers; in finished turns it is refused."""
    fields: dict[str, Any] = {}
    for block in message.content:
        if not isinstance(block, Reasoning) or block.opaque is None or block.opaque.wire != WIRE:
            continue
        data = block.opaque.data
        if data["provider"] != provider:
            continue
        if "field" in data:
            fields[data["field"]] = fields.get(data["field"], "") + block.text
        if "details" in data:
            fields["reasoning_details"] = data["details"]
    return fields


def _tool_messages(message: Message, call_id: re.Pattern[str] | None) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    attached: list[PlainBlock] = []
    for block in message.content:
        if not isinstance(block, ToolResult):
            continue
        text = text_of(block.content) or "(no text)"
        items.append(
            {
                "role": "tool",
                "tool_call_id": sendable_id(block.call, call_id),
                "content": f"[error] {text}" if block.failed else text,
            }
        )
        pictures = [part for part in block.content if not isinstance(part, Text)]
        if pictures:
            attached += Text(f"What {block.name} returned beside its text:"), *pictures
    # A tool's message holds text only, so the rest follows in a message of its own.
    return items + _user_message(attached)
