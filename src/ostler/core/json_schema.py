"""JSON Schema: whether a value fits, the schema of a function's parameters, and coercion of arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from itertools import chain, repeat
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints

import msgspec

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


def schema_error(value: Any, schema: Any, whole: Schema | None = None, where: str = "it") -> str:
    """Why the value does not fit; empty if it does. Unknown keywords are ignored."""
    whole = schema if whole is None else whole
    if isinstance(schema, bool):
        return "" if schema else f"{where} is not allowed"
    if "$ref" in schema:
        return schema_error(value, resolve_reference(schema["$ref"], whole), whole, where)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is_of_kind(value, kind) for kind in kinds):
        return f"{where} is not of type {' or '.join(kinds)}"
    if "const" in schema and value != schema["const"]:
        return f"{where} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is none of {', '.join(map(repr, schema['enum']))}"
    for options in (schema.get("anyOf"), schema.get("oneOf")):
        if options and all(schema_error(value, option, whole, where) for option in options):
            return f"{where} fits none of its {len(options)} forms"
    for part in schema.get("allOf", ()):
        if problem := schema_error(value, part, whole, where):
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
    """Why it is not a schema: a type that does not exist, or a schema that is no object."""
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


def resolve_reference(reference: str, whole: Schema) -> Any:
    """The schema that a reference such as `#/$defs/place` names; if none, a schema that allows anything."""
    schema: Any = whole
    for name in filter(None, reference.removeprefix("#").split("/")):
        key = name.replace("~1", "/").replace("~0", "~")
        schema = schema.get(key, {}) if type(schema) is dict else {}
    return schema


def _object_mismatch(value: dict[str, Any], schema: Schema, whole: Schema, where: str) -> str:
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where} has no {name!r}"
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name, one in value.items():
        if name not in properties and others is False:
            return f"{where} has {name!r}, which is not allowed"
        if problem := schema_error(one, properties.get(name, others), whole, f"{name!r}"):
            return problem
    return ""


def _array_mismatch(value: list[Any], schema: Schema, whole: Schema, where: str) -> str:
    if len(value) < schema.get("minItems", 0):
        return f"{where} has fewer than {schema['minItems']} items"
    if len(value) > schema.get("maxItems", len(value)):
        return f"{where} has more than {schema['maxItems']} items"
    for number, one in enumerate(value, 1):
        if problem := schema_error(one, schema.get("items", True), whole, f"item {number} of {where}"):
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


_DEFINITIONS = "#/$defs/"
_HEADINGS = ("Args:", "Attributes:")
_AROUND_A_TYPE = (Union, UnionType, Required, NotRequired)


def parameters_of(function: Callable[..., Any], tool: str) -> type[msgspec.Struct]:
    """A struct with a field for each parameter but `context`."""
    hints = _hints_of(function)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "context":
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"tool {tool!r}: the parameter {parameter.name!r} cannot be passed by name")
        hint = hints.get(parameter.name, Any)
        has_default = parameter.default is not parameter.empty
        fields.append((parameter.name, hint, parameter.default) if has_default else (parameter.name, hint))
    return msgspec.defstruct(tool, fields, kw_only=True)


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The hints without those of the context and the result, which may name types that are not imported."""
    skipped = ("context", "return")
    hints = {name: hint for name, hint in function.__annotations__.items() if name not in skipped}
    annotated = SimpleNamespace(__annotations__=hints)
    return get_type_hints(annotated, globalns=function.__globals__, include_extras=True)


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The first paragraph, and the description of each name under `Args:` or `Attributes:`."""
    lines = inspect.cleandoc(text).splitlines() if text else []
    heading = next((place for place, line in enumerate(lines) if line.rstrip() in _HEADINGS), len(lines))
    about = " ".join("\n".join(lines[:heading]).strip().split("\n\n")[0].split())
    entries: list[list[str]] = []
    margin = 0
    for line in lines[heading + 1 :]:
        if line and not line[0].isspace():
            break  # the next heading
        words = line.strip()
        indent = len(line) - len(line.lstrip())
        margin = margin or (indent if words else 0)
        entry = _entry(words) if indent <= margin else None
        if entry:
            entries.append(entry)
        elif entries:
            entries[-1].append(words)
    return about, {name: " ".join(filter(None, texts)) for name, *texts in entries}


def _entry(words: str) -> list[str] | None:
    """The name and the text of `name: text` or `name (type): text`. Compiling a regular expression would take
    longer than reading all docstrings at start-up."""
    name, colon, text = words.partition(":")
    if "(" in name:
        name, colon, text = words.partition("):")
        name = name.partition("(")[0].rstrip()
    return [name, text.strip()] if colon and name.isidentifier() else None


def schema_of(parameters: type[msgspec.Struct], descriptions: dict[str, str] | None = None) -> Schema:
    """A JSON Schema of an object in a form that every vendor accepts. Nested types are inlined; only one that
    contains itself is a reference to `$defs`."""
    (root,), definitions = msgspec.json.schema_components([parameters], ref_template=_DEFINITIONS + "{name}")
    own = definitions[_name_of(root)]
    own.setdefault("properties", {})
    own.setdefault("required", [])
    own["additionalProperties"] = False
    _add_annotations(parameters, definitions, set())
    _add_descriptions(own, descriptions or {})
    for definition in definitions.values():
        about, fields = read_docstring(definition.pop("description", ""))
        if about:
            definition["description"] = about
        _add_descriptions(definition, fields)
    recursive: dict[str, Schema] = {}
    schema: Schema = _inlined(root, definitions, (), recursive)
    return schema | {"$defs": recursive} if recursive else schema


def _name_of(reference: Schema) -> str:
    name: str = reference["$ref"]
    return name.removeprefix(_DEFINITIONS)


def _add_descriptions(schema: Schema, descriptions: dict[str, str]) -> None:
    for name, text in descriptions.items():
        if name in schema.get("properties", {}):
            schema["properties"][name].setdefault("description", text)


def _add_annotations(hint: Any, definitions: dict[str, Schema], seen: set[Any]) -> None:
    """Adds texts (`Annotated[int, "text"]`) as descriptions of their fields, in nested types too."""
    for part in get_args(hint):
        _add_annotations(part, definitions, seen)
    kind = get_origin(hint) or hint
    if not isinstance(kind, type) or kind in seen or "properties" not in definitions.get(kind.__name__, {}):
        return
    seen.add(kind)
    hints = get_type_hints(kind, include_extras=True)
    fields, encoded = getattr(kind, "__struct_fields__", ()), getattr(kind, "__struct_encode_fields__", ())
    names = dict(zip(fields, encoded, strict=True))
    texts = {names.get(name, name): text for name, hint in hints.items() if (text := _plain_text(hint))}
    _add_descriptions(definitions[kind.__name__], texts)
    for inner in hints.values():
        _add_annotations(inner, definitions, seen)


def _plain_text(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        return next((extra for extra in hint.__metadata__ if isinstance(extra, str)), "")
    if get_origin(hint) in _AROUND_A_TYPE:
        return next(filter(None, map(_plain_text, get_args(hint))), "")
    return ""


def _inlined(
    schema: Any, definitions: dict[str, Schema], within: tuple[str, ...], recursive: dict[str, Schema]
) -> Any:
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = _name_of(schema)
        siblings = {word: value for word, value in schema.items() if word != "$ref"}
        if name not in within:
            return _inlined(definitions[name] | siblings, definitions, (*within, name), recursive)
        if name not in recursive:
            recursive[name] = {}  # first, because the definition refers to itself
            recursive[name] = _inlined(definitions[name], definitions, (name,), recursive)
        return schema

    def inner(part: Any) -> Any:
        return _inlined(part, definitions, within, recursive)

    # A discriminator refers to definitions, which are inlined.
    result = {word: value for word, value in schema.items() if word not in ("title", "discriminator")}
    for word in ("anyOf", "prefixItems"):
        if word in result:
            result[word] = list(map(inner, result[word]))
    for word in ("items", "additionalProperties"):
        if word in result:
            result[word] = inner(result[word])
    if "properties" in result:
        result["properties"] = {name: inner(part) for name, part in result["properties"].items()}
    if result.get("type") == "array" and not isinstance(result.get("items"), dict):
        result["items"] = _any_item(result.get("prefixItems", []))  # OpenAI refuses an array without it
    if "enum" in result and "type" not in result:
        kinds = {type(value) for value in result["enum"]}
        result |= {"type": "string"} if kinds == {str} else {"type": "integer"} if kinds == {int} else {}
    return result


def _any_item(items: list[Schema]) -> Schema:
    different = [item for place, item in enumerate(items) if item not in items[:place]]
    return {"anyOf": different} if len(different) > 1 else different[0] if different else {}


_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}

_BOOLEANS = {"true": True, "false": False}

_EXACT = 2**53
"""Below it, an integral float represents exactly one integer."""

_MAX_HOPS = 20
"""References may be circular."""


def coerce(arguments: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The arguments with `"5"`, `"TRUE"`, `1`, `3.0` or `"[1, 2]"` as the value that the schema requires.

    - Only if the schema allows one type. A value that cannot be converted stays, and fails validation.
    - A string stays where the schema allows strings, and so does a name that the schema does not have.
    - Returns the same object if nothing changes, otherwise a copy. Never raises, whatever the schema.
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
        kind, schema = _only_type(schema, whole)
    actual = type(value)
    if actual is str:
        return value if kind == "string" or kind not in _TYPES else _read(value, kind, schema, whole)
    if kind == "object" and actual is dict:
        return _fitted_object(value, schema, whole)
    if kind == "array" and actual is list:
        return _fitted_array(value, schema, whole)
    if kind == "boolean" and actual is int and value in (0, 1):
        return value == 1
    if kind == "integer" and actual is float and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value


def _only_type(schema: Any, whole: Schema) -> tuple[str, Schema]:
    """The one type that is allowed beside null, and its schema; an empty type if there are several."""
    for _ in range(_MAX_HOPS):
        if type(schema) is not dict:
            break
        kinds, options = schema.get("type"), schema.get("anyOf") or schema.get("oneOf")
        if type(schema.get("$ref")) is str:
            schema = resolve_reference(schema["$ref"], whole)
        elif type(options) is list:
            others = [one for one in options if type(one) is not dict or one.get("type") != "null"]
            schema = others[0] if len(others) == 1 else None
        elif type(kinds) is list:
            names = [kind for kind in kinds if kind != "null"]
            return (names[0] if len(names) == 1 and type(names[0]) is str else ""), schema
        elif kinds is None and "properties" in schema:
            return "object", schema
        else:
            return (kinds if type(kinds) is str else ""), schema
    return "", {}


def _read(text: str, kind: str, schema: Schema, whole: Schema) -> Any:
    """The value that the text encodes, if it has the type."""
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
    known = properties if type(properties) is dict else {}
    fitted = {name: _fitted(one, known.get(name, others), whole) for name, one in value.items()}
    return fitted if any(fitted[name] is not one for name, one in value.items()) else value


def _fitted_array(value: list[Any], schema: Schema, whole: Schema) -> list[Any]:
    first, others = schema.get("prefixItems"), schema.get("items")
    schemas = chain(first if type(first) is list else (), repeat(others))
    fitted = [_fitted(one, part, whole) for one, part in zip(value, schemas, strict=False)]
    return fitted if any(new is not old for new, old in zip(fitted, value, strict=True)) else value
