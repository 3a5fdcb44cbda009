"""What the requests of all wires share: ids, names, arguments, files, and subsets of JSON Schema."""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import Any

import msgspec

from ostler.core.model import ToolOffer
from ostler.schema.ids import base32, blake2b
from ostler.schema.messages import Block, File, Image, Message, Text, ToolResult

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""What every vendor that sees pictures takes."""

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
encode_json = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def sendable_id(call: str, pattern: re.Pattern[str] | None) -> str:
    """`call` if it fits the vendor's pattern, else nine letters and digits derived from it."""
    if pattern is None or pattern.fullmatch(call):
        return call
    return base32(int.from_bytes(blake2b(call.encode(), digest_size=8).digest(), "big"), 9)


@lru_cache(256)
def sendable_name(name: str) -> str:
    """The name without characters that vendors refuse, even if their model has written them."""
    return _NOT_IN_A_NAME.sub("_", name)[:64] or "unnamed"


def sendable_arguments(arguments: str) -> str:
    """The arguments as the model wrote them, or an empty object if they are not one."""
    try:
        _decode_object(arguments)
    except (msgspec.DecodeError, UnicodeError):
        return "{}"
    return arguments


def tool_schema(tool: ToolOffer) -> dict[str, Any]:
    return {"type": "object", "properties": {}} | tool.schema


def text_of_file(file: File) -> str | None:
    """The text of a text file; None for any other, or for an empty one."""
    if not file.media_type.startswith("text/") and file.media_type != "application/json":
        return None
    try:
        return base64.b64decode(file.data, validate=True).decode("utf-8", "replace") or None
    except binascii.Error:
        return None


def refused_by_vendor(block: Block, *, images: bool = True, pdf: bool = True) -> str:
    """Describes a block that a vendor refuses; empty for one that it takes."""
    if isinstance(block, Image):
        is_visible = images and (bool(block.url) or block.media_type in IMAGE_TYPES)
        return "" if is_visible else f"an image of type {block.media_type}"
    if not isinstance(block, File) or block.url or (pdf and block.media_type == "application/pdf"):
        return ""
    return "" if text_of_file(block) is not None else f"the file {block.name!r} of type {block.media_type}"


def unsupported_by_model(block: Block, *, images: bool, files: bool) -> str:
    """Describes a block that a model cannot read; empty for one that it can."""
    if isinstance(block, Image) and not images:
        return f"an image of type {block.media_type}"
    if isinstance(block, File) and not files and text_of_file(block) is None:
        return f"the file {block.name!r} of type {block.media_type}"
    return ""


def with_placeholders(message: Message, *, images: bool, files: bool) -> Message:
    """The message with a placeholder for each block that the model cannot read; answers omit the block."""
    content: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolResult):
            parts = tuple([_or_placeholder(part, images, files) for part in block.content])
            content.append(msgspec.structs.replace(block, content=parts))
        elif message.role != "assistant" or not unsupported_by_model(block, images=images, files=files):
            content.append(_or_placeholder(block, images, files))
    return msgspec.structs.replace(message, content=tuple(content))


def _or_placeholder(block: Block, images: bool, files: bool) -> Block:
    description = unsupported_by_model(block, images=images, files=files)
    return Text(placeholder(description)) if description else block


def without_foreign_data(message: Message, provider: str) -> Message:
    """The message without another provider's own data, for which every request would be refused."""
    if not any(_is_foreign(block, provider) for block in message.content):
        return message
    content = [
        msgspec.structs.replace(block, opaque=None) if _is_foreign(block, provider) else block
        for block in message.content
    ]
    return msgspec.structs.replace(message, content=tuple(content))


def _is_foreign(block: Block, provider: str) -> bool:
    opaque = getattr(block, "opaque", None)
    return opaque is not None and opaque.provider not in ("", provider)


def placeholder(description: str) -> str:
    """Replaces a block that a vendor refuses, because every later request of the session would fail."""
    return f"[{description} is omitted: this model cannot read it]"


Schema = dict[str, Any]

_STRICT_WORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const"}
    | {"$ref", "$defs", "title", "description", "pattern", "format", "minItems", "maxItems"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)

_CLOSED_WORDS = ("enum", "const", "description", "title", "required")

_CLOSED_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)


def is_strict(schema: Schema) -> bool:
    """Whether OpenAI would accept it as strict: closed objects whose properties are all required."""
    return schema.get("type") == "object" and _is_strict(schema)


def _is_strict(schema: Any) -> bool:
    if not isinstance(schema, dict) or not schema.keys() <= _STRICT_WORDS:
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object" or properties:
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required", ())) != set(properties):
            return False
    parts = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    if "items" in schema:
        parts.append(schema["items"])
    return all(map(_is_strict, parts))


def closed(schema: Any) -> Any:
    """The part that Anthropic enforces, with all objects closed; the description contains the others."""
    if not isinstance(schema, dict):
        return schema
    words = dict(schema)
    result: Schema = {}
    if "$defs" in words:
        result["$defs"] = {name: closed(inner) for name, inner in words.pop("$defs").items()}
    if "$ref" in words:
        return result | {"$ref": words["$ref"]}
    for word, spelled in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if word in words and not result.keys() & {"anyOf", "allOf"}:
            result[spelled] = [closed(inner) for inner in words.pop(word)]
            words.pop("type", None)
    kind = words.pop("type", None)
    if kind is not None and not words.keys() & {"enum", "const"}:
        result["type"] = kind
    if kind == "object":
        result["properties"] = {name: closed(inner) for name, inner in words.pop("properties", {}).items()}
        result["additionalProperties"] = False
        words.pop("additionalProperties", None)
    if isinstance(words.get("items"), dict):
        result["items"] = closed(words.pop("items"))
    if words.get("format") in _CLOSED_FORMATS:
        result["format"] = words.pop("format")
    if words.get("minItems") in (0, 1):
        result["minItems"] = words.pop("minItems")
    result |= {word: words.pop(word) for word in _CLOSED_WORDS if word in words}
    if words:
        text = "{" + ", ".join(f"{word}: {value}" for word, value in words.items()) + "}"
        result["description"] = f"{result['description']}\n\n{text}" if "description" in result else text
    return result
