"""Rows and types in the words of the documentation."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from typing import Any, Literal

import msgspec

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null", Any: "any"}


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def spelled(hint: Any) -> str:
    """A type in the words of JSON."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(spelled(argument) for argument in arguments)
    if origin is tuple:
        inner = spelled(arguments[0])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if origin is dict:
        return "object"
    return _NAMES.get(hint) or str(hint.__name__)


def field_docstrings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The string below each field. Python does not keep those, so they are read from the source."""
    (definition,) = ast.parse(inspect.getsource(struct)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[field.target.id] = text
    return found
