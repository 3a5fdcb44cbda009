"""Rows and types in the words of the documentation."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal

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
