"""The OpenAPI document, made from the same types as the routes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from ostler import __version__
from ostler.faces.web.operations import Operation
from ostler.faces.web.problems import MEDIA_TYPE, Problem

REF = "#/components/schemas/{name}"
_NOTHING = (None, type(None), bytes)


def openapi(operations: Iterable[Operation], prefix: str) -> dict[str, Any]:
    operations = list(operations)
    types = [Problem]
    for operation in operations:
        types += [kind for kind in (operation.types.get("body"), operation.answers) if kind not in _NOTHING]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    schema_of = {_key(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(prefix + operation.path, {})[operation.method.lower()] = _described(
            operation, schema_of
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ostler",
            "version": __version__,
            "description": "Sessions of agents: what happens in them, and what can be asked of them.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "ostler_session"},
            },
        },
        "security": [{"token": []}, {"cookie": []}],
    }


def _key(kind: Any) -> Any:
    return kind if isinstance(kind, type) else repr(kind)


def _described(operation: Operation, schema_of: dict[Any, Any]) -> dict[str, Any]:
    hints = operation.types
    summary, _, description = inspect.getdoc(operation.handler).partition("\n\n")  # type: ignore[union-attr]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": " ".join(summary.split()).rstrip("."),
        "responses": {
            str(operation.status): _answer(operation, schema_of),
            "default": {
                "description": "What went wrong.",
                "content": {MEDIA_TYPE: {"schema": schema_of[_key(Problem)]}},
            },
        },
    }
    if description:
        described["description"] = " ".join(description.split())
    if operation.access == "none":
        described["security"] = []
    parameters = [*_path_parameters(operation, hints), *_query_parameters(hints.get("query"))]
    if parameters:
        described["parameters"] = parameters
    if "body" in hints:
        schema = schema_of.get(_key(hints["body"]), {})
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return described


def _answer(operation: Operation, schema_of: dict[Any, Any]) -> dict[str, Any]:
    if operation.status == 204:
        return {"description": "Done."}
    schema = schema_of.get(_key(operation.answers), {})
    return {"description": "What was asked for.", "content": {operation.media_type: {"schema": schema}}}


def _path_parameters(operation: Operation, hints: dict[str, Any]) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)(?::\w+)?}", operation.path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(kind: Any) -> list[dict[str, Any]]:
    if kind is None:
        return []
    (schema,), components = msgspec.json.schema_components([kind], ref_template=REF)
    described = components[schema["$ref"].rsplit("/", 1)[1]]
    required = described.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in described["properties"].items()
    ]
