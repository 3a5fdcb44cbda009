"""Describes what is wrong with a value in a configuration."""

from __future__ import annotations

from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

_SECRET = frozenset({"api_key", "base_url", "headers", "key_command"})
"""Settings whose values may contain a key."""

_NOUNS = {bool: "true or false", int: "a whole number", float: "a number"}


def describe_mismatch(value: Any, kind: Any, path: str = "", *, strict: bool = True) -> str:
    """The first part of the value that does not fit its type, and where it is; empty if all of it fits."""
    try:
        msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError:
        kind = _without_none(kind)
    else:
        return ""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _describe_table_mismatch(value, kind, path, strict)
    parts: list[tuple[str, Any]] = []
    if get_origin(kind) is dict:
        if not isinstance(value, dict):
            return f"{path} must be a table"
        parts = [(_joined(path, key), one) for key, one in value.items()]
    elif get_origin(kind) is tuple and isinstance(value, list) and not _is_plain(get_args(kind)[0]):
        parts = [(f"{path}[{number}]", one) for number, one in enumerate(value)]
    inner = get_args(kind)[-1 if get_origin(kind) is dict else 0] if parts else None
    for place, part in parts:
        if problem := describe_mismatch(part, inner, place, strict=strict):
            return problem
    actual = "" if _SECRET & set(path.split(".")) else f", not {value!r}"
    return f"{path} must be {_describe_type(kind)}{actual}"


def _describe_table_mismatch(value: Any, kind: type[msgspec.Struct], path: str, strict: bool) -> str:
    if not isinstance(value, dict):
        return f"{path} must be a table"
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name, one in value.items():
        if name not in fields:
            near = get_close_matches(name, fields, n=1)
            return f"there is no setting {_joined(path, name)}" + (f"; is it {near[0]}?" if near else "")
        if problem := describe_mismatch(one, fields[name].type, _joined(path, name), strict=strict):
            return problem
    return f"{path} needs {', '.join(name for name in fields if fields[name].required and name not in value)}"


def _describe_type(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(sorted(map(str, get_args(kind))))}"
    if get_origin(kind) is tuple:
        element = get_args(kind)[0]
        return f"a list of {', '.join(sorted(get_args(element)))}" if get_args(element) else "a list of texts"
    if get_origin(kind) is Annotated:
        plain, limits = get_args(kind)
        least = f" from {limits.ge} on" if limits.ge is not None else f" above {limits.gt}"
        most = f", at most {limits.le}" if limits.le is not None else ""
        return f"{_NOUNS[plain]}{least}{most}"
    return _NOUNS.get(kind, "a text")


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        return next(one for one in get_args(kind) if one is not NoneType)
    return kind


def _is_plain(kind: Any) -> bool:
    return kind is str or get_origin(kind) is Literal


def _joined(path: str, name: str) -> str:
    """The path of a name, as written in the file."""
    word = name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'
    return f"{path}.{word}" if path else word
