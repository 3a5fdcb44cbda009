"""Whether a value fits a JSON Schema."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.core.json_schema import schema_error, schema_of, schema_problem

HORSE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "pattern": "^[A-Z]"},
        "hands": {"type": "integer", "minimum": 8, "exclusiveMaximum": 20},
        "gaits": {"type": "array", "items": {"enum": ["walk", "trot"]}, "minItems": 1, "maxItems": 2},
        "owner": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/person"}]},
    },
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {
        "person": {"type": "object", "required": ["email"], "properties": {"email": {"type": "string"}}}
    },
}


@pytest.mark.parametrize(
    "value",
    [
        {"name": "Bess"},
        {"name": "Bess", "hands": 15.0, "gaits": ["walk", "trot"], "owner": None},
        {"name": "Bess", "owner": {"email": "a@b"}},
    ],
)
def test_a_value_that_fits_has_no_error(value: Any) -> None:
    assert schema_error(value, HORSE) == ""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "it is not of type object"),
        ({}, "it has no 'name'"),
        ({"name": "Bess", "colour": 1}, "it has 'colour', which is not allowed"),
        ({"name": ""}, "'name' is shorter than 1 characters"),
        ({"name": "bess"}, "'name' does not match '^[A-Z]'"),
        ({"name": "Bess", "hands": True}, "'hands' is not of type integer"),
        ({"name": "Bess", "hands": 15.5}, "'hands' is not of type integer"),
        ({"name": "Bess", "hands": 7}, "'hands' is too small"),
        ({"name": "Bess", "hands": 20}, "'hands' is too large"),
        ({"name": "Bess", "gaits": []}, "'gaits' has fewer than 1 items"),
        ({"name": "Bess", "gaits": ["walk", "fly"]}, "item 2 of 'gaits' is none of 'walk', 'trot'"),
        ({"name": "Bess", "owner": {}}, "'owner' fits none of its 2 forms"),
    ],
)
def test_a_value_that_does_not_fit_is_described(value: Any, words: str) -> None:
    assert schema_error(value, HORSE) == words


def test_a_schema_with_an_unknown_type_is_refused() -> None:
    assert schema_problem(HORSE) == ""
    assert "there is no type 'objekt'" in schema_problem({"properties": {"a": {"type": "objekt"}}})
    assert schema_problem({"items": 7}) == "a schema must be an object, not 7"


class Rider(msgspec.Struct):
    name: str
    weight: float = 70.0
    horses: list[str] = []


@given(st.builds(Rider, name=st.text(), weight=st.floats(allow_nan=False), horses=st.lists(st.text())))
def test_every_value_of_a_type_fits_its_schema(rider: Rider) -> None:
    assert schema_error(msgspec.to_builtins(rider), schema_of(Rider)) == ""
