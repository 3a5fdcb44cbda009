"""Hypothesis strategies for events of all types, built from the types of their fields."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal

import msgspec
from hypothesis import strategies as st

from ostler.schema.events import EVENT_TYPES, Event

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INTEGER = st.integers(-(2**53), 2**53)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGER | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: INTEGER,
    float: NUMBER,
    bool: st.booleans(),
    types.NoneType: st.none(),
    Any: JSON,
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(TEXT, values(arguments[1]), max_size=3)
    if hint in SIMPLE:
        return SIMPLE[hint]
    return structs(hint)


def structs(shape: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(shape)
    fields = msgspec.structs.fields(shape)
    required = {field.name: values(hints[field.name]) for field in fields if field.required}
    optional = {field.name: values(hints[field.name]) for field in fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: shape(**fields))


def any_event() -> st.SearchStrategy[Event]:
    return st.sampled_from(list(EVENT_TYPES.values())).flatmap(structs)
