"""What stands below the fields of structs, for the OpenAPI document: Python itself forgets it."""

from __future__ import annotations

import ast
import inspect
import sys
import typing
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec


def docs_of_fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    """By the names that the fields have on the wire."""
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
    found: dict[type[msgspec.Struct], None] = {}

    def visit(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            if hint not in found:
                found[hint] = None
                for inner in typing.get_type_hints(hint, include_extras=True).values():
                    visit(inner)
            return
        for inner in typing.get_args(hint):
            visit(inner)

    for one in types:
        visit(one)
    return list(found)
