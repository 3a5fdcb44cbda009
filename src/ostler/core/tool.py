"""The Tool contract, and the context of a running call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

import msgspec

from ostler.core.cancellation import CancelToken
from ostler.core.processes import ProcessId, ProcessLimits
from ostler.schema.events import Event, TodoItem, ToolResultFact
from ostler.schema.facts import Fact
from ostler.schema.messages import File, Image, PlainBlock, Text, as_content, text_of
from ostler.schema.outcomes import Display, Failed, NeedUser, Ok, Outcome, Pending, Question
from ostler.schema.text import plural

if TYPE_CHECKING:
    from ostler.core.children import ChildRequest, ChildResult


ToolKind = Literal["read", "search", "edit", "execute", "fetch", "agent", "ask", "other"]
_SUMMARY_LIMIT = 200

ToolSource = Literal["built-in", "mcp", "extension", "host"]


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool's properties, which are known before it runs."""

    name: str
    description: str
    schema: dict[str, Any]
    kind: ToolKind = "other"
    parallel: bool = False
    """It may run at the same time as other parallel tools of the step."""
    idempotent: Literal["no", "run", "session"] = "no"
    """Running it again has no further effect; a result may be reused within the run or the session."""
    timeout: float | None = None
    resumes: bool = False
    """Called again with the answer after `need_user`; otherwise the answer is the result."""
    reattaches: bool = False
    """Called again after a crash, even if it is not idempotent: it continues its children."""
    display: Display | None = None
    source: ToolSource = "host"


class FileRules(Protocol):
    """What permission says of files that no call names: those that a search finds, or a person attaches."""

    def hides(self, path: Path) -> bool:
        """Whether searches and listings skip what is at this resolved path."""

    def denial(self, path: Path) -> str:
        """The rule that forbids reading it, whoever asks; empty if none does."""


class BeforeCall(Protocol):
    """What `precheck` and `expand_arguments` may know of the session."""

    cwd: Path
    memory: dict[str, Any]
    judged: Path | None
    """The path that permission has judged, without links; None if nothing judged one."""

    def results(self) -> AsyncIterator[ToolResultFact]: ...


class ToolContext(Protocol):
    """What a running tool may know and do."""

    session: str
    run: str
    root_run: str
    """The run at the root of the tree of children; this one, if it is not a child."""
    parent_run: str
    """Empty if it is not a child."""
    trace: str
    """The host's id of the work that this belongs to; else the root run's."""
    step: int
    call: str
    attempt: int
    depth: int
    tags: dict[str, str | int | float | bool]
    cwd: Path
    judged: Path | None
    """The path that permission has judged, without links; None if nothing judged one. A tool that reads or
    changes a file uses this one: its own arguments may lead elsewhere by now."""
    cancel: CancelToken
    memory: dict[str, Any]
    """Shared by the tools of this session while it is open; not stored."""
    services: dict[str, Any]
    """Objects that the host passes to the tools, also to those of children."""
    answer: Any
    """The user's answer, if a tool that `resumes` is called again; `state` is what it returned before."""
    state: Any
    confined: bool
    """The call was only judged harmless: what it starts must run confined."""
    process_limits: ProcessLimits

    def output(self, text: str, stream: Literal["out", "err"] = "out") -> None:
        """Shows output live and stores it. A crash loses at most the last fraction of a second. If the
        result's content is shorter than the output, the result refers to the whole."""

    @property
    def file_rules(self) -> FileRules | None:
        """Which files a search or listing skips; None if it shows all of them."""

    async def own_process(self, process: ProcessId) -> None:
        """Records a process group, so that the process that takes over after a crash can end it."""

    async def ask(self, question: Question) -> Any:
        """Asks the user and waits. Raises `CallRefused` if there is no user, or no answer."""

    @property
    def citation_offset(self) -> int:
        """How many citations this run's results have so far (`details["citations"]`)."""

    @property
    def todo(self) -> tuple[TodoItem, ...]:
        """The current to-do list."""

    async def update_todo(self, items: Sequence[TodoItem]) -> None:
        """Replaces the to-do list."""

    async def working_history(self) -> list[Fact]:
        """The session's facts up to this moment, including those of the current step."""

    async def persisted_history(self) -> list[Fact]:
        """The session's facts as they were when this run began."""

    def publish_trace(self, child: str, events: Sequence[Event | Fact]) -> None:
        """Publishes events of `child` live under this call; they are not stored."""

    def run_child(self, request: ChildRequest) -> Coroutine[Any, Any, ChildResult]:
        """Runs a child to its end. Raises `CallRefused` if no child can run here, and `ChildWaits` if it
        waits for the user: do not catch that, and the call stays open. The n-th child of a call is the same
        one if the call is started again after a crash."""

    def results(self) -> AsyncIterator[ToolResultFact]:
        """The results on this session's path so far, oldest first, from the log."""

    async def read_blob(self, blob: str, start: int = 0, size: int | None = None) -> bytes: ...


class Tool(Protocol):
    """Something that the model may call.

    - `run` gets arguments that fit the schema; it may return text, blocks, a JSON value or an `Outcome`.
    - Any exception that it raises becomes a failed outcome; it never ends the loop.
    - It stops soon after `context.cancel` fires: its task is cancelled, and its processes must end.
    - It may have a method `async precheck(arguments, before: BeforeCall) -> str`: why the call would fail in
      any case. It is called before the user is asked, and changes nothing.
    - It may have a method `expand_arguments(arguments, before: BeforeCall) -> dict`: the full arguments, such
      as the command behind a name. Those are checked, shown to the user, and run.
    """

    @property
    def spec(self) -> ToolSpec: ...

    def validate(self, arguments: dict[str, Any]) -> Any:
        """The arguments as `run` takes them; raises `InvalidArguments` with a text for the model."""

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
    """The outcome for what a tool returned: text, blocks, nothing, or any JSON value."""
    match returned:
        case Ok() | Failed() | NeedUser() | Pending():
            return returned
        case None:
            return Ok(as_content("done"))
        case str() | Text() | Image() | File():
            return Ok(as_content((returned,)) or as_content("(no output)"))
        case list() | tuple() if returned and all(isinstance(part, Text | Image | File) for part in returned):
            return Ok(tuple(returned))
        case _:
            return Ok(as_content(msgspec.json.encode(returned).decode()))


def default_summary(content: Sequence[PlainBlock]) -> str:
    """The summary, for the user, of a result without one."""
    text = text_of(content).strip()
    if not text:
        media = [block.media_type for block in content if isinstance(block, Image | File)]
        return ", ".join(media) or "no output"
    lines = text.splitlines()
    if len(lines) == 1 and len(text) <= _SUMMARY_LIMIT:
        return text
    return f"{len(text)} characters in {plural(len(lines), 'line')}"


MODEL_LIMIT = 50 * 1024


class ResultLimits(msgspec.Struct, frozen=True):
    """How much of a result's text the model gets, for tools that do not limit it themselves."""

    characters: int = MODEL_LIMIT
    lines: int | None = None
