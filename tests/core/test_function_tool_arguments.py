"""What does not fit a tool is refused, in words that a model can act on."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from ostler.core.function_tool import tool
from ostler.core.json_schema import schema_error
from ostler.models.scripted import Call
from ostler.schema import events
from ostler.schema.errors import InvalidArguments
from tests.support.running import add, run


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(Struct, frozen=True):
    city: Annotated[str, Meta(min_length=1)]
    country: str = "PT"


class Circle(Struct, tag="circle"):
    radius: int


class Square(Struct, tag="square"):
    side: int


@tool
def route(place: Place, days: int = 1) -> None:
    """Goes there."""


@tool
def everything(
    place: Place | None = None,
    places: list[Place] = [],  # noqa: B006
    unit: Literal["C", "F"] = "C",
    colour: Colour = Colour.RED,
    share: Annotated[float, Meta(gt=0, lt=1)] = 0.5,
    code: Annotated[str, Meta(pattern="^[a-z]+$", max_length=5)] = "a",
    prices: dict[str, list[int]] = {},  # noqa: B006
    tags: Annotated[list[str], Meta(min_length=1)] = [],  # noqa: B006
    shape: Circle | Square | None = None,
    either: int | str = 1,
    pair: tuple[int, str] = (1, "a"),
    closed: Annotated[dict[Annotated[str, Meta(min_length=2)], int], Meta(description="x")] = {},  # noqa: B006
) -> None:
    """Takes everything."""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"place": {"city": 3}}, "place.city must be a string (of length 1 or more); got 3"),
        ({"place": {"city": ""}}, 'place.city must be a string (of length 1 or more); got ""'),
        ({"place": {}}, "place.city is missing; it must be a string (of length 1 or more)"),
        ({"place": "Faro"}, 'place must be an object {city, country} or null; got "Faro"'),
        (
            {"places": [{"city": "a"}, {"city": []}]},
            "places[1].city must be a string (of length 1 or more); got []",
        ),
        ({"places": {"city": "a"}}, 'places must be a list; got {"city": "a"}'),
        ({"unit": "K"}, 'unit must be one of "C", "F"; got "K"'),
        ({"unit": 7}, 'unit must be one of "C", "F"; got 7'),
        ({"colour": "green"}, 'colour must be one of "blue", "red"; got "green"'),
        ({"share": 1}, "share must be a number (above 0, below 1); got 1"),
        ({"share": True}, "share must be a number (above 0, below 1); got true"),
        ({"code": "A"}, 'code must be a string (of length 5 or less, matching ^[a-z]+$); got "A"'),
        ({"prices": {"a": [1], "b": [1, "two"]}}, 'prices.b[1] must be an integer; got "two"'),
        ({"tags": []}, "tags must be a list (of length 1 or more); got []"),
        ({"shape": {"type": "star"}}, 'shape.type must be one of "circle", "square"; got "star"'),
        ({"shape": {"type": "circle"}}, "shape.radius is missing; it must be an integer"),
        ({"shape": {}}, 'shape.type is missing; it must be one of "circle", "square"'),
        ({"either": 1.5}, "either must be an integer or a string; got 1.5"),
        ({"pair": [1, 2]}, "pair[1] must be a string; got 2"),
        ({"pair": [1]}, "pair must be a list (of length 2 or more, of length 2 or less); got [1]"),
        ({"closed": {"a": 1}}, "a name in closed must be a string (of length 2 or more)"),
        (
            {"code": "b" * 90},
            f'code must be a string (of length 5 or less, matching ^[a-z]+$); got "{"b" * 59}…',
        ),
    ],
    ids=lambda one: str(one)[:40],
)
def test_invalid_arguments_are_refused_with_a_description(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        everything.validate(arguments)
    assert refused.value.message == f"invalid arguments for everything: {words}"
    if not arguments.keys() & {"closed", "pair"}:  # whose words `mismatch` does not know
        assert schema_error(arguments, everything.spec.schema)


def test_missing_and_unknown_arguments_are_named() -> None:
    with pytest.raises(InvalidArguments, match=r"place is missing; it must be an object {city, country}$"):
        route.validate({})
    with pytest.raises(InvalidArguments, match="no parameter 'citty'; its parameters are: place, days"):
        route.validate({"citty": "Faro"})


class Booking(Struct, forbid_unknown_fields=True, rename="camel"):
    first_day: Annotated[str, "like 2027-05-01"]
    guests: int = 1

    def __post_init__(self) -> None:
        if self.guests > 4:
            raise ValueError("we have four chairs")


@tool
def book(booking: Booking) -> None:
    """Books a table."""


def test_a_nested_type_may_forbid_fields_rename_them_and_validate_itself() -> None:
    (properties,) = [part["properties"] for part in book.spec.schema["properties"].values()]
    assert properties["firstDay"] == {"type": "string", "description": "like 2027-05-01"}
    with pytest.raises(
        InvalidArguments, match=r"booking has no 'chairs'; it must be an object {firstDay, guests}$"
    ):
        book.validate({"booking": {"firstDay": "", "chairs": 1}})
    with pytest.raises(InvalidArguments, match=r"for book: booking: we have four chairs$"):
        book.validate({"booking": {"firstDay": "", "guests": 5}})


@pytest.mark.parametrize("raw", ['{"a": 1}{"a": 2}', '{"a": 1, "b": "\\"}{"}{"a": 2}'])
async def test_two_objects_in_one_call_are_refused(raw: str) -> None:
    ran = await run([Call("add", raw=raw), Call("add", {"a": 2}), "ok"], tools=[add])
    first, second = ran.all(events.ToolResultFact)
    assert (first.failed, second.failed) == ("invalid_arguments", None)
    assert "not valid JSON" in ran.results()[0]
    assert [one.call for one in ran.all(events.ToolStarted)] == [second.call]
