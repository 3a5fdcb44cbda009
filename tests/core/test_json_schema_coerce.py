"""Arguments in the wrong type are put right where the schema leaves one reading, and left alone elsewhere."""

from __future__ import annotations

import copy
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from ostler.core.function_tool import validate_arguments
from ostler.core.json_schema import coerce, schema_of


class Stop(Struct, kw_only=True):
    city: str
    nights: int = 1
    sure: bool = False
    before: Stop | None = None


class Journey(Struct, kw_only=True):
    name: str = ""
    note: str | None = None
    n: int = 0
    x: float = 0
    flag: bool = False
    limit: Annotated[int, Meta(ge=0, le=10)] | None = None
    numbers: list[int] = []
    grid: list[list[float]] = []
    stop: Stop | None = None
    stops: list[Stop] = []
    prices: dict[str, float] = {}
    either: int | str = 0
    both: int | bool = 0
    pair: tuple[int, bool] = (0, False)
    anything: Any = None
    level: Literal[1, 2] = 1
    word: Literal["1", "true"] = "1"


SCHEMA = schema_of(Journey)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"n": "5", "flag": "TRUE", "numbers": "[1,2]"}, {"n": 5, "flag": True, "numbers": [1, 2]}),
        ({"flag": "False"}, {"flag": False}),
        ({"flag": 1}, {"flag": True}),
        ({"flag": 0}, {"flag": False}),
        ({"n": "-7"}, {"n": -7}),
        ({"n": 3.0}, {"n": 3}),
        ({"n": "3.0"}, {"n": 3}),
        ({"n": "1e2"}, {"n": 100}),
        ({"x": "5"}, {"x": 5}),
        ({"x": " 5.5\n"}, {"x": 5.5}),
        ({"limit": "7"}, {"limit": 7}),
        ({"limit": "70"}, {"limit": 70}),
        ({"level": "2"}, {"level": 2}),
        ({"numbers": ["1", 2, 3.0]}, {"numbers": [1, 2, 3]}),
        ({"numbers": '["1", 2]'}, {"numbers": [1, 2]}),
        ({"grid": [["1.5"], "[2]"]}, {"grid": [[1.5], [2]]}),
        ({"stop": '{"city": "5", "nights": "2"}'}, {"stop": {"city": "5", "nights": 2}}),
        (
            {"stops": [{"city": "a", "before": {"city": "b", "sure": "true"}}]},
            {"stops": [{"city": "a", "before": {"city": "b", "sure": True}}]},
        ),
        ({"prices": {"a": "1.5"}}, {"prices": {"a": 1.5}}),
        ({"pair": ["1", 1]}, {"pair": [1, True]}),
    ],
    ids=lambda one: str(one)[:40],
)
def test_unambiguous_values_are_converted(arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy(arguments)
    result = coerce(arguments, SCHEMA)
    assert msgspec.json.encode(result) == msgspec.json.encode(expected)
    assert arguments == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "[1]"},
        {"name": "5"},
        {"name": 5},
        {"note": "null"},
        {"n": "5.5"},
        {"n": 5.5},
        {"n": "five"},
        {"n": "1_000"},
        {"n": "0x10"},
        {"n": "٣"},
        {"n": ""},
        {"n": "true"},
        {"n": True},
        {"n": None},
        {"n": '"5"'},
        {"n": 1e300},
        {"n": "1e999"},
        {"n": "9" * 5000},
        {"n": float("nan")},
        {"x": "NaN"},
        {"x": "Infinity"},
        {"x": "true"},
        {"flag": "yes"},
        {"flag": "1"},
        {"flag": 2},
        {"flag": 1.0},
        {"flag": None},
        {"numbers": "1, 2"},
        {"numbers": "{}"},
        {"numbers": "[1"},
        {"numbers": "[" * 100_000},
        {"numbers": '"\ud800"'},
        {"numbers": 7},
        {"stop": "[]"},
        {"stop": "null"},
        {"stop": None},
        {"either": "5"},
        {"both": "5"},
        {"both": "true"},
        {"anything": "5"},
        {"level": "two"},
        {"word": "1"},
        {"unknown": "5"},
        {},
    ],
    ids=lambda one: str(one)[:40],
)
def test_other_values_stay_the_same_object(arguments: dict[str, Any]) -> None:
    assert coerce(arguments, SCHEMA) is arguments


def test_a_recursive_schema_is_followed_as_deep_as_the_value() -> None:
    deep: dict[str, Any] = {"city": "a", "nights": "1"}
    for _ in range(30):
        deep = {"city": "a", "before": deep}
    stop = coerce({"stop": deep}, SCHEMA)["stop"]
    while "before" in stop:
        stop = stop["before"]
    assert stop == {"city": "a", "nights": 1}
    for _ in range(5000):
        deep = {"city": "a", "before": deep}
    endless = {"stop": deep}
    assert coerce(endless, SCHEMA) is endless


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"properties": {"a": {"type": ["integer", "null"]}}}, 5),
        ({"properties": {"a": {"oneOf": [{"type": "null"}, {"type": "integer"}]}}}, 5),
        ({"properties": {"a": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"type": "integer"}}}, 5),
        ({"type": "object", "additionalProperties": {"type": "number"}}, 5),
        ({"properties": {"a": {"type": ["integer", "string"]}}}, "5"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "5"),
        ({"properties": {"a": {"$ref": "elsewhere.json"}}}, "5"),
        ({"properties": {"a": {"$ref": 7}}}, "5"),
        ({"properties": {"a": {"anyOf": []}}}, "5"),
        ({"properties": {"a": {"anyOf": [True]}}}, "5"),
        ({"properties": {"a": {"anyOf": 7}}}, "5"),
        ({"properties": {"a": {"type": [[]]}}}, "5"),
        ({"properties": {"a": {"type": "whole"}}}, "5"),
        ({"properties": {"a": True}}, "5"),
        ({"properties": [1]}, "5"),
        ({"type": "array", "items": {"type": "integer"}}, "5"),
        ({"$ref": "#"}, "5"),
        ({}, "5"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_unknown_parts_of_a_schema_are_ignored(schema: dict[str, Any], expected: Any) -> None:
    assert coerce({"a": "5"}, schema) == {"a": expected}


texts = st.sampled_from(
    ["1", "2.0", "1.5", "true", "False", "null", "[]", "[1]", "{}", '{"city":"1"}', '"1"']
)
leaves = st.none() | st.booleans() | st.integers(-3, 12) | st.floats() | st.text(max_size=3) | texts
names = st.sampled_from([*Journey.__struct_fields__, *Stop.__struct_fields__])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
arguments = st.dictionaries(names, values, max_size=5)


@given(arguments)
def test_coercion_is_idempotent(some: dict[str, Any]) -> None:
    once = coerce(some, SCHEMA)
    assert coerce(once, SCHEMA) is once


any_text = st.text(max_size=3) | texts
stops = st.deferred(
    lambda: st.fixed_dictionaries(
        {"city": any_text},
        optional={"nights": st.integers(), "sure": st.booleans(), "before": st.none() | stops},
    )
)
fitting = st.fixed_dictionaries(
    {},
    optional={
        "name": any_text,
        "note": st.none() | any_text,
        "n": st.integers(),
        "x": st.integers() | st.floats(),
        "flag": st.booleans(),
        "limit": st.none() | st.integers(0, 10),
        "numbers": st.lists(st.integers()),
        "grid": st.lists(st.lists(st.floats())),
        "stop": st.none() | stops,
        "stops": st.lists(stops),
        "prices": st.dictionaries(any_text, st.floats()),
        "either": st.integers() | any_text,
        "both": st.integers() | st.booleans(),
        "pair": st.tuples(st.integers(), st.booleans()).map(list),
        "anything": values,
        "level": st.sampled_from([1, 2]),
        "word": st.sampled_from(["1", "true"]),
    },
)


@given(fitting)
def test_valid_arguments_are_never_changed(some: dict[str, Any]) -> None:
    validate_arguments(some, Journey, "plan")
    assert coerce(some, SCHEMA) is some


@given(arguments)
def test_the_original_arguments_are_never_modified(some: dict[str, Any]) -> None:
    before = repr(some)
    coerce(some, SCHEMA)
    assert repr(some) == before


schemas: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from(["integer", "object", "array", "#", "#/properties/a", "#/$defs/a/b"])
    | st.sampled_from(
        [{"type": kind} for kind in ("integer", "boolean", "array", "object", "null", "number")]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "prefixItems", "anyOf", "$ref", "$defs", "a", "n"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(arguments, st.dictionaries(st.sampled_from(["type", "properties", "anyOf", "$ref", "$defs"]), schemas))
def test_coercion_never_raises(some: dict[str, Any], schema: dict[str, Any]) -> None:
    assert isinstance(coerce(some, schema), dict)
