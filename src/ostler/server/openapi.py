"""The OpenAPI document, generated from the types and docstrings of the routes."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import typing
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from ostler import __version__
from ostler.schema.events import EVENT_TYPES, Entry, Record
from ostler.server.idempotency import LONGEST_KEY
from ostler.server.operations import Operation
from ostler.server.problems import MEDIA_TYPE, Problem


def docs_of_fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The docstrings of fields, by their encoded names."""
    docs: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        docs |= _docs_in(base.__module__).get(base.__name__, {})
    return {one.encode_name: docs[one.name] for one in msgspec.structs.fields(struct) if one.name in docs}


@cache
def _docs_in(module: str) -> dict[str, dict[str, str]]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):  # without a source, as in a frozen program
        return {}
    return {node.name: _docs_of(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _docs_of(node: ast.ClassDef) -> dict[str, str]:
    docs = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            docs[field.target.id] = " ".join(str(below.value.value).split())
    return docs


def structs_in(types: Iterable[Any]) -> list[type[msgspec.Struct]]:
    """All structs that these types are made of."""
    structs: dict[type[msgspec.Struct], None] = {}

    def visit(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            if hint not in structs:
                structs[hint] = None
                for inner in typing.get_type_hints(hint, include_extras=True).values():
                    visit(inner)
            return
        for inner in typing.get_args(hint):
            visit(inner)

    for one in types:
        visit(one)
    return list(structs)


REF = "#/components/schemas/{name}"
_NOTHING = (None, type(None), bytes)
_PARAMETERS = {"session": "The full id of a session.", "request_id": "The id of a request."}
_KEY_PATTERN = "^[!-~]([ -~]*[!-~])?$"
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key again, within a day, is the same request: it happens once, and its answer "
    "is given again. With another request it is refused with 422.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": _KEY_PATTERN},
}

_ABOUT = (
    "Sessions of agents: their events, and requests to them. A fact is something that has "
    "happened: it is stored, and numbered in its session. A request is something that is asked of a session; "
    "facts say what became of it."
)


class Envelope(msgspec.Struct, frozen=True):
    """The fields of every fact besides those of its event."""

    seq: int
    """Its number in its session: 1, 2, 3 …"""
    session: str
    run: str
    """The run that it belongs to; empty outside of runs."""
    time: str
    """RFC 3339, in UTC."""
    parent: int | msgspec.UnsetType = msgspec.UNSET
    """Of an entry: the entry before it on its path; 0 for the first."""
    origin: str | msgspec.UnsetType = msgspec.UNSET
    """Of a copy: the session and number of the original."""


FACTS = {tag: kind for tag, kind in EVENT_TYPES.items() if issubclass(kind, Entry | Record)}


def openapi(operations: Iterable[Operation], prefix: str) -> dict[str, Any]:
    operations = list(operations)
    types: list[Any] = [Problem, Envelope, *FACTS.values()]
    for operation in operations:
        types += [kind for kind in (operation.types.get("body"), operation.answers) if kind not in _NOTHING]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    schema_of = {_key(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    _dedent_descriptions(components)
    _describe_fields(components, types)
    _leave_out_false(components)
    components["Fact"] = _fact(schema_of)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _described(operation, schema_of)
        paths.setdefault(prefix + operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ostler", "version": __version__, "description": _ABOUT},
        "tags": [{"name": name} for name in dict.fromkeys(operation.tag for operation in operations)],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Created by `ostler token`, with a scope, or by `login` for a page: then "
                    "whatever is not GET needs the header `X-Ostler: 1`.",
                },
            },
        },
    }


def _key(kind: Any) -> Any:
    return kind if isinstance(kind, type) else repr(kind)


def _fact(schema_of: dict[Any, Any]) -> dict[str, Any]:
    kinds = {tag: schema_of[kind] for tag, kind in FACTS.items()}
    mapping = {tag: schema["$ref"] for tag, schema in kinds.items()}
    return {
        "title": "Fact",
        "description": "Something that has happened. Newer versions may add types.",
        "allOf": [
            schema_of[Envelope],
            {"anyOf": list(kinds.values()), "discriminator": {"propertyName": "type", "mapping": mapping}},
        ],
    }


def _dedent_descriptions(components: dict[str, Any]) -> None:
    """Docstrings are indented before Python 3.13."""
    for component in components.values():
        if "description" in component:
            component["description"] = inspect.cleandoc(component["description"])


def _describe_fields(components: dict[str, Any], types: Iterable[Any]) -> None:
    named: dict[str, set[type[msgspec.Struct]]] = {}
    for struct in structs_in(types):
        named.setdefault(struct.__name__, set()).add(struct)
    for name, component in components.items():
        if len(structs := named.get(name, set())) != 1:
            continue
        for field, text in docs_of_fields(*structs).items():
            if (schema := component.get("properties", {}).get(field)) is not None:
                schema.setdefault("description", text)


def _leave_out_false(schema: Any) -> None:
    """Removes `items: false` of tuples: `maxItems` says the same, and client generators cannot read it."""
    if isinstance(schema, dict):
        if schema.get("items") is False:
            del schema["items"]
        for inner in schema.values():
            _leave_out_false(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _leave_out_false(inner)


def _described(operation: Operation, schema_of: dict[Any, Any]) -> dict[str, Any]:
    hints = operation.types
    summary, _, description = inspect.getdoc(operation.handler).partition("\n\n")  # type: ignore[union-attr]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": " ".join(summary.split()).rstrip("."),
    }
    if description:
        described["description"] = " ".join(description.split())
    parameters = [*_path_parameters(operation), *_query_parameters(hints.get("query"))]
    if operation.method == "POST" and "none" not in operation.access:
        parameters.append(_KEY)
    if parameters:
        described["parameters"] = parameters
    if body := _body(operation, schema_of):
        described["requestBody"] = body
    described["responses"] = _responses(operation, schema_of)
    described["security"] = [{"token": [one]} for one in operation.access if one != "none"]
    return described


def _body(operation: Operation, schema_of: dict[Any, Any]) -> dict[str, Any]:
    if operation.consumes:
        media_type = "application/octet-stream" if operation.consumes == "*/*" else operation.consumes
        schema = {"type": "string", "contentMediaType": media_type}
        return {"required": True, "content": {media_type: {"schema": schema}}}
    if (kind := operation.types.get("body")) is None:
        return {}
    try:
        msgspec.convert({}, kind)
        required = False
    except msgspec.ValidationError:
        required = True
    return {"required": required, "content": {"application/json": {"schema": schema_of[_key(kind)]}}}


def _responses(operation: Operation, schema_of: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status in sorted({operation.status, *operation.also}):
        responses[str(status)] = _answer(operation, status, schema_of)
    if operation.method == "GET" and operation.media_type == "application/json":
        responses["304"] = {"description": "Unchanged since `If-None-Match`."}
    problem = {"content": {MEDIA_TYPE: {"schema": schema_of[Problem]}}}
    if "none" not in operation.access:
        responses["401"] = {"description": "Authentication is missing or invalid.", **problem}
        forbidden = "The token does not allow it, or the origin is not allowed."
        responses["403"] = {"description": forbidden, **problem}
    if "{" in operation.path:
        responses["404"] = {"description": "Not found.", **problem}
    responses["default"] = {"description": "The error.", **problem}
    return responses


def _answer(operation: Operation, status: int, schema_of: dict[Any, Any]) -> dict[str, Any]:
    if status == 204:
        return {"description": "Done."}
    description = "Accepted; it waits in the inbox." if status == 202 else "The result."
    if operation.answers in _NOTHING:
        text: dict[str, Any] = {"type": "string"}
        kinds = (operation.media_type, *operation.also_as)
        content = {kind: {"schema": text if kind.startswith("text/") else {}} for kind in kinds}
    else:
        content = {operation.media_type: {"schema": schema_of[_key(operation.answers)]}}
        content |= {kind: {"schema": {"type": "string"}} for kind in operation.also_as}
    return {"description": description, "content": content}


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PARAMETERS.get(name, f"The id of the {name.replace('_', ' ')}."),
            "schema": {"type": "string", "minLength": 1},
        }
        for name in re.findall(r"{(\w+)(?::\w+)?}", operation.path)
    ]


def _query_parameters(kind: Any) -> list[dict[str, Any]]:
    if kind is None:
        return []
    (schema,), components = msgspec.json.schema_components([kind], ref_template=REF)
    described = components[schema["$ref"].rsplit("/", 1)[1]]
    required, docs = described.get("required", []), docs_of_fields(kind)
    return [
        {"name": name, "in": "query", "required": name in required}
        | ({"description": docs[name]} if name in docs else {})
        | {"schema": schema}
        for name, schema in described["properties"].items()
    ]
