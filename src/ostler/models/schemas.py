"""The schema of an answer, as vendors take it: each knows only a part of JSON Schema."""

from __future__ import annotations

from typing import Any

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
    kept: Schema = {}
    if "$defs" in rest:
        kept["$defs"] = {name: closed(inner) for name, inner in rest.pop("$defs").items()}
    if "$ref" in rest:
        return kept | {"$ref": rest["$ref"]}
    for word, spelled in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if word in rest and not kept.keys() & {"anyOf", "allOf"}:
            kept[spelled] = [closed(inner) for inner in rest.pop(word)]
            rest.pop("type", None)
    kind = rest.pop("type", None)
    if kind is not None and not rest.keys() & {"enum", "const"}:
        kept["type"] = kind
    if kind == "object":
        kept["properties"] = {name: closed(inner) for name, inner in rest.pop("properties", {}).items()}
        kept["additionalProperties"] = False
        rest.pop("additionalProperties", None)
    if isinstance(rest.get("items"), dict):
        kept["items"] = closed(rest.pop("items"))
    if rest.get("format") in _CLOSED_FORMATS:
        kept["format"] = rest.pop("format")
    if rest.get("minItems") in (0, 1):
        kept["minItems"] = rest.pop("minItems")
    kept |= {word: rest.pop(word) for word in _CLOSED_WORDS if word in rest}
    if rest:
        told = "{" + ", ".join(f"{word}: {value}" for word, value in rest.items()) + "}"
        kept["description"] = f"{kept['description']}\n\n{told}" if "description" in kept else told
    return kept
