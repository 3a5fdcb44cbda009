"""The Tool contract, and how a typed function becomes a tool."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

import msgspec

from ostler.core.cancellation import CancelToken
from ostler.core.json_schema import schema_of as schema_of
from ostler.core.processes import ProcessId
from ostler.schema.events import Event, TodoItem, ToolResultFact
from ostler.schema.facts import Fact
from ostler.schema.messages import File, Image, PlainBlock, Text, as_content, text_of
from ostler.schema.outcomes import Display, Failed, NeedUser, Ok, Outcome, Pending, Question

if TYPE_CHECKING:
    from ostler.core.children import ChildRequest, ChildResult


ToolKind = Literal["read", "search", "edit", "execute", "fetch", "agent", "ask", "other"]

_SUMMARY_LIMIT = 200

ToolSource = Literal["built-in", "mcp", "extension", "host"]
"""Who provides a tool."""


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
    reattaches: bool = False
    """Called again after a crash, whatever it did: it finds its children where they are."""
    display: Display | None = None
    source: ToolSource = "host"


class BeforeCall(Protocol):
    """What may be known before a call runs."""

    cwd: Path
    memory: dict[str, Any]

    def results(self) -> AsyncIterator[ToolResultFact]: ...


class ToolContext(Protocol):
    """What a running tool may know and do."""

    session: str
    run: str
    root_run: str
    """The run at the top of the tree of children; this one, if it is no child."""
    parent_run: str
    """Empty, if it is no child."""
    trace: str
    """The host's id of the work that this is a part of; else the root run's."""
    step: int
    call: str
    attempt: int
    depth: int
    tags: dict[str, str | int | float | bool]
    """What the host said of the run."""
    cwd: Path
    cancel: CancelToken
    memory: dict[str, Any]
    """Shared by the tools of this session while it is open; not stored."""
    services: dict[str, Any]
    """What the host handed in; the tools of children have it too."""
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

    @property
    def citation_offset(self) -> int:
        """How many citations this run's results have so far (`details["citations"]`): number on from it."""

    @property
    def todo(self) -> tuple[TodoItem, ...]:
        """The to-do list as it is now."""

    async def update_todo(self, items: Sequence[TodoItem]) -> None:
        """Replaces the to-do list, for everybody who follows."""

    async def working_history(self) -> list[Fact]:
        """The session's facts up to this moment, those of the present step included."""

    async def persisted_history(self) -> list[Fact]:
        """The session's facts as they were when this run began."""

    def publish_trace(self, child: str, events: Sequence[Event | Fact]) -> None:
        """Shows what happens under this call, in `child`, live; it is not stored."""

    def run_child(self, request: ChildRequest) -> Coroutine[Any, Any, ChildResult]:
        """Runs a child to its end. Raises `CallRefused` where there can be none, and `ChildWaits` when it
        waits for a person: let that pass, and the call stays open.

        The n-th child of a call is the same one when the call is started again after a crash.
        """

    def results(self) -> AsyncIterator[ToolResultFact]:
        """The results on this session's path so far, oldest first, from the log."""

    async def read_blob(self, blob: str, start: int = 0, size: int | None = None) -> bytes: ...


class Tool(Protocol):
    """Something the model may call.

    - `run` gets arguments that fit the schema; it may return text, blocks, a JSON value or an `Outcome`.
    - Whatever it raises becomes a failed outcome; it never ends the loop.
    - It stops soon after `context.cancel` fires: its task is cancelled, and processes it owns must die.
    - It may have a method `async precheck(arguments, before: BeforeCall) -> str`: why the call would fail
      for sure. It is asked before a person is, and changes nothing.
    - It may have a method `expand_arguments(arguments, before: BeforeCall) -> dict`: the full arguments,
      such as the command behind a name. Those are judged, shown to people, and run.
    """

    @property
    def spec(self) -> ToolSpec: ...

    def validate(self, arguments: dict[str, Any]) -> Any:
        """The arguments as `run` wants them; raises `InvalidArguments` with a text for the model."""

    async def run(self, arguments: Any, context: ToolContext) -> Any: ...


class ToolOptions(TypedDict, total=False):
    """What `@tool(…)` and a `ToolClass` take: the fields of `ToolSpec`."""

    name: str
    description: str
    kind: ToolKind
    parallel: bool
    idempotent: Literal["no", "run", "session"]
    timeout: float | None
    resumes: bool
    reattaches: bool
    display: Display | None
    source: ToolSource


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


def default_summary(content: Sequence[PlainBlock]) -> str:
    """What people are told of a result that says nothing about itself."""
    text = text_of(content).strip()
    if not text:
        others = [block.media_type for block in content if isinstance(block, Image | File)]
        return ", ".join(others) or "no output"
    lines = text.splitlines()
    if len(lines) == 1 and len(text) <= _SUMMARY_LIMIT:
        return text
    return f"{len(text)} characters in {len(lines)} line{'' if len(lines) == 1 else 's'}"


MODEL_LIMIT = 50 * 1024


class ResultLimits(msgspec.Struct, frozen=True):
    """How much of a result's text the model is told, for tools that do not bound it themselves."""

    characters: int = MODEL_LIMIT
    lines: int | None = None
