"""The harness: an agent's configuration; and what a session offers to the loop and to listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

import msgspec
from msgspec import field

from ostler.core.budget import Budget
from ostler.core.children import MAX_TOGETHER, ChildRequest, ChildResult, ChildStatus
from ostler.core.context import Context
from ostler.core.hooks import Hook, Hooks
from ostler.core.journal import Journal
from ostler.core.model import AbsentModel, Model, ReasoningLevel, ToolOffer, ToolOffers
from ostler.core.processes import ProcessLimits
from ostler.core.questions import Asker
from ostler.core.tool import FileRules, ResultLimits, Tool
from ostler.schema.errors import OstlerError, UsageError
from ostler.schema.events import Event, Limits, QuestionAnswered, QuestionAsked
from ostler.schema.facts import Fact

if TYPE_CHECKING:
    from ostler.core.children import SpawnedChildren
    from ostler.core.loop import Loop
    from ostler.core.questions import Questions
    from ostler.schema.requests import AnyRequest


Remember = Callable[[QuestionAsked, QuestionAnswered, str], Sequence[Event]]
"""Stores the rule that a granted permission asks for, and returns its facts. May be called twice."""

Tag = str | int | float | bool

Span = Callable[[str, dict[str, Any]], AbstractContextManager[Any]]
"""Opens a telemetry span: `run`, `model_call` or `tool_call`, with its attributes."""

SILENCE_LIMIT = 120.0
ONE_MODEL_ONLY = "this session works with one model only"


class TreePosition(msgspec.Struct, frozen=True):
    """A child's position in the tree of runs."""

    root: str
    parent: str
    depth: int
    budget: Budget | None
    """Its parent's, while this process drives the parent."""
    permissions: Callable[[], dict[str, str]] = dict
    """The rules that the parents' sessions remember: they apply to a child too."""


class ParentCall(Protocol):
    """What a child needs to know of its parent: a call, or `SpawnedChildren`."""

    session: str
    call: str
    run: str
    root_run: str
    depth: int
    harness: Harness
    journal: Journal
    position: TreePosition | None
    """The parent's own, if the parent is a child as well."""

    @property
    def budget(self) -> Budget | None: ...

    def publish_trace(self, child: str, events: Sequence[Event | Fact]) -> None: ...


class Children(Protocol):
    """Runs children; implemented in `ostler.sessions`."""

    async def run(self, child: str, request: ChildRequest, parent: ParentCall) -> ChildResult:
        """Starts or continues the child until it ends. Raises `ChildWaits` when it waits."""

    async def status(self, child: str) -> ChildStatus:
        """The status of a child that this process does not drive."""

    async def end(self, child: str, reason: str, harness: Harness) -> ChildResult | None:
        """Ends a child that nothing waits for. None if it never started."""

    async def cut(self, child: str, harness: Harness) -> ChildResult | None:
        """Ends a child whose process is gone and that nothing continues. None if it never started."""


class OpenSession(Protocol):
    """A session that this process has open, as the loop and listeners see it."""

    journal: Journal
    harness: Harness
    questions: Questions
    memory: dict[str, Any]
    """What the session's tools keep between their calls. Never stored."""
    position: TreePosition | None
    """Set in a child's session."""
    children: Children | None

    loop: Loop | None
    """Drives the open run; None between drives."""

    @property
    def id(self) -> str: ...

    @property
    def budget(self) -> Budget | None:
        """The open run's."""

    @property
    def spawned(self) -> SpawnedChildren:
        """The children that belong to no call: the open run's, else those between runs."""

    @property
    def is_running(self) -> bool: ...

    def cancel(self, reason: str = ...) -> None: ...

    async def read_inbox(self) -> None:
        """Handles the requests that have arrived."""

    async def handle(self, request: AnyRequest) -> None:
        """Handles one request of the inbox."""


class SessionListener:
    """Notified of each session that is opened with a harness, a child's too. Every method is optional."""

    is_extension_host = False

    def on_journal(self, journal: Journal) -> None:
        """A log was opened, also that of another vendor's agent: the place to subscribe to it."""

    def on_open(self, session: OpenSession) -> None:
        """A session was opened; its log's `on_journal` came before."""

    async def before_step(self, session: OpenSession) -> None:
        """A step is about to begin; changes of the harness take effect in it."""

    async def on_idle(self, session: OpenSession) -> None:
        """The run has ended or waits, and its facts are committed."""

    async def drain(self, session: OpenSession) -> None:
        """The session has nothing more to do: the last chance to finish work, and to ask the user."""

    async def on_close(self, session: OpenSession) -> None:
        """The session was closed."""

    def on_tool_error(self, session: str, tool: Tool, error: BaseException) -> None:
        """A tool's code raised an unexpected error."""

    async def run_command(self, session: OpenSession, name: str, arguments: str) -> str | None:
        """The output of a command, or None. Raises `NotFound`, or the command's error."""
        return None


class JournalListener(SessionListener):
    """Calls a function with the journal of each session that is opened."""

    def __init__(self, function: Callable[[Journal], object]) -> None:
        self._function = function

    def on_journal(self, journal: Journal) -> None:
        self._function(journal)


class Harness(msgspec.Struct):
    """An agent's configuration. It may change between runs; the loop reads it again at each step."""

    model: Model
    tools: dict[str, Tool] = field(default_factory=dict)
    system: str = ""
    make_system: Callable[[str], str] | None = None
    """Builds the system prompt again from its files; the argument, if not empty, replaces its beginning."""
    hooks: Hooks = field(default_factory=Hooks)
    permission_hook: Hook | None = None
    """The last guard before a tool runs."""
    permission_profile: str = "full"
    remember: Remember | None = None
    limits: Limits = field(default_factory=Limits)
    reasoning: ReasoningLevel | None = None
    max_output_tokens: int | None = None
    context: Context | None = None
    """Chooses what the model gets; without one it gets everything. Each session has its own."""
    result_limits: ResultLimits = ResultLimits()
    answer_schema: dict[str, Any] | None = None
    """A JSON Schema for each answer, where the model's vendor supports it."""
    fallbacks: tuple[str | Model, ...] = ()
    """Tried in this order, each when the previous model has failed for good. A name is resolved then."""
    make_model: Callable[[str], Model] | None = None
    """Makes a model that a request names while the session is open."""
    silence_limit: float = SILENCE_LIMIT
    cwd: Path = field(default_factory=Path.cwd)
    confine_harmless: bool = True
    """Commands that were only judged harmless run confined, where the system can do that."""
    process_limits: ProcessLimits = ProcessLimits()
    """For the processes of each tool call."""
    asker: Asker | None = None
    wait_for_answers: bool = False
    """The run waits for an answer when there is no asker, instead of refusing the call."""
    services: dict[str, Any] = field(default_factory=dict)
    """Objects that the host passes to the tools, also to those of children."""
    extensions: tuple[str, ...] = ()
    trace: str = ""
    tags: dict[str, Tag] = field(default_factory=dict)
    """Recorded in each run, and passed to its tools."""
    agent: str = ""
    children_together: int = MAX_TOGETHER
    listeners: list[SessionListener] = field(default_factory=list)
    """A child's harness has the same ones. Add one by assigning a new list."""
    span: Span | None = None
    """Wraps each run, model call and tool call, for telemetry."""
    _made: dict[str, Model] = field(default_factory=dict)
    _offers: tuple[tuple[str, ...], ToolOffers] = ((), ())

    def on_journal(self, journal: Journal) -> None:
        for listener in self.listeners:
            listener.on_journal(journal)

    def file_rules(self, remembered: Sequence[tuple[str, str]] = ()) -> FileRules | None:
        """What permission says of files that no call names; `remembered` are the session's own rules."""
        hook = self.permission_hook
        return hook.files(remembered) if hook and hook.files else None

    def set_model(self, name: str, reasoning: str = "") -> None:
        """Switches to another model from the next step on. Raises what `make_model` raises."""
        if reasoning and reasoning not in get_args(ReasoningLevel):
            levels = ", ".join(get_args(ReasoningLevel))
            raise UsageError(f"there is no reasoning level {reasoning!r}; the levels are: {levels}")
        self.model = self._make(name)
        self.reasoning = cast(ReasoningLevel, reasoning) if reasoning else self.reasoning

    def start_span(self, name: str, **about: Any) -> AbstractContextManager[Any]:
        return nullcontext() if self.span is None else self.span(name, about)

    def next_fallback(self, failed: Model, report: Callable[[str], None]) -> Model | None:
        """The next model of the chain that can be made; `report` gets a text for each that cannot."""
        chain = [self._made.get(one) if isinstance(one, str) else one for one in self.fallbacks]
        tried = [index for index, one in enumerate(chain) if one is not None and one.name == failed.name]
        for one in self.fallbacks[max(tried, default=-1) + 1 :]:
            try:
                if isinstance(one, str) and one not in self._made:
                    self._made[one] = self._make(one)
            except OstlerError as error:
                report(f"{one} cannot be used: {error.message}")
                continue
            model = self._made[one] if isinstance(one, str) else one
            if model.name != failed.name:
                return model
        return None

    def _make(self, name: str) -> Model:
        if self.make_model is None:
            raise UsageError(ONE_MODEL_ONLY)
        return self.make_model(name)

    def set_tools(self, tools: Iterable[Tool]) -> None:
        self.tools = {tool.spec.name: tool for tool in tools}
        self._offers = ((), ())

    def tool_offers(self, names: tuple[str, ...]) -> ToolOffers:
        """The named tools as they are offered to the model, in this (sorted) order."""
        if self._offers[0] != names:
            specs = (self.tools[name].spec for name in names)
            offers = tuple(ToolOffer(spec.name, spec.description, spec.schema) for spec in specs)
            self._offers = (names, offers)
        return self._offers[1]


def harness_without_model(cwd: str) -> Harness:
    return Harness(AbsentModel(), cwd=Path(cwd))
