"""`context.spawn`: an extension starts a child session, follows its events and gets its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from ostler.core.cancellation import running_stopwatch
from ostler.core.children import ChildRequest, ChildResult, ExecutionPolicy, SpawnedChildren, Watch
from ostler.core.harness import Harness
from ostler.core.hooks import TIME_LIMIT
from ostler.extensions.executor import ExtensionError, Handler
from ostler.schema import events
from ostler.schema.errors import (
    CallRefused,
    InvalidArguments,
    NotFound,
    OstlerError,
    UsageError,
    describe_error,
)
from ostler.schema.events import Event, RunStatus
from ostler.schema.facts import Fact, UnknownEvent, decode_event
from ostler.schema.messages import as_content, text_of
from ostler.schema.usage import NOTHING_USED, Limits, Usage
from ostler.sessions.agents import CHILD_NOTE, DelegateTool
from ostler.sessions.children import child_harness, result_of
from ostler.sessions.run_tree import load_state

if TYPE_CHECKING:
    from ostler.extensions.extension_context import Content, ExtensionContext

EventKind = Literal[
    "run_started", "text", "reasoning", "tool_call", "tool_started", "tool_output", "tool_result", "run_ended"
]


class SubagentEvent(msgspec.Struct, frozen=True):
    """Something that happens in a child."""

    kind: EventKind
    text: str = ""
    """What it says, thinks or was asked; what a tool prints or returns; how the run ended."""
    call: str = ""
    tool: str = ""
    tool_kind: str = ""
    """`read`, `search`, `edit`, `execute`, `fetch`, `agent`, `ask` or `other`."""
    arguments: dict[str, Any] | None = None
    failed: bool = False


class SubagentEvents:
    """Reads what happens in a child. One for each child: it remembers which tool a call is of."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, str]] = {}

    def read(self, happened: Event | Fact) -> SubagentEvent | None:
        """Of an event in its session, or of a `ChildEvent` in its parent's. None for all others."""
        event: Event | UnknownEvent = happened.event if isinstance(happened, Fact) else happened
        if isinstance(event, events.ChildEvent):
            event = event.event if isinstance(event.event, Event) else decode_event(event.line())
        match event:
            case events.TextDelta(text=text):
                return SubagentEvent("text", text)
            case events.ReasoningDelta(text=text):
                return SubagentEvent("reasoning", text)
            case events.ToolCalled(call=call, name=name, kind=kind, arguments=arguments):
                self._calls[call] = (name, kind)
                return SubagentEvent("tool_call", "", call, name, kind, arguments)
            case events.ToolStarted(call=call):
                return SubagentEvent("tool_started", "", call, *self._tool(call))
            case events.ToolOutput(call=call, text=text):
                return SubagentEvent("tool_output", text, call, *self._tool(call))
            case events.ToolResultFact(call=call, content=content, failed=failed):
                about = (text_of(content), call, *self._tool(call))
                return SubagentEvent("tool_result", *about, failed=failed is not None)
            case events.RunStarted():
                return SubagentEvent("run_started")
            case events.RunEnded(status=status):
                return SubagentEvent("run_ended", status, failed=status != "completed")
        return None

    def _tool(self, call: str) -> tuple[str, str]:
        return self._calls.get(call, ("", ""))


class SubagentResult(msgspec.Struct, frozen=True):
    """What came of a child. `text` is its answer, or as much of one as there was when it was cut."""

    session: str
    status: RunStatus
    text: str = ""
    error: str = ""
    """Why it did not complete; empty if it did."""
    usage: Usage = NOTHING_USED
    """Its own and that of its children."""
    elapsed: float = 0.0
    """Seconds."""

    @property
    def ok(self) -> bool:
        return self.status == "completed"


class Callbacks(msgspec.Struct, frozen=True):
    """Functions of the extension's, plain or async. Each takes its subject, or that and the context."""

    on_event: Callable[..., Any] | None = None
    on_output: Callable[..., Any] | None = None
    on_complete: Callable[..., Any] | None = None


class Subagent:
    """A child at work. It is killed when the run ends that it was spawned in, or the session is left."""

    def __init__(
        self,
        id: str,
        context: ExtensionContext,
        callbacks: Callbacks,
        drive: Callable[[Watch], Coroutine[Any, Any, ChildResult]],
    ) -> None:
        self.id = id
        """Of its session."""
        self._context = context
        self._callbacks = callbacks
        self._reader = SubagentEvents()
        self._waiting: list[SubagentEvent] = []
        self._telling: asyncio.Task[None] | None = None
        self._driving = asyncio.ensure_future(drive(self._watch))
        self._why_cut = ""
        self._finished: asyncio.Future[SubagentResult] = asyncio.get_running_loop().create_future()

    @property
    def done(self) -> bool:
        return self._finished.done()

    def kill(self) -> None:
        """Ends it; it still gets its result. Harmless if it has one."""
        self._context.calls.call(lambda: self.kill_now("it was killed"))

    async def wait(self) -> SubagentResult:
        """What came of it, once `on_complete` has seen that. Time in here does not count for a handler."""
        watch = running_stopwatch.get()
        if watch is not None:
            watch.pause()
        try:
            return await asyncio.shield(self._finished)
        finally:
            if watch is not None:
                watch.go_on()

    async def work(self) -> None:
        """To the result, whatever happens; to be owned by whoever the child belongs to."""
        loop = asyncio.get_running_loop()
        began, driving = loop.time(), self._driving
        result = SubagentResult(self.id, "failed", error="it ended without a result")
        try:
            try:
                await asyncio.wait({driving})
            except asyncio.CancelledError:
                self.kill_now()
                await asyncio.wait({driving})
            result = msgspec.structs.replace(await self._result(driving), elapsed=loop.time() - began)
            if self._telling is not None:
                await self._telling
            await self._call("on_complete", result)
        finally:
            if not self._finished.done():
                self._finished.set_result(result)

    def kill_now(self, why: str = "the run that it belonged to has ended, or its session was left") -> None:
        if not self._driving.done() and not self._why_cut:
            self._why_cut = why
            self._driving.cancel()

    async def _result(self, driving: asyncio.Task[ChildResult]) -> SubagentResult:
        if driving.cancelled():
            return await self._result_so_far()
        error = driving.exception()
        if isinstance(error, OstlerError):
            return SubagentResult(self.id, "failed", error=error.message)
        if error is not None:
            return SubagentResult(self.id, "failed", error=describe_error(error))
        return _as_result(driving.result(), "")

    async def _result_so_far(self) -> SubagentResult:
        try:
            ended = result_of(await self._context.journal.store.read(self.id))
        except NotFound:
            ended = None
        return _as_result(ended or ChildResult(self.id, "", "cancelled"), self._why_cut)

    def _watch(self, batch: Sequence[Event | Fact]) -> None:
        """Sees what happens in its session. Text that comes faster than it is told is joined."""
        for happened in batch:
            event = self._reader.read(happened)
            if event is None:
                continue
            last = self._waiting[-1] if self._waiting else None
            if last and last.kind == event.kind in ("text", "reasoning"):
                self._waiting[-1] = SubagentEvent(event.kind, last.text + event.text)
            else:
                self._waiting.append(event)
        if self._waiting and self._telling is None:
            self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        try:
            while self._waiting:
                event = self._waiting.pop(0)
                await self._call("on_event", event)
                if event.kind == "text":
                    await self._call("on_output", event.text)
        finally:
            self._telling = None

    async def _call(self, name: Literal["on_event", "on_output", "on_complete"], subject: Any) -> None:
        """A callback that fails is reported, and not called again."""
        function = getattr(self._callbacks, name)
        if function is None:
            return
        context, extension_session = self._context, self._context.extension_session
        handler = Handler.of(function)
        try:
            await handler.call(context.extension.worker, subject, context, seconds=TIME_LIMIT)
        except ExtensionError as failure:
            self._callbacks = msgspec.structs.replace(self._callbacks, **{name: None})
            extension_session.report(context.extension, name, str(failure))
        await extension_session.commit()


def _as_result(ended: ChildResult, why_cut: str) -> SubagentResult:
    error = "" if ended.is_whole else why_cut or ended.reason or ended.status
    usage = (ended.own + ended.children).usage
    return SubagentResult(ended.session, ended.status, ended.text, error, usage)


SUBAGENT_SECONDS = 300.0
MOST_DEEP = 8
"""Children of children. Handlers are called in children too: one that always spawns would never end."""


class SpawnOptions(TypedDict, total=False):
    """How a child works, where that differs from the session that it is spawned in."""

    model: str
    system: str
    """In place of the session's system prompt."""
    agent: str
    """One of the named agents, with its model, tools and limits; what is given besides overrules those."""
    tools: Sequence[str] | None
    """Of the session's; a child never has more. None: all of them."""
    time_limit: float | None
    """Seconds: 300, if nothing is said. None: no limit."""
    limits: Limits | None
    session: str
    """Of an earlier child, whose conversation this one goes on with, in a session of its own."""
    on_event: Callable[..., Any] | None
    """Called with each `SubagentEvent`."""
    on_output: Callable[..., Any] | None
    """Called with pieces of the answer."""
    on_complete: Callable[..., Any] | None
    """Called once with the `SubagentResult`, also of a child that failed or was killed."""


def spawn(context: ExtensionContext, prompt: Content, options: SpawnOptions) -> Subagent:
    """Begins at once and returns. Raises `UsageError` for a model, an agent or a tool that there is not."""
    return context.calls.call(lambda: _spawn(context, prompt, options))


def _spawn(context: ExtensionContext, prompt: Content, options: SpawnOptions) -> Subagent:
    _check_depth(context)
    harness, spawned = context.session.harness, context.session.spawned
    request = _request(harness, prompt, options)
    try:
        child_harness(request, spawned)
    except CallRefused as error:
        raise UsageError(error.message) from None
    callbacks = Callbacks(options.get("on_event"), options.get("on_output"), options.get("on_complete"))
    child = context.journal.world.new_id("ses")
    subagent = Subagent(child, context, callbacks, partial(_drive, context, spawned, child, request))
    spawned.own(asyncio.ensure_future(subagent.work()), subagent.kill_now)
    return subagent


def _check_depth(context: ExtensionContext) -> None:
    sessions, parent, depth = context.host.sessions, context.parent, 0
    while parent in sessions:
        parent, depth = sessions[parent].session.journal.state.child_of, depth + 1
    if depth >= MOST_DEEP:
        raise UsageError(
            f"subagents were spawned by subagents, {MOST_DEEP} deep: "
            "`context.parent` tells a handler whether it is in one"
        )


async def _drive(
    context: ExtensionContext, spawned: SpawnedChildren, child: str, request: ChildRequest, watch: Watch
) -> ChildResult:
    running_stopwatch.set(None)  # the handler's that spawned it: what the child asks people is not its affair
    if request.resumes and (await load_state(context.journal.store, request.resumes)).run is not None:
        raise UsageError(
            f"session {request.resumes} is still at work: it can be gone on with when it has ended"
        )
    return await spawned.start(child, request, context.extension.name, watch)


def _request(harness: Harness, prompt: Content, options: SpawnOptions) -> ChildRequest:
    content = as_content(prompt)
    if not content:
        raise UsageError("a subagent needs a prompt: say what is to be done")
    request = ChildRequest(content, execution=ExecutionPolicy(append_system=CHILD_NOTE))
    if agent := options.get("agent", ""):
        request = msgspec.structs.replace(_of_agent(harness, agent, text_of(content)), prompt=content)
    changes: dict[str, Any] = {"limits": _limits(options, request.execution.limits)}
    if model := options.get("model", ""):
        changes["model"] = model
    if system := options.get("system", ""):
        changes |= {"system": system, "append_system": ""}
    if (tools := options.get("tools")) is not None:
        changes["tools"] = _tools(harness, tools)
    execution = msgspec.structs.replace(request.execution, **changes)
    return msgspec.structs.replace(request, execution=execution, resumes=options.get("session", ""))


def _of_agent(harness: Harness, agent: str, task: str) -> ChildRequest:
    delegate = harness.tools.get("delegate")
    if not isinstance(delegate, DelegateTool):
        raise UsageError(
            f"there is no agent {agent!r}: this session has no tool `delegate`, which knows them"
        )
    try:
        return delegate.request(delegate.validate({"task": task or agent, "agent": agent}))
    except InvalidArguments as error:
        raise UsageError(error.message) from None


def _limits(options: SpawnOptions, of_agent: Limits) -> Limits:
    limits = options.get("limits") or of_agent
    if limits.seconds is not None and "time_limit" not in options:
        return limits
    return msgspec.structs.replace(limits, seconds=options.get("time_limit", SUBAGENT_SECONDS))


def _tools(harness: Harness, tools: Sequence[str]) -> tuple[str, ...]:
    if unknown := [name for name in tools if name not in harness.tools]:
        known = ", ".join(sorted(harness.tools)) or "none"
        raise UsageError(f"there is no tool {unknown[0]!r} that a child could have; there are: {known}")
    return tuple(tools)
