"""The parameters of a tool: from type hints and a docstring to a struct and its JSON Schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints

import msgspec

Schema = dict[str, Any]

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
            raise TypeError(
                f"tool {tool!r}: every parameter must be one that can be passed by name; "
                f"{parameter.name!r} cannot"
            )
        hint = hints.get(parameter.name, Any)
        has_default = parameter.default is not parameter.empty
        fields.append((parameter.name, hint, parameter.default) if has_default else (parameter.name, hint))
    return msgspec.defstruct(tool, fields, kw_only=True)


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Of what the model passes. The context's and the result's hints may name what is imported elsewhere."""
    skipped = ("context", "return")
    written = {name: hint for name, hint in function.__annotations__.items() if name not in skipped}
    return get_type_hints(
        SimpleNamespace(__annotations__=written), globalns=function.__globals__, include_extras=True
    )


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The first paragraph, and what is said of each name under `Args:` or `Attributes:`."""
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
    return about, {name: " ".join(filter(None, told)) for name, *told in entries}


def _entry(words: str) -> list[str] | None:
    """The name and the text of `name: text` or `name (type): text`. Without a pattern, whose making takes
    longer than reading all docstrings of a start."""
    name, colon, text = words.partition(":")
    if "(" in name:
        name, colon, text = words.partition("):")
        name = name.partition("(")[0].rstrip()
    return [name, text.strip()] if colon and name.isidentifier() else None


def schema_of(parameters: type[msgspec.Struct], descriptions: dict[str, str] | None = None) -> Schema:
    """A JSON Schema of an object, spelled so that every vendor takes it.

    A nested type stands where it is used; only one that contains itself is referred to, in `$defs`.
    """
    (root,), definitions = msgspec.json.schema_components([parameters], ref_template=_DEFINITIONS + "{name}")
    own = definitions[_name_of(root)]
    own.setdefault("properties", {})
    own.setdefault("required", [])
    own["additionalProperties"] = False
    _tell_annotations(parameters, definitions, set())
    _tell(own, descriptions or {})
    for definition in definitions.values():
        about, told = read_docstring(definition.pop("description", ""))
        if about:
            definition["description"] = about
        _tell(definition, told)
    referred: dict[str, Schema] = {}
    schema: Schema = _spelled(root, definitions, (), referred)
    return schema | {"$defs": referred} if referred else schema


def _name_of(reference: Schema) -> str:
    name: str = reference["$ref"]
    return name.removeprefix(_DEFINITIONS)


def _tell(schema: Schema, descriptions: dict[str, str]) -> None:
    for name, text in descriptions.items():
        if name in schema.get("properties", {}):
            schema["properties"][name].setdefault("description", text)


def _tell_annotations(hint: Any, definitions: dict[str, Schema], seen: set[Any]) -> None:
    """Puts plain texts (`Annotated[int, "text"]`) beside the fields they describe, in nested types too."""
    for part in get_args(hint):
        _tell_annotations(part, definitions, seen)
    kind = get_origin(hint) or hint
    if not isinstance(kind, type) or kind in seen or "properties" not in definitions.get(kind.__name__, {}):
        return
    seen.add(kind)
    hints = get_type_hints(kind, include_extras=True)
    told = {name: _plain_text(hint) for name, hint in hints.items()}
    renamed = zip(
        getattr(kind, "__struct_fields__", ()), getattr(kind, "__struct_encode_fields__", ()), strict=True
    )
    spelled = dict(renamed)
    _tell(definitions[kind.__name__], {spelled.get(name, name): text for name, text in told.items() if text})
    for inner in hints.values():
        _tell_annotations(inner, definitions, seen)


def _plain_text(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        return next((extra for extra in hint.__metadata__ if isinstance(extra, str)), "")
    if get_origin(hint) in _AROUND_A_TYPE:
        return next(filter(None, map(_plain_text, get_args(hint))), "")
    return ""


def _spelled(
    schema: Any, definitions: dict[str, Schema], within: tuple[str, ...], referred: dict[str, Schema]
) -> Any:
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = _name_of(schema)
        beside = {word: value for word, value in schema.items() if word != "$ref"}
        if name not in within:
            return _spelled(definitions[name] | beside, definitions, (*within, name), referred)
        if name not in referred:
            referred[name] = {}  # before it is looked into: it leads back here
            referred[name] = _spelled(definitions[name], definitions, (name,), referred)
        return schema

    def inner(part: Any) -> Any:
        return _spelled(part, definitions, within, referred)

    # A discriminator maps to definitions, which are not there any more.
    spelled = {word: value for word, value in schema.items() if word not in ("title", "discriminator")}
    for word in ("anyOf", "prefixItems"):
        if word in spelled:
            spelled[word] = list(map(inner, spelled[word]))
    for word in ("items", "additionalProperties"):
        if word in spelled:
            spelled[word] = inner(spelled[word])
    if "properties" in spelled:
        spelled["properties"] = {name: inner(part) for name, part in spelled["properties"].items()}
    if spelled.get("type") == "array" and not isinstance(spelled.get("items"), dict):
        spelled["items"] = _any_item(spelled.get("prefixItems", []))  # OpenAI refuses an array without
    if "enum" in spelled and "type" not in spelled:
        kinds = {type(value) for value in spelled["enum"]}
        spelled |= {"type": "string"} if kinds == {str} else {"type": "integer"} if kinds == {int} else {}
    return spelled


def _any_item(items: list[Schema]) -> Schema:
    different = [item for place, item in enumerate(items) if item not in items[:place]]
    return {"anyOf": different} if len(different) > 1 else different[0] if different else {}
