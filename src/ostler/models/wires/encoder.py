"""What the requests of all wires share: ids, names, arguments, files, and subsets of JSON Schema."""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import Any

import msgspec

from ostler.schema.ids import base32, blake2b
from ostler.schema.messages import Block, File, Image, Message, Text, ToolResult

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""What every vendor that sees pictures takes."""

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def sendable_id(call: str, pattern: re.Pattern[str] | None) -> str:
    """`call` where it fits the vendor's pattern, else nine letters and digits made from it."""
    if pattern is None or pattern.fullmatch(call):
        return call
    return base32(int.from_bytes(blake2b(call.encode(), digest_size=8).digest(), "big"), 9)


@lru_cache(256)
def sendable_name(name: str) -> str:
    """A model may call a tool by a name that no vendor takes back."""
    return _NOT_IN_A_NAME.sub("_", name)[:64] or "unnamed"


def sendable_arguments(arguments: str) -> str:
    """The arguments as the model wrote them, or an empty object where they are not one."""
    try:
        _decode_object(arguments)
    except (msgspec.DecodeError, UnicodeError):
        return "{}"
    return arguments


def text_of_file(file: File) -> str | None:
    """The text of a text file; nothing for any other, or for an empty one."""
    if not file.media_type.startswith("text/") and file.media_type != "application/json":
        return None
    try:
        return base64.b64decode(file.data, validate=True).decode("utf-8", "replace") or None
    except binascii.Error:
        return None


def refused_by_vendor(block: Block, *, images: bool = True, pdf: bool = True) -> str:
    """What a block is, where a vendor that takes `images` and `pdf` refuses it; else nothing."""
    if isinstance(block, Image):
        is_visible = images and (bool(block.url) or block.media_type in IMAGE_TYPES)
        return "" if is_visible else f"an image of type {block.media_type}"
    if not isinstance(block, File) or block.url or (pdf and block.media_type == "application/pdf"):
        return ""
    return "" if text_of_file(block) is not None else f"the file {block.name!r} of type {block.media_type}"


def unsupported_by_model(block: Block, *, images: bool, files: bool) -> str:
    """What a block is, where a model that takes `images` and `files` cannot see it; else nothing."""
    if isinstance(block, Image) and not images:
        return f"an image of type {block.media_type}"
    if isinstance(block, File) and not files and text_of_file(block) is None:
        return f"the file {block.name!r} of type {block.media_type}"
    return ""


def with_placeholders(message: Message, *, images: bool, files: bool) -> Message:
    """The message with a word in place of each block that the model cannot see; in its answers, with none."""
    if images and files:
        return message
    content: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolResult):
            parts = tuple([_seen(part, images, files) for part in block.content])
            content.append(msgspec.structs.replace(block, content=parts))
        elif message.role != "assistant" or not unsupported_by_model(block, images=images, files=files):
            content.append(_seen(block, images, files))
    return msgspec.structs.replace(message, content=tuple(content))


def _seen(block: Block, images: bool, files: bool) -> Block:
    what = unsupported_by_model(block, images=images, files=files)
    return Text(placeholder(what)) if what else block


def without_foreign_data(message: Message, provider: str) -> Message:
    """The message without what another provider wrote for itself, and every request would be refused for."""
    for block in message.content:
        if getattr(block, "opaque", None) is not None and _is_foreign(block, provider):
            break
    else:
        return message
    content = [
        msgspec.structs.replace(block, opaque=None) if _is_foreign(block, provider) else block
        for block in message.content
    ]
    return msgspec.structs.replace(message, content=tuple(content))


def _is_foreign(block: Block, provider: str) -> bool:
    opaque = getattr(block, "opaque", None)
    return opaque is not None and opaque.provider not in ("", provider)


def placeholder(what: str) -> str:
    """In place of a block that a vendor refuses: each later request of the session would fail with it."""
    return f"[{what}, which this model cannot be shown]"


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
    """The part that Anthropic enforces: all objects closed, and its other words told in the description."""
    if not isinstance(schema, dict):
        return schema
    rest = dict(schema)
    result: Schema = {}
    if "$defs" in rest:
        result["$defs"] = {name: closed(inner) for name, inner in rest.pop("$defs").items()}
    if "$ref" in rest:
        return result | {"$ref": rest["$ref"]}
    for word, spelled in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if word in rest and not result.keys() & {"anyOf", "allOf"}:
            result[spelled] = [closed(inner) for inner in rest.pop(word)]
            rest.pop("type", None)
    kind = rest.pop("type", None)
    if kind is not None and not rest.keys() & {"enum", "const"}:
        result["type"] = kind
    if kind == "object":
        result["properties"] = {name: closed(inner) for name, inner in rest.pop("properties", {}).items()}
        result["additionalProperties"] = False
        rest.pop("additionalProperties", None)
    if isinstance(rest.get("items"), dict):
        result["items"] = closed(rest.pop("items"))
    if rest.get("format") in _CLOSED_FORMATS:
        result["format"] = rest.pop("format")
    if rest.get("minItems") in (0, 1):
        result["minItems"] = rest.pop("minItems")
    result |= {word: rest.pop(word) for word in _CLOSED_WORDS if word in rest}
    if rest:
        text = "{" + ", ".join(f"{word}: {value}" for word, value in rest.items()) + "}"
        result["description"] = f"{result['description']}\n\n{text}" if "description" in result else text
    return result
