"""The Tool contract, and how a typed function becomes a tool."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Protocol, TypeVar, get_type_hints, overload

import msgspec

from ostler.kernel.cancel import CancelToken
from ostler.kernel.processes import ProcessId
from ostler.vocabulary.errors import InvalidArguments
from ostler.vocabulary.events import ToolResultFact
from ostler.vocabulary.messages import File, Image, PlainBlock, Text, as_content
from ostler.vocabulary.outcomes import Failed, NeedUser, Ok, Outcome, Pending, Question

ToolKind = Literal["read", "search", "edit", "execute", "fetch", "agent", "ask", "other"]


class ToolSpec(msgspec.Struct, frozen=True):
    """What the kernel needs to know of a tool before it runs."""

    name: str
    description: str
    schema: dict[str, Any]
    kind: ToolKind = "other"
    parallel: bool = False
    """May run beside other parallel tools of the same step."""
    idempotent: Literal["no", "run", "session"] = "no"
    """Running it again has no further effect; `run` and `session` say how far a result may be reused."""
    timeout: float | None = None
    resumes: bool = False
    """Called again with the answer after `need_user`; otherwise the answer is the result."""


class ToolContext(Protocol):
    """What a running tool may know and do."""

    session: str
    run: str
    step: int
    call: str
    attempt: int
    cwd: Path
    cancel: CancelToken
    memory: dict[str, Any]
    """Shared by the tools of this session while it is open; not stored."""
    answer: Any
    """The person's answer, when a tool that `resumes` is called again; `state` is what it had kept."""
    state: Any

    def output(self, text: str, stream: Literal["out", "err"] = "out") -> None:
        """Shows output live and keeps it. A crash loses at most the last fraction of a second of it.

        When the result's content is shorter than what was output, the whole is named by the result.
        """

    async def own_process(self, process: ProcessId) -> None:
        """Records a process group, so that whoever takes over after a crash can end it."""

    async def ask(self, question: Question) -> Any:
        """Asks a person and waits. Raises `CallRefused` when nobody can or will answer."""

    def results(self) -> AsyncIterator[ToolResultFact]:
        """The results on this session's path so far, oldest first, from the log."""
        ...

    async def read_blob(self, blob: str, start: int = 0, size: int | None = None) -> bytes: ...


class Tool(Protocol):
    """Something the model may call.

    - `run` gets arguments that fit the schema; it may return text, blocks, a JSON value or an `Outcome`.
    - Whatever it raises becomes a failed outcome; it never ends the loop.
    - It stops soon after `context.cancel` fires: its task is cancelled, and processes it owns must die.
    """

    @property
    def spec(self) -> ToolSpec: ...

    def validate(self, arguments: dict[str, Any]) -> Any:
        """The arguments as `run` wants them; raises `InvalidArguments` with a text for the model."""

    async def run(self, arguments: Any, context: ToolContext) -> Any: ...


class FunctionTool:
    """A tool made of a typed function. See `tool`."""

    def __init__(
        self, function: Callable[..., Any], spec: ToolSpec, parameters: type[msgspec.Struct]
    ) -> None:
        self.function = function
        self.spec = spec
        self._parameters = parameters
        self._wants_context = "context" in inspect.signature(function).parameters
        self.__doc__ = function.__doc__
        self.__name__ = spec.name

    def validate(self, arguments: dict[str, Any]) -> msgspec.Struct:
        return checked(arguments, self._parameters, self.spec.name)

    async def run(self, arguments: msgspec.Struct, context: ToolContext) -> Any:
        values = {name: getattr(arguments, name) for name in arguments.__struct_fields__}
        if self._wants_context:
            values["context"] = context
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**values)
        return await in_thread(lambda: self.function(**values))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain function, for tests and for calling it from Python."""
        return self.function(*args, **kwargs)


async def in_thread(work: Callable[[], Any]) -> Any:
    """Runs plain code beside the event loop, in a thread that keeps nobody from leaving when it hangs."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
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

    threading.Thread(target=run, daemon=True, name="ostler-tool").start()
    return await done


Parameters = TypeVar("Parameters", bound=msgspec.Struct)
Function = TypeVar("Function", bound=Callable[..., Any])


def checked(arguments: dict[str, Any], parameters: type[Parameters], tool: str) -> Parameters:
    """The arguments as a struct; an error that tells the model which one is wrong and what is expected."""
    unknown = [name for name in arguments if name not in parameters.__struct_encode_fields__]
    if unknown:
        known = ", ".join(parameters.__struct_encode_fields__) or "none"
        raise InvalidArguments(f"{tool} has no parameter {unknown[0]!r}; its parameters are: {known}")
    try:
        return msgspec.convert(arguments, parameters)
    except msgspec.ValidationError as error:
        raise InvalidArguments(f"invalid arguments for {tool}: {error}") from None


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    kind: ToolKind = "other",
    parallel: bool = False,
    idempotent: Literal["no", "run", "session"] = "no",
    timeout: float | None = None,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    kind: ToolKind = "other",
    parallel: bool = False,
    idempotent: Literal["no", "run", "session"] = "no",
    timeout: float | None = None,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Makes a tool of a function with type hints.

    The docstring's first paragraph is the description; lines like `city: where to look` under an
    `Args:` heading describe parameters. A parameter named `context` receives the `ToolContext`.
    """

    def make(function: Callable[..., Any]) -> FunctionTool:
        tool_name = name or function.__name__
        about, parameter_docs = _read_docstring(function)
        parameters = _parameters_of(function, tool_name)
        spec = ToolSpec(
            name=tool_name,
            description=description or about,
            schema=schema_of(parameters, parameter_docs),
            kind=kind,
            parallel=parallel,
            idempotent=idempotent,
            timeout=timeout,
        )
        return FunctionTool(function, spec, parameters)

    return make(function) if function is not None else make


def schema_of(parameters: type[msgspec.Struct], descriptions: dict[str, str] | None = None) -> dict[str, Any]:
    """A JSON Schema of an object, with nested types in `$defs` and without titles."""
    (schema,), definitions = msgspec.json.schema_components([parameters], ref_template="#/$defs/{name}")
    own: dict[str, Any] = definitions.pop(parameters.__name__, schema)
    own.pop("title", None)
    own.setdefault("properties", {})
    own.setdefault("required", [])
    own["additionalProperties"] = False
    for parameter, text in (descriptions or {}).items():
        if parameter in own["properties"]:
            own["properties"][parameter].setdefault("description", text)
    if definitions:
        own["$defs"] = definitions
    return own


def as_outcome(returned: Any) -> Outcome:
    """What a tool returned, as an outcome: text, blocks, nothing, or any JSON value."""
    match returned:
        case Ok() | Failed() | NeedUser() | Pending():
            return returned
        case None:
            return Ok(as_content("done"))
        case str() | Text() | Image() | File():
            return Ok(_content_or_note((returned,)))
        case list() | tuple() if returned and all(isinstance(part, Text | Image | File) for part in returned):
            return Ok(tuple(returned))
        case _:
            return Ok(as_content(msgspec.json.encode(returned).decode()))


def _content_or_note(parts: tuple[str | PlainBlock, ...]) -> tuple[PlainBlock, ...]:
    return as_content(parts) or as_content("(no output)")


def _parameters_of(function: Callable[..., Any], tool_name: str) -> type[msgspec.Struct]:
    hints = _hints_of_parameters(function)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "context":
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"tool {tool_name!r}: a tool cannot have *{parameter.name}; name its parameters")
        hint = hints.get(parameter.name, Any)
        has_default = parameter.default is not parameter.empty
        fields.append((parameter.name, hint, parameter.default) if has_default else (parameter.name, hint))
    return msgspec.defstruct(tool_name, fields, kw_only=True)


def _hints_of_parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Of what the model passes. The context's and the result's hints may name what is imported elsewhere."""
    skipped = ("context", "return")
    written = {name: hint for name, hint in function.__annotations__.items() if name not in skipped}
    return get_type_hints(
        SimpleNamespace(__annotations__=written), globalns=function.__globals__, include_extras=True
    )


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    text = inspect.getdoc(function) or ""
    head, _, arguments = text.partition("\nArgs:")
    about = " ".join(head.strip().split("\n\n")[0].split())
    lines = re.findall(r"^\s+(\w+)(?:\s*\([^)]*\))?:\s*(.+)$", arguments, re.MULTILINE)
    return about, dict(lines)
