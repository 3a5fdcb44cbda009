"""Tools from functions and classes; their arguments validated, with errors that a model can act on."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, Self, TypeVar, Unpack, overload

import msgspec

from ostler.core.json_schema import Schema, parameters_of, read_docstring, resolve_reference, schema_error
from ostler.core.json_schema import schema_of as schema_of
from ostler.core.tool import BeforeCall, ToolContext, ToolOptions, ToolSpec, as_outcome
from ostler.schema.errors import InvalidArguments, ToolError
from ostler.schema.outcomes import Failed, Ok, Outcome

Parameters = TypeVar("Parameters", bound=msgspec.Struct)

Place = tuple[list[Schema], Any, str]
"""What is allowed somewhere in the arguments, what is there, and how that place is called."""

_MISSING, _UNKNOWN = "Object missing required field", "Object contains unknown field"

_FORMAT = r"Invalid ((?:RFC3339|ISO8601|base64|UUID|decimal|epoch)\b.*)"

_STEP = r"\.([^.\[]+)|\[(\d+|\.\.\.)\]"

_NOUNS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}

_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "above {}",
    "exclusiveMaximum": "below {}",
    "multipleOf": "a multiple of {}",
    "minLength": "of length {} or more",
    "maxLength": "of length {} or less",
    "minItems": "of length {} or more",
    "maxItems": "of length {} or less",
    "pattern": "matching {}",
    "format": "in the format {}",
    "contentEncoding": "in {}",
}

_EXCERPT = 60


def validate_arguments(arguments: dict[str, Any], parameters: type[Parameters], tool: str) -> Parameters:
    """The arguments as a struct; an error that tells the model which one is wrong and what is expected."""
    unknown = [name for name in arguments if name not in parameters.__struct_encode_fields__]
    if unknown:
        known = ", ".join(parameters.__struct_encode_fields__) or "none"
        raise InvalidArguments(f"{tool} has no parameter {unknown[0]!r}; its parameters are: {known}")
    try:
        return msgspec.convert(arguments, parameters)
    except msgspec.ValidationError as error:
        problem = _in_words(error, arguments, schema_of(parameters))
        raise InvalidArguments(f"invalid arguments for {tool}: {problem}") from None


def _in_words(error: msgspec.ValidationError, arguments: dict[str, Any], schema: Schema) -> str:
    said, _, path = str(error).removesuffix("`").partition(" - at `")
    is_key = path.startswith("key` in `")
    allowed, value, place = _at(path.removeprefix("key` in `"), arguments, schema)
    if error.__cause__ is not None:  # what the type's own code says of its values
        return f"{place}: {said}" if place else said
    if said.startswith(_MISSING):
        name = said.removeprefix(_MISSING).strip(" `")
        inside, _, missing = _step((allowed, value, place), name, schema)
        return f"{missing} is missing; it must be {_described(inside)}"
    if said.startswith(_UNKNOWN):
        name = said.removeprefix(_UNKNOWN).strip(" `")
        return f"{place} has no {name!r}; it must be {_described(allowed)}"
    if is_key:
        names = [one["propertyNames"] for one in allowed if "propertyNames" in one]
        return f"a name in {place} must be {_described([{'type': 'string'} | name for name in names])}"
    form = re.fullmatch(_FORMAT, said)
    return f"{place} must be {f'a valid {form[1]}' if form else _described(allowed)}; got {_excerpt(value)}"


def _at(path: str, arguments: Any, schema: Schema) -> Place:
    """The place that a path such as `$.items[2].city` leads to."""
    place: Place = list(_alternatives(schema, schema)), arguments, ""
    for name, index in re.findall(_STEP, path.removeprefix("$")):
        if index == "...":  # some name that is not told: the first whose value does not fit
            allowed, value, _ = place
            name = next((name for name in value if _misfits(allowed, name, value[name], schema)), "...")
        place = _step(place, int(index) if index.isdigit() else name, schema)
    return place


def _step(place: Place, step: str | int, whole: Schema) -> Place:
    allowed, value, shown = place
    inside = [one for schema in allowed for one in _alternatives(_inner(schema, step), whole)]
    if isinstance(step, int):
        return inside, value[step], f"{shown}[{step}]"
    found = value.get(step) if isinstance(value, dict) else None
    return inside, found, f"{shown}.{step}" if shown else step


def _inner(schema: Schema, step: str | int) -> Any:
    if isinstance(step, str):
        return schema.get("properties", {}).get(step, schema.get("additionalProperties"))
    first = schema.get("prefixItems", [])
    return first[step] if step < len(first) else schema.get("items")


def _misfits(allowed: list[Schema], name: str, value: Any, whole: Schema) -> bool:
    return all(schema_error(value, _inner(schema, name), whole) for schema in allowed if _inner(schema, name))


def _alternatives(schema: Any, whole: Schema) -> Iterator[Schema]:
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield from _alternatives(resolve_reference(schema["$ref"], whole), whole)
    elif "anyOf" in schema:
        for option in schema["anyOf"]:
            yield from _alternatives(option, whole)
    else:
        yield schema


def _described(allowed: list[Schema]) -> str:
    values = [value for schema in allowed for value in schema.get("enum", ())]
    kinds = [_kind(schema) for schema in allowed if "enum" not in schema]
    told = [f"one of {', '.join(map(_excerpt, values))}"] if values else []
    return " or ".join(dict.fromkeys(told + kinds)) or "something else"


def _kind(schema: Schema) -> str:
    noun = _NOUNS.get(schema.get("type", ""), "any value")
    if schema.get("properties"):
        noun += f" {{{', '.join(schema['properties'])}}}"
    limits = [words.format(schema[word]) for word, words in _LIMITS.items() if word in schema]
    return f"{noun} ({', '.join(limits)})" if limits else noun


def _excerpt(value: Any) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"


class _Declared(msgspec.StructMeta):
    """Takes a tool's options out of the class's keywords; msgspec refuses what it does not know."""

    def __new__(
        cls, class_name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **keywords: Any
    ) -> Any:
        of_struct = {word: value for word, value in keywords.items() if word not in _OPTIONS}
        return super().__new__(cls, class_name, bases, namespace, **of_struct)

    def __init__(
        cls, class_name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **keywords: Any
    ) -> None:
        super().__init__(class_name, bases, namespace)
        options: Any = {word: value for word, value in keywords.items() if word in _OPTIONS}
        if bases != (msgspec.Struct,):
            _declare(cls, _inherited(bases) | options)


_OPTIONS = ToolOptions.__annotations__

_TAKEN = ("spec", "validate", "run", "summarise")


class ToolClass(msgspec.Struct, metaclass=_Declared):
    """A class that is a tool. Options are class keywords, those of `tool`.

    class Weather(ToolClass, kind="read"):
        "The weather in a city."

        city: str
        days: Annotated[int, Meta(ge=1, le=7)] = 1

        async def run(self, context: ToolContext) -> str:
            return f"sunny in {self.city} for {self.days} days"

    - The class is what an agent is given, `tools=[Weather]`; each call makes an instance.
    - The docstring is read as that of a function is. `__post_init__` may raise `ValueError`: the arguments
      do not fit, and the model is told why.
    """

    spec: ClassVar[ToolSpec]

    @classmethod
    def validate(cls, arguments: dict[str, Any]) -> Self:
        return validate_arguments(arguments, cls, cls.spec.name)

    async def run(self, context: ToolContext) -> Any:
        raise NotImplementedError

    def summarise(self, outcome: Ok | Failed) -> str:
        """What people are told of an outcome without a summary; when empty, the runtime says something."""
        return ""


def _inherited(bases: tuple[type, ...]) -> Any:
    """The options of the tool that a tool is derived from; not what it is called."""
    specs = [vars(base)["spec"] for base in bases if "spec" in vars(base)]
    words = _OPTIONS.keys() - {"name", "description"}
    return {word: getattr(specs[0], word) for word in words} if specs else {}


def _declare(declared: Any, options: ToolOptions) -> None:
    taken = [name for name in declared.__struct_fields__ if name in _TAKEN]
    if taken:
        raise TypeError(
            f"{declared.__name__}: the tool itself has {taken[0]!r}; call the field something else, "
            f"with msgspec.field(name={taken[0]!r})"
        )
    if not inspect.iscoroutinefunction(declared.run):
        raise TypeError(f"{declared.__name__}.run must be async: async def run(self, context)")
    schema = schema_of(declared)
    about = schema.pop("description", "")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", declared.__name__).lower()
    declared.spec = ToolSpec(schema=schema, **({"name": name, "description": about} | options))
    if "run" in vars(declared):
        declared.run = _summarised(declared.run)


def _summarised(run: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Outcome]]:
    @functools.wraps(run)
    async def summarised(self: ToolClass, context: ToolContext) -> Outcome:
        outcome = as_outcome(await run(self, context))
        if not isinstance(outcome, Ok | Failed) or outcome.summary:
            return outcome
        try:
            summary = str(self.summarise(outcome))
        except Exception as error:  # what the call did is done: it must not be told as failed
            summary = f"no summary: {type(error).__name__}: {error}"
        return msgspec.structs.replace(outcome, summary=summary)

    return summarised


class FunctionTool:
    """A tool made of a typed function. See `tool`."""

    def __init__(
        self, function: Callable[..., Any], spec: ToolSpec, parameters: type[msgspec.Struct]
    ) -> None:
        self.function = function
        self.spec = spec
        self._parameters = parameters
        self._wants_context = "context" in inspect.signature(function).parameters
        self._check: Callable[..., Any] | None = None
        self.__doc__ = function.__doc__
        self.__name__ = spec.name

    def validate(self, arguments: dict[str, Any]) -> msgspec.Struct:
        return validate_arguments(arguments, self._parameters, self.spec.name)

    def prechecker(self, check: Callable[..., Any]) -> Callable[..., Any]:
        """Decorates a coroutine function that takes the same, with a `BeforeCall` as its context, and raises
        what the call would fail with."""
        self._check = check
        return check

    async def precheck(self, arguments: msgspec.Struct, before: BeforeCall) -> str:
        if self._check is None:
            return ""
        try:
            await self._check(**_values(arguments), context=before)
        except ToolError as error:
            return error.message
        return ""

    async def run(self, arguments: msgspec.Struct, context: ToolContext) -> Any:
        values = _values(arguments)
        if self._wants_context:
            values["context"] = context
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**values)
        return await in_thread(lambda: self.function(**values))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain function, for tests and for calling it from Python."""
        return self.function(*args, **kwargs)


def _values(arguments: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in arguments.__struct_fields__}


async def in_thread(work: Callable[[], Any]) -> Any:
    """Runs plain code beside the event loop, in a thread that keeps nobody from leaving when it hangs."""
    return await _task_done(
        lambda job: threading.Thread(target=job, daemon=True, name="ostler-tool").start(), work
    )


async def _task_done(post: Callable[[Callable[[], None]], None], work: Callable[[], Any]) -> Any:
    """What the work returns or raises, once whoever it is posted to has done it in a thread."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def job() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = work()
        except StopIteration:
            error = RuntimeError("it raised StopIteration")  # which a future cannot hold
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    post(job)
    return await done


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Makes a tool of a function with type hints. For a class see `ToolClass`.

    The docstring's first paragraph is the description; lines like `city: where to look` under an
    `Args:` heading describe parameters. A parameter named `context` receives the `ToolContext`.
    """

    def make(function: Callable[..., Any]) -> FunctionTool:
        if isinstance(function, type):
            raise TypeError(f"a class is made a tool by its base: class {function.__name__}(ToolClass)")
        name = options.get("name") or function.__name__
        about, described = read_docstring(function.__doc__)
        parameters = parameters_of(function, name)
        told: ToolOptions = {**options, "name": name, "description": options.get("description") or about}
        return FunctionTool(function, ToolSpec(schema=schema_of(parameters, described), **told), parameters)

    return make(function) if function is not None else make
