"""The Gemini wire: requests to Google's models through `streamGenerateContent`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

import msgspec

from ostler.core.model import ModelRequest, ToolOffer
from ostler.models.families import gemini_family, nearest, thinking_for
from ostler.models.wires import encoder
from ostler.models.wires.wire_model import RequestSupport, WireModel
from ostler.schema.messages import (
    Block,
    File,
    Image,
    Message,
    Opaque,
    PlainBlock,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    text_of,
)

WIRE = "gemini"

_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})

_RESULT_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
"""Media that may be inside the result of a call."""

_UNSIGNED = "skip_thought_signature_validator"
"""The vendor's signature for a call that another vendor's model made."""


def _message_encoder(strict: bool) -> Callable[[Message], bytes]:
    """An encoder of one message as contents: none, one, or two separated by a comma.

    `strict` is of the model's family. Contents of one role may follow each other, but results of calls need
    a content of their own.
    """

    def encode(message: Message) -> bytes:
        if message.role == "tool":
            contents = _results(message, strict)
        elif message.role == "assistant":
            contents = _content("model", _answer_parts(message, strict))
        else:
            contents = _content("user", _plain_parts(message.content))
        return encoder.encode_json(contents)[1:-1]

    return encode


def _refused(block: Block) -> str:
    """As `refused_by_vendor`, for this vendor."""
    if isinstance(block, Image):
        is_visible = block.url or block.media_type in _IMAGE_TYPES
        return "" if is_visible else f"an image of type {block.media_type}"
    if isinstance(block, File) and block.media_type.startswith(("audio/", "video/")):
        return ""
    return encoder.refused_by_vendor(block)


def _content(role: str, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": role, "parts": parts}] if parts else []


def _answer_parts(message: Message, strict: bool) -> list[dict[str, Any]]:
    parts = [part for block in message.content for part in _answer_part(block, strict)]
    if all(part.get("thought") for part in parts):
        return []
    calls = [part for part in parts if "functionCall" in part]
    if strict and calls:
        # Only the current turn is checked, but a prefix that changes later would miss the cache.
        calls[0].setdefault("thoughtSignature", _UNSIGNED)
    return parts


def _answer_part(block: Block, strict: bool) -> list[dict[str, Any]]:
    if isinstance(block, ToolCall):
        call: dict[str, Any] = {"id": block.id} if strict else {}
        call["name"] = _name(block.name)
        call["args"] = msgspec.Raw(encoder.sendable_arguments(block.arguments).encode())
        part: dict[str, Any] = {"functionCall": call}
        if (data := _own(block.opaque)) is not None:
            part["thoughtSignature"] = data["signature"]
        return [part]
    if isinstance(block, Reasoning):
        spans = _spans(block.opaque)
        return [part | {"thought": True} for part in _text_parts(block.text, spans)] if spans else []
    if isinstance(block, Text):
        return _text_parts(block.text, _spans(block.opaque))
    return [] if isinstance(block, ToolResult) else _media_parts(block)


def _text_parts(text: str, spans: list[Any]) -> list[dict[str, Any]]:
    """The parts that a text was joined from, as far as a signature depends on them."""
    parts: list[dict[str, Any]] = []
    at = 0
    for begin, end, signature in spans:
        if text[at:begin]:
            parts.append({"text": text[at:begin]})
        parts.append({"text": text[begin:end], "thoughtSignature": signature})
        at = end
    if text[at:]:
        parts.append({"text": text[at:]})
    return parts


def _own(opaque: Opaque | None) -> dict[str, Any] | None:
    return opaque.data if opaque is not None and opaque.wire == WIRE else None


def _spans(opaque: Opaque | None) -> list[Any]:
    data = _own(opaque)
    return data["signatures"] if data is not None else []


def _name(name: str) -> str:
    name = encoder.sendable_name(name)
    return name if name[0].isalpha() or name[0] == "_" else f"_{name}"[:64]


def _plain_parts(content: Iterable[Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for block in content:
        if isinstance(block, Text):
            parts += _text_parts(block.text, [])
        elif not isinstance(block, Reasoning | ToolCall | ToolResult):
            parts += _media_parts(block)
    return parts


def _media_parts(block: Image | File) -> list[dict[str, Any]]:
    if description := _refused(block):
        return [{"text": encoder.placeholder(description)}]
    name = block.name if isinstance(block, File) else ""
    if isinstance(block, File) and (text := encoder.text_of_file(block)) is not None:
        return [{"text": f"{name or 'A file'}:\n{text}"}]
    label = [{"text": f"{name}:"}] if name else []
    if block.url:
        return [*label, {"fileData": {"mimeType": block.media_type, "fileUri": block.url}}]
    return [*label, _inline(block.media_type, block.data)]


def _inline(media_type: str, data: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": media_type, "data": data}}


def _results(message: Message, strict: bool) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    attached: list[PlainBlock] = []
    for block in message.content:
        if not isinstance(block, ToolResult):
            continue
        result: dict[str, Any] = {"id": block.call} if strict else {}
        result["name"] = _name(block.name)
        text = text_of(block.content)
        failed = {"error": text or "failed without a message"}
        result["response"] = failed if block.failed else {"output": text}
        media = [part for part in block.content if not isinstance(part, Text)]
        within = [part for part in media if strict and part.data and part.media_type in _RESULT_TYPES]
        if within:
            result["parts"] = [_inline(part.media_type, part.data) for part in within]
        if others := [part for part in media if part not in within]:
            attached += Text(f"{block.name} also returned:"), *others
        parts.append({"functionResponse": result})
    return _content("user", parts) + _content("user", _plain_parts(attached))


class GeminiModel(WireModel):
    """A model behind the Gemini wire."""

    PROVIDER = "google"
    BASE_URL = "https://generativelanguage.googleapis.com"
    KEY_HEADER = "x-goog-api-key"
    DECODER = "ostler.models.wires.gemini_stream:GeminiDecoder"
    MESSAGES = "contents"

    def url(self) -> str:
        """Of the beta, unless the base URL names a version: some model names are known only there."""
        base_url = self._base_url
        versioned = base_url if re.search(r"/v\d\w*$", base_url) else f"{base_url}/v1beta"
        resource = self._model if "/" in self._model else f"models/{self._model}"
        return f"{versioned}/{quote(resource)}:streamGenerateContent?alt=sse"

    def _configure(self) -> None:
        self._family = gemini_family(self._model)
        self._levels = self._family.levels.available(self._settings.reasoning_levels, self._settings.reasons)
        self._encoding = f"{WIRE}/strict" if self._family.strict else WIRE
        self._encode_message = _message_encoder(self._family.strict)
        self._refused = _refused

    def _head(self, request: ModelRequest) -> dict[str, Any]:
        head: dict[str, Any] = {}
        if generation := self._generation(request):
            head["generationConfig"] = generation
        if request.tools and request.tool_choice != "auto":
            head["toolConfig"] = {"functionCallingConfig": _tool_choice(request.tool_choice)}
        if request.system.strip():
            head["systemInstruction"] = {"parts": [{"text": request.system}]}
        return head

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        declarations = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": encoder.tool_schema(tool),
            }
            for tool in tools
        ]
        return encoder.encode_json([{"functionDeclarations": declarations}])

    def _support(self, request: ModelRequest) -> RequestSupport:
        level = nearest(request.reasoning, self._levels)
        return RequestSupport(level=level, schema=self._takes_schema(request))

    def _generation(self, request: ModelRequest) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if output := self._output_limit(request):
            fields["maxOutputTokens"] = output
        if thinking := thinking_for(self._levels, request.reasoning):
            fields["thinkingConfig"] = thinking
        if request.answer_schema is not None and self._takes_schema(request):
            fields["responseMimeType"] = "application/json"
            fields["responseJsonSchema"] = request.answer_schema
        return fields

    def _takes_schema(self, request: ModelRequest) -> bool:
        """The older families refuse a schema beside tools."""
        return self._family.strict or not request.tools


def _tool_choice(choice: str) -> dict[str, Any]:
    modes = {"none": {"mode": "NONE"}, "required": {"mode": "ANY"}}
    return modes.get(choice, {"mode": "ANY", "allowedFunctionNames": [choice]})
