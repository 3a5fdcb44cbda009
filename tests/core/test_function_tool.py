"""Tools from functions, classes and objects: what they say of themselves, and how they run."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from ostler.core.function_tool import ToolClass, tool
from ostler.core.tool import Tool, ToolContext, ToolOptions, ToolSpec, default_summary
from ostler.schema.errors import InvalidArguments
from ostler.schema.messages import Image, Text
from ostler.schema.outcomes import Display, Failed, NeedUser, Ok, Question, failed, ok
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool
from tests.support.paths import DOCS


class Place(Struct):
    city: str
    country: str = "PT"


@tool(kind="read", parallel=True, resumes=True, idempotent="run", timeout=3, display=Display("table"))
def forecast(
    place: Place,
    days: Annotated[int, Meta(ge=1, le=7)] = 1,
    unit: Literal["C", "F"] = "C",
    hours: Annotated[list[int], Meta(description="of the day")] = [],  # noqa: B006
) -> str:
    """The weather
    of the coming days.

    A second paragraph is for people.

    Args:
        place: where to look,
            and where the forecast
            is for
        days (int): how far to look ahead

        unit:
            degrees; note: one letter
        hours: not told
        nonsense: not there

    Returns:
        days: not a parameter's
    """
    return f"{place.city} {days}"


def test_a_docstring_describes_the_tool_and_its_parameters() -> None:
    spec = forecast.spec
    assert spec.description == "The weather of the coming days."
    told_of = {name: part["description"] for name, part in spec.schema["properties"].items()}
    assert told_of == {
        "place": "where to look, and where the forecast is for",
        "days": "how far to look ahead",
        "unit": "degrees; note: one letter",
        "hours": "of the day",
    }
    assert spec.schema["required"] == ["place"]


def test_the_options_of_a_tool_are_in_its_spec() -> None:
    spec = forecast.spec
    assert (spec.name, spec.kind, spec.parallel, spec.resumes) == ("forecast", "read", True, True)
    assert (spec.idempotent, spec.timeout, spec.display) == ("run", 3, Display("table"))
    renamed = tool(name="weather", description="Other words.")(forecast.function)
    assert (renamed.spec.name, renamed.spec.description) == ("weather", "Other words.")


def test_a_function_that_cannot_be_a_tool_is_refused_with_the_reason() -> None:
    def fine() -> None: ...
    def any_number(*cities: str) -> None: ...
    def any_names(**cities: str) -> None: ...
    def unnamed(city: str, /) -> None: ...

    for function in (any_number, any_names, unnamed):
        with pytest.raises(TypeError, match="passed by name"):
            tool(function)
    with pytest.raises(TypeError, match=r"class Place\(ToolClass\)"):
        tool(Place)
    with pytest.raises(TypeError, match="colour"):
        tool(colour="red")(fine)  # type: ignore[call-overload]


class GardenTool(ToolClass, kind="read", timeout=5):
    """Anything in the garden."""


class WaterPlants(GardenTool, parallel=True, display=Display(title="Water {bed}")):
    """Waters a bed.

    Args:
        bed: its number,
            from the left
        litres: of water
    """

    bed: Annotated[int, Meta(ge=1)]
    litres: float = 2.5
    notes: list[str] = []

    def __post_init__(self) -> None:
        if self.litres > 10 * self.bed:
            raise ValueError(f"bed {self.bed} would drown")

    async def run(self, context: ToolContext) -> Any:
        if self.bed == 9:
            return NeedUser(Question("Really?"))
        if self.bed == 8:
            return ok("watered", summary="from the call")
        if self.bed == 7:
            return failed("there is no bed 7")
        context.output("drip\n")
        return {"bed": self.bed}

    def summarise(self, outcome: Ok | Failed) -> str:
        if isinstance(outcome, Failed):
            return ""
        return f"bed {self.bed} got {10 / (self.litres - 1):g} l"


def test_a_class_is_a_tool_with_its_fields_as_parameters() -> None:
    used: Tool = WaterPlants
    spec = used.spec
    assert (spec.name, spec.description, spec.kind, spec.timeout) == (
        "water_plants",
        "Waters a bed.",
        "read",
        5,
    )
    assert (spec.parallel, spec.display) == (True, Display(title="Water {bed}"))
    assert GardenTool.spec.parallel is False
    assert spec.schema == {
        "type": "object",
        "properties": {
            "bed": {"type": "integer", "minimum": 1, "description": "its number, from the left"},
            "litres": {"type": "number", "default": 2.5, "description": "of water"},
            "notes": {"type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["bed"],
        "additionalProperties": False,
    }


async def test_each_call_of_a_class_is_an_instance(tmp_path: Path) -> None:
    context = FakeToolContext(tmp_path)
    outcome = await run_tool(WaterPlants, {"bed": 2, "litres": 3}, context)
    assert isinstance(outcome, Ok)
    assert (result_text(outcome), outcome.summary, context.output_text) == (
        '{"bed":2}',
        "bed 2 got 5 l",
        "drip\n",
    )
    assert await WaterPlants(bed=2, litres=3).run(context) == outcome


async def test_a_summary_is_made_only_for_an_outcome_without_one(tmp_path: Path) -> None:
    context = FakeToolContext(tmp_path)
    outcomes = [await run_tool(WaterPlants, {"bed": bed}, context) for bed in (7, 8, 9)]
    assert [getattr(outcome, "summary", None) for outcome in outcomes] == ["", "from the call", None]
    assert isinstance(outcomes[2], NeedUser)


async def test_a_summary_that_fails_does_not_make_the_call_fail(tmp_path: Path) -> None:
    outcome = await run_tool(WaterPlants, {"bed": 2, "litres": 1}, FakeToolContext(tmp_path))
    assert isinstance(outcome, Ok)
    with pytest.raises(ZeroDivisionError) as caught:  # what Python says of it differs from version to version
        _ = 1.0 / 0.0
    assert outcome.summary == f"no summary: ZeroDivisionError: {caught.value}"


def test_a_class_may_validate_its_arguments_itself() -> None:
    with pytest.raises(InvalidArguments, match=r"^invalid arguments for water_plants: bed 1 would drown$"):
        WaterPlants.validate({"bed": 1, "litres": 11})


def test_a_class_that_cannot_be_a_tool_is_refused_with_the_reason() -> None:
    with pytest.raises(TypeError, match=r"Late\.run must be async"):

        class Late(ToolClass):
            def run(self, context: ToolContext) -> str:  # type: ignore[override]
                return ""

    with pytest.raises(TypeError, match="every tool has an attribute 'spec'"):

        class Taken(ToolClass):
            spec: str  # type: ignore[misc]

    with pytest.raises(TypeError, match="colour"):

        class Odd(ToolClass, colour="red"):  # type: ignore[call-arg]
            pass


class Anything:
    """Whatever has `spec`, `validate` and `run` is a tool."""

    spec = msgspec.structs.replace(forecast.spec, name="anything")

    def validate(self, arguments: dict[str, Any]) -> int:
        return len(arguments)

    async def run(self, arguments: int, context: ToolContext) -> int:
        return arguments


async def test_an_object_with_the_three_members_is_a_tool(tmp_path: Path) -> None:
    anything: Tool = Anything()
    assert result_text(await run_tool(anything, {"a": 1, "b": 2}, FakeToolContext(tmp_path))) == "2"


@pytest.mark.parametrize(
    ("content", "summary"),
    [
        ((), "no output"),
        ((Text(" \n"),), "no output"),
        ((Text("  21 degrees\n"),), "21 degrees"),
        ((Text("a" * 200),), "a" * 200),
        ((Text("a" * 201),), "201 characters in 1 line"),
        ((Text("a\nb"),), "3 characters in 2 lines"),
        ((Text("a"), Text("b")), "3 characters in 2 lines"),
        ((Image("image/png"),), "image/png"),
    ],
    ids=lambda one: str(one)[:30],
)
def test_a_result_without_a_summary_gets_one(content: tuple[Any, ...], summary: str) -> None:
    assert default_summary(content) == summary


async def test_a_plain_function_does_not_block_the_event_loop(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    reached = asyncio.Event()

    @tool
    def slow() -> str:
        """Waits for the event loop."""
        asyncio.run_coroutine_threadsafe(_set(reached), loop).result(60)
        return "done"

    assert result_text(await run_tool(slow, {}, FakeToolContext(tmp_path))) == "done"


async def _set(event: asyncio.Event) -> None:
    event.set()


def test_the_documentation_of_tools_names_every_field() -> None:
    page = (DOCS / "tools.md").read_text()
    in_tables = "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    named = set(re.findall(r"[`(](\w+)", in_tables))
    context = [*ToolContext.__annotations__, *(name for name in vars(ToolContext) if name[0] != "_")]
    assert [name for name in context if name not in named] == []
    for kind in (Display, Question):
        assert [name for name in kind.__struct_fields__ if name not in named] == []
    assert [name for name in ToolOptions.__annotations__ if name not in named] == []
    assert ToolOptions.__annotations__.keys() | {"schema"} == {*ToolSpec.__struct_fields__}
