"""Arguments as their schema wants them, where a model wrote the right value in the wrong type."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.kernel.json_schema import referred

Schema = dict[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_BOOLEANS = {"true": True, "false": False}
_EXACT = 2**53
"""Below it an integral float stands for one integer and no other."""
_MAX_HOPS = 20
"""References may lead in a circle."""


def normalised(arguments: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The arguments with `"5"`, `"TRUE"`, `1`, `3.0` or `"[1, 2]"` as the value that the schema asks for.

    - Only where the schema leaves one reading. What does not fit stays as it is, for validation to refuse.
    - A string that may be a string is never touched, nor is a name that the schema does not have.
    - The same object when nothing had to change; otherwise a copy. Nothing is raised, whatever the schema.
    """
    try:
        fitted = _fitted(arguments, schema, schema)
    except RecursionError:
        return arguments
    return fitted if type(fitted) is dict else arguments


def _fitted(value: Any, schema: Any, whole: Schema) -> Any:
    if type(schema) is not dict:
        return value
    kind = schema.get("type")
    if type(kind) is not str:
        kind, schema = _only_reading(schema, whole)
    given = type(value)
    if given is str:
        return value if kind == "string" or kind not in _TYPES else _read(value, kind, schema, whole)
    if kind == "object" and given is dict:
        return _fitted_object(value, schema, whole)
    if kind == "array" and given is list:
        return _fitted_array(value, schema, whole)
    if kind == "boolean" and given is int and value in (0, 1):
        return value == 1
    if kind == "integer" and given is float and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value


def _only_reading(schema: Any, whole: Schema) -> tuple[str, Schema]:
    """The one kind of value that is allowed beside null, and its schema; no kind when there are several."""
    for _ in range(_MAX_HOPS):
        if type(schema) is not dict:
            break
        kinds, options = schema.get("type"), schema.get("anyOf") or schema.get("oneOf")
        if type(schema.get("$ref")) is str:
            schema = referred(schema["$ref"], whole)
        elif type(options) is list:
            left = [one for one in options if type(one) is not dict or one.get("type") != "null"]
            schema = left[0] if len(left) == 1 else None
        elif type(kinds) is list:
            named = [kind for kind in kinds if kind != "null"]
            return (named[0] if len(named) == 1 and type(named[0]) is str else ""), schema
        elif kinds is None and "properties" in schema:
            return "object", schema
        else:
            return (kinds if type(kinds) is str else ""), schema
    return "", {}


def _read(text: str, kind: str, schema: Schema, whole: Schema) -> Any:
    """What the text spells, if that is of the kind."""
    if kind == "boolean":
        return _BOOLEANS.get(text.lower(), text)
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
    if type(value) is str:
        return text
    fitted = _fitted(value, schema, whole)
    return fitted if type(fitted) in _TYPES[kind] else text


def _fitted_object(value: dict[str, Any], schema: Schema, whole: Schema) -> dict[str, Any]:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    if type(properties) is not dict:
        properties = {}
    changed: dict[str, Any] | None = None
    for name, one in value.items():
        fitted = _fitted(one, properties.get(name, others), whole)
        if fitted is not one:
            changed = dict(value) if changed is None else changed
            changed[name] = fitted
    return value if changed is None else changed


def _fitted_array(value: list[Any], schema: Schema, whole: Schema) -> list[Any]:
    first, others = schema.get("prefixItems"), schema.get("items")
    if type(first) is not list:
        first = []
    changed: list[Any] | None = None
    for place, one in enumerate(value):
        fitted = _fitted(one, first[place] if place < len(first) else others, whole)
        if fitted is not one:
            changed = list(value) if changed is None else changed
            changed[place] = fitted
    return value if changed is None else changed
