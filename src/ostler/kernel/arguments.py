"""Arguments that were checked: a struct, or what is wrong with them in words that a model can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from ostler.kernel.json_schema import mismatch, referred
from ostler.kernel.parameters import Schema, schema_of
from ostler.vocabulary.errors import InvalidArguments

Parameters = TypeVar("Parameters", bound=msgspec.Struct)
Place = tuple[list[Schema], Any, str]
"""What is allowed somewhere in the arguments, what is there, and how that place is called."""

_MISSING, _UNKNOWN = "Object missing required field", "Object contains unknown field"
_FORMAT = r"Invalid ((?:RFC3339|ISO8601|base64|UUID|decimal|epoch)\b.*)"
_STEP = r"\.([^.\[]+)|\[(\d+|\.\.\.)\]"
_NOUNS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "above {}",
    "exclusiveMaximum": "below {}",
    "multipleOf": "a multiple of {}",
    "minLength": "of length {} or more",
    "maxLength": "of length {} or less",
    "minItems": "of length {} or more",
    "maxItems": "of length {} or less",
    "pattern": "matching {}",
    "format": "in the format {}",
    "contentEncoding": "in {}",
}
_EXCERPT = 60


def checked(arguments: dict[str, Any], parameters: type[Parameters], tool: str) -> Parameters:
    """The arguments as a struct; an error that tells the model which one is wrong and what is expected."""
    unknown = [name for name in arguments if name not in parameters.__struct_encode_fields__]
    if unknown:
        known = ", ".join(parameters.__struct_encode_fields__) or "none"
        raise InvalidArguments(f"{tool} has no parameter {unknown[0]!r}; its parameters are: {known}")
    try:
        return msgspec.convert(arguments, parameters)
    except msgspec.ValidationError as error:
        problem = _in_words(error, arguments, schema_of(parameters))
        raise InvalidArguments(f"invalid arguments for {tool}: {problem}") from None


def _in_words(error: msgspec.ValidationError, arguments: dict[str, Any], schema: Schema) -> str:
    said, _, path = str(error).removesuffix("`").partition(" - at `")
    is_key = path.startswith("key` in `")
    allowed, value, place = _at(path.removeprefix("key` in `"), arguments, schema)
    if error.__cause__ is not None:  # what the type's own code says of its values
        return f"{place}: {said}" if place else said
    if said.startswith(_MISSING):
        name = said.removeprefix(_MISSING).strip(" `")
        inside, _, missing = _step((allowed, value, place), name, schema)
        return f"{missing} is missing; it must be {_described(inside)}"
    if said.startswith(_UNKNOWN):
        name = said.removeprefix(_UNKNOWN).strip(" `")
        return f"{place} has no {name!r}; it must be {_described(allowed)}"
    if is_key:
        names = [one["propertyNames"] for one in allowed if "propertyNames" in one]
        return f"a name in {place} must be {_described([{'type': 'string'} | name for name in names])}"
    form = re.fullmatch(_FORMAT, said)
    return f"{place} must be {f'a valid {form[1]}' if form else _described(allowed)}; got {_excerpt(value)}"


def _at(path: str, arguments: Any, schema: Schema) -> Place:
    """The place that a path such as `$.items[2].city` leads to."""
    place: Place = list(_alternatives(schema, schema)), arguments, ""
    for name, index in re.findall(_STEP, path.removeprefix("$")):
        if index == "...":  # some name that is not told: the first whose value does not fit
            allowed, value, _ = place
            name = next((name for name in value if _misfits(allowed, name, value[name], schema)), "...")
        place = _step(place, int(index) if index.isdigit() else name, schema)
    return place


def _step(place: Place, step: str | int, whole: Schema) -> Place:
    allowed, value, shown = place
    inside = [one for schema in allowed for one in _alternatives(_inner(schema, step), whole)]
    if isinstance(step, int):
        return inside, value[step], f"{shown}[{step}]"
    found = value.get(step) if isinstance(value, dict) else None
    return inside, found, f"{shown}.{step}" if shown else step


def _inner(schema: Schema, step: str | int) -> Any:
    if isinstance(step, str):
        return schema.get("properties", {}).get(step, schema.get("additionalProperties"))
    first = schema.get("prefixItems", [])
    return first[step] if step < len(first) else schema.get("items")


def _misfits(allowed: list[Schema], name: str, value: Any, whole: Schema) -> bool:
    return all(mismatch(value, _inner(schema, name), whole) for schema in allowed if _inner(schema, name))


def _alternatives(schema: Any, whole: Schema) -> Iterator[Schema]:
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield from _alternatives(referred(schema["$ref"], whole), whole)
    elif "anyOf" in schema:
        for option in schema["anyOf"]:
            yield from _alternatives(option, whole)
    else:
        yield schema


def _described(allowed: list[Schema]) -> str:
    values = [value for schema in allowed for value in schema.get("enum", ())]
    kinds = [_kind(schema) for schema in allowed if "enum" not in schema]
    told = [f"one of {', '.join(map(_excerpt, values))}"] if values else []
    return " or ".join(dict.fromkeys(told + kinds)) or "something else"


def _kind(schema: Schema) -> str:
    noun = _NOUNS.get(schema.get("type", ""), "any value")
    if schema.get("properties"):
        noun += f" {{{', '.join(schema['properties'])}}}"
    limits = [words.format(schema[word]) for word, words in _LIMITS.items() if word in schema]
    return f"{noun} ({', '.join(limits)})" if limits else noun


def _excerpt(value: Any) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"
