"""Whether a value fits a JSON Schema: the words that schemas of tools and answers use."""

from __future__ import annotations

import re
from typing import Any

Schema = dict[str, Any]

_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def mismatch(value: Any, schema: Any, whole: Schema | None = None, where: str = "it") -> str:
    """Why the value does not fit, in words; empty when it does. Words that are not known forbid nothing."""
    whole = schema if whole is None else whole
    if isinstance(schema, bool):
        return "" if schema else f"{where} is not allowed"
    if "$ref" in schema:
        return mismatch(value, referred(schema["$ref"], whole), whole, where)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is_of_kind(value, kind) for kind in kinds):
        return f"{where} is not of type {' or '.join(kinds)}"
    if "const" in schema and value != schema["const"]:
        return f"{where} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is none of {', '.join(map(repr, schema['enum']))}"
    for options in (schema.get("anyOf"), schema.get("oneOf")):
        if options and all(mismatch(value, option, whole, where) for option in options):
            return f"{where} fits none of its {len(options)} forms"
    for part in schema.get("allOf", ()):
        if problem := mismatch(value, part, whole, where):
            return problem
    if isinstance(value, dict):
        return _object_mismatch(value, schema, whole, where)
    if isinstance(value, list):
        return _array_mismatch(value, schema, whole, where)
    if isinstance(value, str):
        return _text_mismatch(value, schema, where)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number_mismatch(value, schema, where)
    return ""


def schema_problem(schema: Any) -> str:
    """What makes it no schema at all: a type that does not exist, or a schema that is no object."""
    if isinstance(schema, bool):
        return ""
    if not isinstance(schema, dict):
        return f"a schema must be an object, not {schema!r:.40}"
    kinds = schema.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in _KINDS:
            return f"there is no type {kind!r}; the types are: {', '.join(_KINDS)}"
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return next(filter(None, map(schema_problem, inner)), "")


def _is_of_kind(value: Any, kind: str) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS.get(kind, (object,)))


def referred(reference: str, whole: Schema) -> Any:
    """The schema that a reference such as `#/$defs/place` leads to; one that allows everything if to none."""
    found: Any = whole
    for name in reference.removeprefix("#").strip("/").split("/"):
        if name:
            found = found.get(name.replace("~1", "/").replace("~0", "~"), {}) if type(found) is dict else {}
    return found


def _object_mismatch(value: dict[str, Any], schema: Schema, whole: Schema, where: str) -> str:
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} has no {name!r}"
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name, one in value.items():
        if name not in properties and others is False:
            return f"{where} has {name!r}, which is not allowed"
        if problem := mismatch(one, properties.get(name, others), whole, f"{name!r}"):
            return problem
    return ""


def _array_mismatch(value: list[Any], schema: Schema, whole: Schema, where: str) -> str:
    if len(value) < schema.get("minItems", 0):
        return f"{where} has fewer than {schema['minItems']} items"
    if len(value) > schema.get("maxItems", len(value)):
        return f"{where} has more than {schema['maxItems']} items"
    for number, one in enumerate(value, 1):
        if problem := mismatch(one, schema.get("items", True), whole, f"item {number} of {where}"):
            return problem
    return ""


def _text_mismatch(value: str, schema: Schema, where: str) -> str:
    if len(value) < schema.get("minLength", 0):
        return f"{where} is shorter than {schema['minLength']} characters"
    if len(value) > schema.get("maxLength", len(value)):
        return f"{where} is longer than {schema['maxLength']} characters"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return f"{where} does not match {schema['pattern']!r}"
    return ""


def _number_mismatch(value: float, schema: Schema, where: str) -> str:
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if value < schema.get("minimum", value) or (above is not None and value <= above):
        return f"{where} is too small"
    if value > schema.get("maximum", value) or (below is not None and value >= below):
        return f"{where} is too large"
    return ""
