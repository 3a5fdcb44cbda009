"""The JSON Schema that a tool's types become."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import pytest
from msgspec import Meta, Struct

from ostler.core.function_tool import tool
from ostler.core.json_schema import schema_error, schema_of, schema_problem
from ostler.models.wires.encoder import closed


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Place(Struct, frozen=True):
    """A place
    on earth.

    Attributes:
        country: two letters
    """

    city: Annotated[str, Meta(description="the town", min_length=1)]
    country: str = "PT"


@dataclass
class Tour:
    stops: Annotated[list[Place], "in their order"]
    days: int = 1
    notes: list[str] = field(default_factory=list)


class Price(TypedDict):
    amount: float
    currency: NotRequired[Annotated[str, "three letters"]]


class Point(NamedTuple):
    x: int
    y: str = ""


class Tree(Struct):
    name: str
    branches: list[Tree] = []
    grafted: Annotated[Tree | None, Meta(description="from elsewhere")] = None


class Circle(Struct, tag="circle"):
    radius: int


class Square(Struct, tag="square"):
    side: int


def schema_for(hint: Any, *default: Any) -> dict[str, Any]:
    schema: dict[str, Any] = schema_of(msgspec.defstruct("Arguments", [("it", hint, *default)]))
    it: dict[str, Any] = schema["properties"]["it"]
    return it


PLACE = {
    "type": "object",
    "description": "A place on earth.",
    "properties": {
        "city": {"type": "string", "minLength": 1, "description": "the town"},
        "country": {"type": "string", "default": "PT", "description": "two letters"},
    },
    "required": ["city"],
}

SCHEMAS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (str, (), {"type": "string"}),
    (bool, (False,), {"type": "boolean", "default": False}),
    (float | None, (None,), {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None}),
    (Any, (), {}),
    (Annotated[int, "how many"], (), {"type": "integer", "description": "how many"}),
    (Annotated[int, "plain", Meta(description="meta")], (), {"type": "integer", "description": "meta"}),
    (
        Annotated[int, "how many"] | None,
        (None,),
        {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "description": "how many"},
    ),
    (Annotated[int, Meta(ge=1, lt=7)], (), {"type": "integer", "minimum": 1, "exclusiveMaximum": 7}),
    (
        Annotated[str, Meta(pattern="^a", min_length=1, max_length=3)],
        (),
        {"type": "string", "pattern": "^a", "minLength": 1, "maxLength": 3},
    ),
    (
        Annotated[list[Annotated[int, Meta(ge=2)]], Meta(min_length=1, max_length=3)],
        (),
        {"type": "array", "items": {"type": "integer", "minimum": 2}, "minItems": 1, "maxItems": 3},
    ),
    (Literal["a", "b"], ("b",), {"type": "string", "enum": ["a", "b"], "default": "b"}),
    (Literal[1, 2], (), {"type": "integer", "enum": [1, 2]}),
    (Literal["a", None], (), {"enum": [None, "a"]}),
    (Colour, (Colour.RED,), {"type": "string", "enum": ["blue", "red"], "default": "red"}),
    (Size, (Size.SMALL,), {"type": "integer", "enum": [1, 2], "default": 1}),
    (Place, (), PLACE),
    (Annotated[Place, Meta(description="where")], (), PLACE | {"description": "where"}),
    (Place, (Place("Faro"),), PLACE | {"default": {"city": "Faro", "country": "PT"}}),
    (list[Place], ([],), {"type": "array", "items": PLACE, "default": []}),
    (Place | None, (), {"anyOf": [PLACE, {"type": "null"}]}),
    (
        dict[str, int],
        ({},),
        {"type": "object", "additionalProperties": {"type": "integer"}, "default": {}},
    ),
    (
        Tour,
        (),
        {
            "type": "object",
            "properties": {
                "stops": {"type": "array", "items": PLACE, "description": "in their order"},
                "days": {"type": "integer", "default": 1},
                "notes": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["stops"],
        },
    ),
    (
        Price,
        (),
        {
            "type": "object",
            "properties": {
                "amount": {"type": "number"},
                "currency": {"type": "string", "description": "three letters"},
            },
            "required": ["amount"],
        },
    ),
    (list, (), {"type": "array", "items": {}}),
    (tuple[int, ...], (), {"type": "array", "items": {"type": "integer"}}),
    (
        tuple[int, int],
        (),
        {
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "prefixItems": [{"type": "integer"}, {"type": "integer"}],
            "items": {"type": "integer"},
        },
    ),
    (
        Point,
        (),
        {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "prefixItems": [{"type": "integer"}, {"type": "string", "default": ""}],
            "items": {"anyOf": [{"type": "integer"}, {"type": "string", "default": ""}]},
        },
    ),
    (
        Circle | Square,
        (),
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string", "enum": ["circle"]},
                        "radius": {"type": "integer"},
                    },
                    "required": ["type", "radius"],
                },
                {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string", "enum": ["square"]},
                        "side": {"type": "integer"},
                    },
                    "required": ["type", "side"],
                },
            ]
        },
    ),
]


@pytest.mark.parametrize(("hint", "default", "schema"), SCHEMAS, ids=lambda one: str(one)[:40])
def test_a_type_has_this_schema(hint: Any, default: tuple[Any, ...], schema: dict[str, Any]) -> None:
    assert schema_for(hint, *default) == schema
    assert schema_problem(schema) == ""


def parts_of(schema: Any) -> list[dict[str, Any]]:
    if not isinstance(schema, dict):
        return []
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [*schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    inner += [schema.get("items"), schema.get("additionalProperties")]
    return [schema, *(part for one in inner for part in parts_of(one))]


@pytest.mark.parametrize(("hint", "default"), [one[:2] for one in SCHEMAS], ids=lambda one: str(one)[:40])
def test_a_schema_has_a_form_that_every_vendor_accepts(hint: Any, default: tuple[Any, ...]) -> None:
    whole = schema_of(msgspec.defstruct("Arguments", [("it", hint, *default)]))
    assert whole.keys() == {"type", "properties", "required", "additionalProperties"}
    for part in parts_of(whole):
        assert "title" not in part and "discriminator" not in part
        assert "$ref" not in part  # Gemini refuses most of what may stand beside one
        assert part.get("type") != "array" or isinstance(part["items"], dict)  # OpenAI
    assert closed(whole)["additionalProperties"] is False


def test_a_recursive_type_is_a_plain_reference() -> None:
    @tool
    def plant(tree: Tree) -> str:
        """Plants a tree."""
        return tree.branches[0].name

    schema = plant.spec.schema
    assert schema["$defs"].keys() == {"Tree"}
    assert schema["properties"]["tree"]["properties"]["branches"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["grafted"]["description"] == "from elsewhere"
    assert all(part.keys() == {"$ref"} for part in parts_of(schema) if "$ref" in part)
    arguments = {"tree": {"name": "a", "branches": [{"name": "b"}]}}
    assert schema_error(arguments, schema) == ""
    assert schema_error({"tree": {"name": "a", "branches": [{}]}}, schema)
    assert isinstance(plant.validate(arguments).tree.branches[0], Tree)  # type: ignore[attr-defined]


def test_a_tool_may_be_called_like_the_type_of_its_parameter() -> None:
    @tool(name="Place")
    def visit(place: Place) -> str:
        """Goes there."""
        return place.city

    assert visit.spec.schema["properties"] == {"place": PLACE}
