"""The Messages wire: requests to Anthropic's models and compatible servers."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import msgspec

from ostler.core.model import ModelRequest, ToolOffer
from ostler.models.families import claude_family, claude_levels, limits_for, nearest
from ostler.models.wires import encoder
from ostler.models.wires.wire_model import RequestSupport, WireModel
from ostler.schema.messages import (
    Block,
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
_BREAKPOINT = {"cache_control": {"type": "ephemeral"}}
_MARKER = b"," + encoder.encode_json(_BREAKPOINT)[1:-1]


def _encode_message(message: Message) -> bytes:
    """One message; empty if no part of it can be sent. `_with_marker` needs `content` to be last."""
    role = "assistant" if message.role == "assistant" else "user"
    content = [block for part in message.content for block in _blocks(part)]
    if role == "assistant":
        # Another vendor's model may have drawn a picture; this vendor takes none in an answer.
        content = [block for block in content if block["type"] not in ("image", "document")]
        # A message that ends in thinking is refused; it does when the answer was cut before it began.
        while content and content[-1]["type"] in ("thinking", "redacted_thinking"):
            content.pop()
    else:
        content.sort(key=lambda block: block["type"] != "tool_result")
    return encoder.encode_json({"role": role, "content": content}) if content else b""


def _with_marker(message: bytes) -> bytes:
    """The message with a cache breakpoint on its last block, without encoding it again."""
    return message[:-3] + _MARKER + message[-3:]


def _blocks(block: Block) -> list[dict[str, Any]]:
    if isinstance(block, ToolCall):
        call = {
            "type": "tool_use",
            "id": encoder.sendable_id(block.id, _CALL_ID),
            "name": encoder.sendable_name(block.name),
            "input": msgspec.Raw(encoder.sendable_arguments(block.arguments).encode()),
        }
        return [call]
    if isinstance(block, ToolResult):
        return _tool_result(block)
    if isinstance(block, Reasoning):
        return _thinking(block)
    return _plain(block)


def _plain(block: PlainBlock) -> list[dict[str, Any]]:
    if isinstance(block, Text):
        # The vendor refuses a text of white space.
        return [{"type": "text", "text": block.text}] if block.text.strip() else []
    if description := encoder.refused_by_vendor(block):
        return [{"type": "text", "text": encoder.placeholder(description)}]
    if block.url:
        source = {"type": "url", "url": block.url}
    elif isinstance(block, Image) or block.media_type == "application/pdf":
        source = {"type": "base64", "media_type": block.media_type, "data": block.data}
    else:
        source = {"type": "text", "media_type": "text/plain", "data": encoder.text_of_file(block) or ""}
    if isinstance(block, Image):
        return [{"type": "image", "source": source}]
    return [{"type": "document", "source": source} | ({"title": block.name} if block.name else {})]


def _thinking(block: Reasoning) -> list[dict[str, Any]]:
    opaque = block.opaque
    if opaque is None or opaque.wire != WIRE:
        return []
    if opaque.data["type"] == "redacted_thinking":
        return [{"type": "redacted_thinking", "data": opaque.data["data"]}]
    return [{"type": "thinking", "thinking": block.text, "signature": opaque.data["signature"]}]


def _tool_result(result: ToolResult) -> list[dict[str, Any]]:
    encoded: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": encoder.sendable_id(result.call, _CALL_ID),
    }
    content = [block for part in result.content for block in _plain(part)]
    media: list[dict[str, Any]] = []
    if result.failed:
        # A failure holds only text, so the media follow it.
        media = [block for block in content if block["type"] != "text"]
        if media:
            media.insert(0, {"type": "text", "text": f"{result.name} also returned:"})
        content = [block for block in content if block["type"] == "text"]
        content = content or [{"type": "text", "text": "failed without a message"}]
    if len(content) == 1 and content[0]["type"] == "text":
        encoded["content"] = content[0]["text"]
    elif content:
        encoded["content"] = content
    if result.failed:
        encoded["is_error"] = True
    return [encoded, *media]


API_VERSION = "2023-06-01"

_MARKED_MESSAGES = 2
"""With the system prompt and the tools, these are the four breakpoints that the vendor allows.

The next request finds the marker on the last message. The one before it is needed because the vendor searches
only a few blocks back for an earlier breakpoint, and one step may add more than that.
"""


class AnthropicModel(WireModel):
    """A model behind the Messages wire."""

    PROVIDER = "anthropic"
    BASE_URL = "https://api.anthropic.com"
    KEY_HEADER = "x-api-key"
    DECODER = "ostler.models.wires.anthropic_stream:AnthropicDecoder"

    def url(self) -> str:
        return f"{self._base_url.removesuffix('/v1')}/v1/messages"

    def headers(self) -> dict[str, str]:
        return {"anthropic-version": API_VERSION} | super().headers()

    def _configure(self) -> None:
        self._family = claude_family(self._model)
        levels = claude_levels(self._family)
        self._levels = levels.available(self._settings.reasoning_levels, self._settings.reasons)
        self._encoding, self._encode_message = WIRE, _encode_message

    def _head(self, request: ModelRequest) -> dict[str, Any]:
        head = {"model": self._model, "stream": True, **self._limits(request)}
        if request.answer_schema is not None and self._family.schemas:
            answer = {"format": {"type": "json_schema", "schema": encoder.closed(request.answer_schema)}}
            head["output_config"] = head.get("output_config", {}) | answer
        if choice := _tool_choice(request):
            head["tool_choice"] = choice
        if request.system.strip():
            head["system"] = [{"type": "text", "text": request.system, **_BREAKPOINT}]
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

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        offers: list[dict[str, Any]] = [
            {"name": tool.name, "description": tool.description, "input_schema": encoder.tool_schema(tool)}
            for tool in tools
        ]
        offers[-1] |= _BREAKPOINT
        return encoder.encode_json(offers)

    def _messages(self, request: ModelRequest) -> list[bytes]:
        messages = list(super()._messages(request))
        newest_first = reversed(range(len(request.transcript)))
        places = (at for at in newest_first if messages[at] and request.transcript[at].role != "assistant")
        for place in islice(places, _MARKED_MESSAGES):
            messages[place] = _with_marker(messages[place])
        return messages

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
    modes = {"none": {"type": "none"}, "required": {"type": "any"}}
    return modes.get(request.tool_choice, {"type": "tool", "name": request.tool_choice})
