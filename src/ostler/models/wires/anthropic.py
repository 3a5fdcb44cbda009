"""The Messages wire: requests to Anthropic's models and compatible servers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from ostler.core.model import ModelRequest, ToolOffer
from ostler.models.families import claude_family, claude_levels, limits_for, nearest
from ostler.models.wires.anthropic_stream import WIRE, AnthropicDecoder
from ostler.models.wires.encoder import (
    closed,
    placeholder,
    refused_by_vendor,
    sendable_arguments,
    sendable_id,
    sendable_name,
    text_of_file,
)
from ostler.models.wires.wire_model import RequestSupport, WireModel
from ostler.schema.messages import (
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
    if what := refused_by_vendor(block):
        return [{"type": "text", "text": placeholder(what)}]
    return [_image(block) if isinstance(block, Image) else _document(block)]


def _image(image: Image) -> dict[str, Any]:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


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


API_VERSION = "2023-06-01"

_MARKED_MESSAGES = 2
"""With the system prompt and the tools these are the four breakpoints the vendor allows.

The last message is marked for the next request to find; the one before, because the vendor looks for an
earlier breakpoint only a few blocks back, and one step may have added more than that.
"""


class AnthropicModel(WireModel):
    """A model behind the Messages wire."""

    PROVIDER = "anthropic"
    BASE_URL = "https://api.anthropic.com"
    KEY_HEADER = "x-api-key"

    def url(self) -> str:
        return f"{self._base_url.removesuffix('/v1')}/v1/messages"

    def headers(self) -> dict[str, str]:
        return {"anthropic-version": API_VERSION} | super().headers()

    def _configure(self) -> None:
        self._family = claude_family(self._model)
        levels = claude_levels(self._family)
        self._levels = levels.available(self._settings.reasoning_levels, self._settings.reasons)

    def _body(self, request: ModelRequest) -> bytes:
        parts = [_encode(self._head(request))[:-1]]
        if request.system.strip():
            parts += b',"system":', encode_system(request.system)
        if request.tools:
            parts += b',"tools":', self._encoded_tools(request.tools)
        parts += b',"messages":[', b",".join(self._marked_messages(request)), b"]}"
        return b"".join(parts)

    def _head(self, request: ModelRequest) -> dict[str, Any]:
        choice = _tool_choice(request)
        head: dict[str, Any] = {"model": self._model, "stream": True}
        head |= self._limits(request)
        if request.answer_schema is not None and self._family.schemas:
            answer = {"format": {"type": "json_schema", "schema": closed(request.answer_schema)}}
            head["output_config"] = head.get("output_config", {}) | answer
        if choice:
            head["tool_choice"] = choice
        return head

    def _limits(self, request: ModelRequest) -> dict[str, Any]:
        return limits_for(
            self._family,
            request.reasoning,
            nearest(request.reasoning, self._levels),
            self._output_limit(request),
            self._settings.output_limit,
            forced_tool=_is_forced(request),
        )

    def _decoder(self, request: ModelRequest) -> AnthropicDecoder:
        return AnthropicDecoder(request, self._provider, self._model, self._settings.prices)

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        return encode_tools(tools)

    def _marked_messages(self, request: ModelRequest) -> list[bytes]:
        messages = list(self._encoded_messages(request, WIRE, encode_message))
        left = _MARKED_MESSAGES
        for index in range(len(request.transcript) - 1, -1, -1):
            if not left:
                break
            if messages[index] and request.transcript[index].role != "assistant":
                messages[index] = with_marker(messages[index])
                left -= 1
        return [message for message in messages if message]

    def _support(self, request: ModelRequest) -> RequestSupport:
        level, asked = nearest(request.reasoning, self._levels), self._output_limit(request)
        output = self._limits(request)["max_tokens"]
        return RequestSupport(
            level=level,
            stopped=level not in (None, "off") and request.reasoning != "off" and _is_forced(request),
            schema=self._family.schemas,
            output_tokens=output if asked and output > asked else None,
        )


def _is_forced(request: ModelRequest) -> bool:
    return bool(request.tools) and request.tool_choice not in ("auto", "none")


def _tool_choice(request: ModelRequest) -> dict[str, str]:
    if not request.tools or request.tool_choice == "auto":
        return {}
    if request.tool_choice == "none":
        return {"type": "none"}
    if request.tool_choice == "required":
        return {"type": "any"}
    return {"type": "tool", "name": request.tool_choice}
