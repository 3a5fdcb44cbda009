"""The harness: everything an agent works with in a session, handed in by `ostler.sessions`."""

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
from ostler.core.model import AbsentModel, Model, ReasoningLevel, ToolOffer
from ostler.core.questions import Asker
from ostler.core.tool import ResultLimits, Tool
from ostler.schema.errors import OstlerError, UsageError
from ostler.schema.events import Event, Limits, QuestionAnswered, QuestionAsked
from ostler.schema.facts import Fact

if TYPE_CHECKING:
    from ostler.core.children import SpawnedChildren
    from ostler.core.questions import Questions


Remember = Callable[[QuestionAsked, QuestionAnswered, str], Sequence[Event]]
"""Keeps what a permission that was granted says to keep; the facts that tell of it. May be called twice."""


MakeSystem = Callable[[str], str]
"""Makes the system prompt anew, from the files it comes from; with another beginning, if one is given."""


Tag = str | int | float | bool


Span = Callable[[str, dict[str, Any]], AbstractContextManager[Any]]
"""Makes the span of one piece of work: `run`, `model_call` or `tool_call`, with what it is about."""


NO_SPAN: AbstractContextManager[Any] = nullcontext()


SILENCE_LIMIT = 120.0


ONE_MODEL_ONLY = "this session works with one model only"


class TreePosition(msgspec.Struct, frozen=True):
    """Where a child stands in the tree of runs."""

    root: str
    parent: str
    depth: int
    budget: Budget | None
    """Its parent's, while that is driven by this process."""
    permissions: Callable[[], dict[str, str]] = dict
    """The rules that its parents' sessions remember: they hold in a child too."""


class ParentCall(Protocol):
    """What children need to know of the call that has them, or of what stands in its place."""

    session: str
    call: str
    run: str
    root_run: str
    depth: int
    harness: Harness
    journal: Journal

    @property
    def budget(self) -> Budget | None: ...

    def publish_trace(self, child: str, events: Sequence[Event | Fact]) -> None: ...


class Children(Protocol):
    """Runs children; handed in by `ostler.sessions`."""

    async def run(self, child: str, request: ChildRequest, parent: ParentCall) -> ChildResult:
        """Starts the child, or goes on with it, until its end. Raises `ChildWaits` when it waits."""
        ...

    async def status(self, child: str) -> ChildStatus:
        """How a child stands that nobody drives here."""
        ...

    async def end(self, child: str, reason: str, harness: Harness) -> ChildResult | None:
        """Ends a child that nobody waits for any more. None if it never began."""
        ...

    async def cut(self, child: str, harness: Harness) -> ChildResult | None:
        """Ends a child whose process is gone, and with which nobody goes on. None if it never began."""
        ...


class OpenSession(Protocol):
    """A session that this process holds, as those see it who go along with it."""

    journal: Journal
    harness: Harness
    questions: Questions

    @property
    def id(self) -> str: ...

    @property
    def budget(self) -> Budget | None:
        """Of the run under way."""
        ...

    @property
    def spawned(self) -> SpawnedChildren:
        """The children that no call has: those of the run under way, else those between runs."""
        ...

    @property
    def is_running(self) -> bool: ...

    def cancel(self, reason: str = ...) -> None: ...


class SessionListener(Protocol):
    """Goes along with every session that is opened with a harness, a child's too: the extensions do."""

    def on_open(self, session: OpenSession) -> None:
        """A session was opened."""

    async def before_step(self, session: OpenSession) -> None:
        """What changed outside takes effect here: the harness is read anew afterwards."""

    async def on_idle(self, session: OpenSession) -> None:
        """The run has ended or waits, and its facts are committed: what follows from them is done here."""

    async def drain(self, session: OpenSession) -> None:
        """There is nothing more to do: those who go along may finish what they do, and ask people."""

    async def on_close(self, session: OpenSession) -> None:
        """The session is given back."""

    def on_tool_error(self, session: str, tool: Tool, error: BaseException) -> None:
        """The code of a tool failed: whoever brought it is told where."""

    async def run_command(self, session: OpenSession, name: str, arguments: str) -> str:
        """What an extension's command says. Raises `NotFound`, or whatever went wrong."""
        ...


class Harness(msgspec.Struct):
    """May be changed between two runs; the kernel reads it anew at each step."""

    model: Model
    tools: dict[str, Tool] = field(default_factory=dict)
    system: str = ""
    make_system: MakeSystem | None = None
    hooks: Hooks = field(default_factory=Hooks)
    permission_hook: Hook | None = None
    """The last guard before a tool runs."""
    permission_profile: str = "full"
    """The name of the profile, for the record."""
    remember: Remember | None = None
    limits: Limits = field(default_factory=Limits)
    reasoning: ReasoningLevel | None = None
    max_output_tokens: int | None = None
    context: Context | None = None
    """Chooses what the model is told; without one it is told everything. One session's own."""
    result_limits: ResultLimits = ResultLimits()
    answer_schema: dict[str, Any] | None = None
    """A JSON Schema that each answer shall fit, where the model's vendor can promise it."""
    fallbacks: tuple[str | Model, ...] = ()
    """Asked in this order, each when the one before has failed for good; one that is named is made then."""
    make_model: Callable[[str], Model] | None = None
    """Makes the model that somebody asks for by name while the session is open."""
    silence_limit: float = SILENCE_LIMIT
    cwd: Path = field(default_factory=Path.cwd)
    asker: Asker | None = None
    waits_for_answers: bool = False
    """A question that nobody can answer now makes the run wait instead of being refused."""
    memory: dict[str, Any] = field(default_factory=dict)
    services: dict[str, Any] = field(default_factory=dict)
    """What the host hands to the tools, also to those of children."""
    extensions: tuple[str, ...] = ()
    trace: str = ""
    tags: dict[str, Tag] = field(default_factory=dict)
    """Said of each run, for whoever reads its log, and to its tools."""
    agent: str = ""
    place: TreePosition | None = None
    """Where its runs belong when they are a child's."""
    children: Children | None = None
    """Set by whoever drives the session."""
    children_together: int = MAX_TOGETHER
    attend: Callable[[Journal], None] | None = None
    """Told of each session that is opened with it, a child's too: to observe it."""
    attendant: SessionListener | None = None
    span: Span | None = None
    """Wraps each run, model call and tool call, for telemetry."""
    _made: dict[str, Model] = field(default_factory=dict)
    _offers: tuple[tuple[str, ...], tuple[ToolOffer, ...]] = ((), ())

    def set_model(self, name: str, reasoning: str = "") -> None:
        """From the next step on another model is asked. Raises what its making raises."""
        if self.make_model is None:
            raise UsageError(ONE_MODEL_ONLY)
        if reasoning and reasoning not in get_args(ReasoningLevel):
            levels = ", ".join(get_args(ReasoningLevel))
            raise UsageError(f"there is no reasoning level {reasoning!r}; the levels are: {levels}")
        self.model = self.make_model(name)
        self.reasoning = cast(ReasoningLevel, reasoning) if reasoning else self.reasoning

    def start_span(self, name: str, **about: Any) -> AbstractContextManager[Any]:
        return NO_SPAN if self.span is None else self.span(name, about)

    def next_fallback(self, failed: Model, report: Callable[[str], None]) -> Model | None:
        """The next model of the chain that can be made; `report` hears of those that cannot."""
        chain = [self._made.get(one) if isinstance(one, str) else one for one in self.fallbacks]
        asked = [place for place, one in enumerate(chain) if one is not None and one.name == failed.name]
        for one in self.fallbacks[max(asked, default=-1) + 1 :]:
            try:
                model = self._named(one) if isinstance(one, str) else one
            except OstlerError as error:
                report(f"{one} cannot go on: {error.message}")
                continue
            if model.name != failed.name:
                return model
        return None

    def _named(self, name: str) -> Model:
        if name not in self._made:
            if self.make_model is None:
                raise UsageError(ONE_MODEL_ONLY)
            self._made[name] = self.make_model(name)
        return self._made[name]

    def set_tools(self, tools: Iterable[Tool]) -> None:
        """Swaps the tools."""
        self.tools = {tool.spec.name: tool for tool in tools}
        self._offers = ((), ())

    def tool_offers(self, names: tuple[str, ...]) -> tuple[ToolOffer, ...]:
        """The named tools as the model is told of them, in the given (sorted) order."""
        if self._offers[0] != names:
            specs = (self.tools[name].spec for name in names)
            offers = tuple(ToolOffer(spec.name, spec.description, spec.schema) for spec in specs)
            self._offers = (names, offers)
        return self._offers[1]


def harness_without_model(cwd: str) -> Harness:
    return Harness(AbsentModel(), cwd=Path(cwd))
