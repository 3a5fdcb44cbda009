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
"""A place in the arguments: the schemas allowed there, the value, and the name of the place."""

_MISSING, _UNKNOWN = "Object missing required field", "Object contains unknown field"
_FORMAT = r"Invalid ((?:RFC3339|ISO8601|base64|UUID|decimal|epoch)\b.*)"
_STEP = r"\.([^.\[]+)|\[(\d+|\.\.\.)\]"
_EXCERPT = 60

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


def validate_arguments(arguments: dict[str, Any], parameters: type[Parameters], tool: str) -> Parameters:
    """The arguments as a struct; an error that tells the model which one is wrong and what is expected."""
    fields = parameters.__struct_encode_fields__
    if unknown := [name for name in arguments if name not in fields]:
        names = ", ".join(fields) or "none"
        raise InvalidArguments(f"{tool} has no parameter {unknown[0]!r}; its parameters are: {names}")
    try:
        return msgspec.convert(arguments, parameters)
    except msgspec.ValidationError as error:
        problem = _describe_error(error, arguments, schema_of(parameters))
        raise InvalidArguments(f"invalid arguments for {tool}: {problem}") from None


def _describe_error(error: msgspec.ValidationError, arguments: dict[str, Any], schema: Schema) -> str:
    message, _, path = str(error).removesuffix("`").partition(" - at `")
    is_key = path.startswith("key` in `")
    allowed, value, place = _at(path.removeprefix("key` in `"), arguments, schema)
    if error.__cause__ is not None:  # raised by the type's own code
        return f"{place}: {message}" if place else message
    if message.startswith(_MISSING):
        name = message.removeprefix(_MISSING).strip(" `")
        inside, _, missing = _step((allowed, value, place), name, schema)
        return f"{missing} is missing; it must be {_describe(inside)}"
    if message.startswith(_UNKNOWN):
        name = message.removeprefix(_UNKNOWN).strip(" `")
        return f"{place} has no {name!r}; it must be {_describe(allowed)}"
    if is_key:
        names = [one["propertyNames"] for one in allowed if "propertyNames" in one]
        return f"a name in {place} must be {_describe([{'type': 'string'} | name for name in names])}"
    form = re.fullmatch(_FORMAT, message)
    return f"{place} must be {f'a valid {form[1]}' if form else _describe(allowed)}; got {_excerpt(value)}"


def _at(path: str, arguments: Any, schema: Schema) -> Place:
    """The place that a path such as `$.items[2].city` leads to."""
    place: Place = list(_alternatives(schema, schema)), arguments, ""
    for name, index in re.findall(_STEP, path.removeprefix("$")):
        if index == "...":  # msgspec does not say which name: take the first whose value does not fit
            allowed, value, _ = place
            name = next((name for name in value if _misfits(allowed, name, value[name], schema)), "...")
        place = _step(place, int(index) if index.isdigit() else name, schema)
    return place


def _step(place: Place, step: str | int, whole: Schema) -> Place:
    allowed, value, path = place
    inside = [one for schema in allowed for one in _alternatives(_inner(schema, step), whole)]
    if isinstance(step, int):
        return inside, value[step], f"{path}[{step}]"
    inner = value.get(step) if isinstance(value, dict) else None
    return inside, inner, f"{path}.{step}" if path else step


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


def _describe(allowed: list[Schema]) -> str:
    values = [value for schema in allowed for value in schema.get("enum", ())]
    kinds = [_kind(schema) for schema in allowed if "enum" not in schema]
    choices = [f"one of {', '.join(map(_excerpt, values))}"] if values else []
    return " or ".join(dict.fromkeys(choices + kinds)) or "something else"


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
    """Takes a tool's options out of the class's keywords; msgspec refuses unknown ones."""

    def __new__(cls, name: str, bases: Any, namespace: dict[str, Any], /, **keywords: Any) -> Any:
        struct_options = {word: value for word, value in keywords.items() if word not in _OPTIONS}
        return super().__new__(cls, name, bases, namespace, **struct_options)

    def __init__(cls, name: str, bases: Any, namespace: dict[str, Any], /, **keywords: Any) -> None:
        super().__init__(name, bases, namespace)
        options: Any = {word: value for word, value in keywords.items() if word in _OPTIONS}
        if bases != (msgspec.Struct,):
            _declare(cls, _inherited(bases) | options)


_OPTIONS = ToolOptions.__annotations__
_RESERVED = ("spec", "validate", "run", "summarise")


class ToolClass(msgspec.Struct, metaclass=_Declared):
    """A class that is a tool. Options are class keywords, those of `tool`.

    class Weather(ToolClass, kind="read"):
        "The weather in a city."

        city: str
        days: Annotated[int, Meta(ge=1, le=7)] = 1

        async def run(self, context: ToolContext) -> str:
            return f"sunny in {self.city} for {self.days} days"

    - Pass the class to an agent, as in `tools=[Weather]`; each call makes an instance.
    - The docstring is read like that of a function. `__post_init__` may raise `ValueError` if the arguments
      do not fit, and the model gets the reason.
    """

    spec: ClassVar[ToolSpec]

    @classmethod
    def validate(cls, arguments: dict[str, Any]) -> Self:
        return validate_arguments(arguments, cls, cls.spec.name)

    async def run(self, context: ToolContext) -> Any:
        raise NotImplementedError

    def summarise(self, outcome: Ok | Failed) -> str:
        """The summary, for the user, of an outcome without one. If it is empty, the runtime writes one."""
        return ""


def _inherited(bases: tuple[type, ...]) -> Any:
    """The options of the base class's tool, without its name and description."""
    specs = [vars(base)["spec"] for base in bases if "spec" in vars(base)]
    words = _OPTIONS.keys() - {"name", "description"}
    return {word: getattr(specs[0], word) for word in words} if specs else {}


def _declare(declared: Any, options: ToolOptions) -> None:
    for name in declared.__struct_fields__:
        if name in _RESERVED:
            raise TypeError(
                f"{declared.__name__}: every tool has an attribute {name!r}; give the field another name, "
                f"with msgspec.field(name={name!r})"
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
        except Exception as error:  # the call has succeeded: only its summary fails
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
        """Decorates a coroutine function with the same parameters, but a `BeforeCall` as its context, that
        raises the error with which the call would fail."""
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
    """Runs plain code in a thread. If it hangs, the process can still exit."""

    def start(job: Callable[[], None]) -> None:
        threading.Thread(target=job, daemon=True, name="ostler-tool").start()

    return await run_posted(start, work)


async def run_posted(post: Callable[[Callable[[], None]], None], work: Callable[[], Any]) -> Any:
    """What `work` returns or raises. `post` gets a job that does it, and runs that in a thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def finish(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not future.cancelled():
            set_outcome(outcome)

    def job() -> None:
        try:
            outcome = future.set_result, work()
        except StopIteration:  # a future cannot hold one
            outcome = future.set_exception, RuntimeError("it raised StopIteration")
        except BaseException as error:
            outcome = future.set_exception, error
        with suppress(RuntimeError):  # the loop was closed: nothing waits any more
            loop.call_soon_threadsafe(finish, *outcome)

    post(job)
    return await future


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Makes a tool of a function with type hints. For a class see `ToolClass`.

    The docstring's first paragraph is the description; lines like `city: where to look` under an `Args:`
    heading describe parameters. A parameter named `context` gets the `ToolContext`.
    """

    def make(function: Callable[..., Any]) -> FunctionTool:
        if isinstance(function, type):
            raise TypeError(f"to make a class a tool, derive it: class {function.__name__}(ToolClass)")
        name = options.get("name") or function.__name__
        about, described = read_docstring(function.__doc__)
        parameters = parameters_of(function, name)
        fields: ToolOptions = {**options, "name": name, "description": options.get("description") or about}
        return FunctionTool(function, ToolSpec(schema=schema_of(parameters, described), **fields), parameters)

    return make(function) if function is not None else make
