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
from ostler.extensions.executor import ExtensionError, Handler, untimed
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
    """An event of a child."""

    kind: EventKind
    text: str = ""
    """The text or reasoning, the output or result of a tool, or the status of the run."""
    call: str = ""
    tool: str = ""
    tool_kind: str = ""
    """`read`, `search`, `edit`, `execute`, `fetch`, `agent`, `ask` or `other`."""
    arguments: dict[str, Any] | None = None
    failed: bool = False


class SubagentEvents:
    """Reads the events of one child; it remembers the tool of each call."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, str]] = {}

    def read(self, item: Event | Fact) -> SubagentEvent | None:
        """Reads an event of its session, or a `ChildEvent` of its parent's; None for all others."""
        event: Event | UnknownEvent = item.event if isinstance(item, Fact) else item
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
    """The result of a child. `text` is its answer, or the part of it that exists if it was interrupted."""

    session: str
    status: RunStatus
    text: str = ""
    error: str = ""
    """Why it did not complete; empty if it did."""
    usage: Usage = NOTHING_USED
    """Its own usage and that of its children."""
    elapsed: float = 0.0
    """Seconds."""

    @property
    def ok(self) -> bool:
        return self.status == "completed"


class Subagent:
    """A running child. It is killed when the run that spawned it ends, or the session is closed."""

    def __init__(
        self,
        id: str,
        context: ExtensionContext,
        callbacks: dict[str, Callable[..., Any] | None],
        drive: Callable[[Watch], Coroutine[Any, Any, ChildResult]],
    ) -> None:
        self.id = id
        """The id of its session."""
        self._context = context
        self._callbacks = callbacks
        self._reader = SubagentEvents()
        self._queue: list[SubagentEvent] = []
        self._delivery: asyncio.Task[None] | None = None
        self._run = asyncio.ensure_future(drive(self._watch))
        self._kill_reason = ""
        self._finished: asyncio.Future[SubagentResult] = asyncio.get_running_loop().create_future()

    @property
    def done(self) -> bool:
        return self._finished.done()

    def kill(self) -> None:
        """Ends it; it still has a result. No effect if it has ended."""
        self._context.calls.call(lambda: self.kill_now("it was killed"))

    async def wait(self) -> SubagentResult:
        """The result, after `on_complete` has run. The time does not count against a handler's limit."""
        with untimed():
            return await asyncio.shield(self._finished)

    async def work(self) -> None:
        """Waits for the child and sets its result, whatever happens."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = SubagentResult(self.id, "failed", error="it ended without a result")
        try:
            try:
                await asyncio.wait({self._run})
            except asyncio.CancelledError:
                self.kill_now()
                await asyncio.wait({self._run})
            result = msgspec.structs.replace(await self._result(), elapsed=loop.time() - began)
            if self._delivery is not None:
                await self._delivery
            await self._call("on_complete", result)
        finally:
            if not self._finished.done():
                self._finished.set_result(result)

    def kill_now(self, reason: str = "its run has ended, or its session was closed") -> None:
        if not self._run.done() and not self._kill_reason:
            self._kill_reason = reason
            self._run.cancel()

    async def _result(self) -> SubagentResult:
        if self._run.cancelled():
            try:
                ended = result_of(await self._context.journal.store.read(self.id))
            except NotFound:
                ended = None
            return _as_result(ended or ChildResult(self.id, "", "cancelled"), self._kill_reason)
        if error := self._run.exception():
            problem = error.message if isinstance(error, OstlerError) else describe_error(error)
            return SubagentResult(self.id, "failed", error=problem)
        return _as_result(self._run.result(), "")

    def _watch(self, batch: Sequence[Event | Fact]) -> None:
        """Queues the events of its session. Text that arrives faster than it is delivered is joined."""
        for item in batch:
            event = self._reader.read(item)
            if event is None:
                continue
            last = self._queue[-1] if self._queue else None
            if last and last.kind == event.kind in ("text", "reasoning"):
                self._queue[-1] = SubagentEvent(event.kind, last.text + event.text)
            else:
                self._queue.append(event)
        if self._queue and self._delivery is None:
            self._delivery = asyncio.ensure_future(self._deliver())

    async def _deliver(self) -> None:
        try:
            while self._queue:
                event = self._queue.pop(0)
                await self._call("on_event", event)
                if event.kind == "text":
                    await self._call("on_output", event.text)
        finally:
            self._delivery = None

    async def _call(self, name: Literal["on_event", "on_output", "on_complete"], subject: Any) -> None:
        """Calls a callback; one that fails is reported, and not called again."""
        function = self._callbacks[name]
        if function is None:
            return
        context, extension_session = self._context, self._context.extension_session
        try:
            await Handler.of(function).call(context.extension.worker, subject, context, seconds=TIME_LIMIT)
        except ExtensionError as failure:
            self._callbacks[name] = None
            extension_session.report(context.extension, name, str(failure))
        await extension_session.commit()


def _as_result(ended: ChildResult, kill_reason: str) -> SubagentResult:
    error = "" if ended.is_whole else kill_reason or ended.reason or ended.status
    usage = (ended.own + ended.children).usage
    return SubagentResult(ended.session, ended.status, ended.text, error, usage)


SUBAGENT_SECONDS = 300.0
MOST_DEEP = 8
"""The depth of children. Handlers run in children, too: one that always spawns would never end."""


class SpawnOptions(TypedDict, total=False):
    """The options of a child; the defaults are those of the session that spawns it."""

    model: str
    system: str
    """The system prompt."""
    agent: str
    """A named agent, with its model, tools and limits; other options take precedence."""
    tools: Sequence[str] | None
    """Some of the session's tools; None for all. A child never has more."""
    time_limit: float | None
    """Seconds, 300 by default; None for no limit."""
    limits: Limits | None
    session: str
    """An earlier child, whose conversation this one continues in a session of its own."""
    on_event: Callable[..., Any] | None
    """Called with each `SubagentEvent`."""
    on_output: Callable[..., Any] | None
    """Called with pieces of the answer."""
    on_complete: Callable[..., Any] | None
    """Called once with the `SubagentResult`, also of a child that failed or was killed."""


def spawn(context: ExtensionContext, prompt: Content, options: SpawnOptions) -> Subagent:
    """Starts a child and returns. Raises `UsageError` for an unknown model, agent or tool."""
    return context.calls.call(lambda: _spawn(context, prompt, options))


def _spawn(context: ExtensionContext, prompt: Content, options: SpawnOptions) -> Subagent:
    _check_depth(context)
    harness, spawned = context.session.harness, context.session.spawned
    request = _request(harness, prompt, options)
    try:
        child_harness(request, spawned)
    except CallRefused as error:
        raise UsageError(error.message) from None
    callbacks: dict[str, Any] = {name: options.get(name) for name in ("on_event", "on_output", "on_complete")}
    child = context.journal.world.new_id("ses")
    subagent = Subagent(child, context, callbacks, partial(_drive, context, spawned, child, request))
    spawned.own(asyncio.ensure_future(subagent.work()), subagent.kill_now)
    return subagent


def _check_depth(context: ExtensionContext) -> None:
    sessions, parent, depth = context.host.sessions, context.parent, 0
    while parent in sessions:
        parent, depth = sessions[parent].session.journal.state.child_of, depth + 1
    if depth >= MOST_DEEP:
        hint = "`context.parent` tells a handler whether it runs in one"
        raise UsageError(f"subagents were spawned by subagents, {MOST_DEEP} deep: {hint}")


async def _drive(
    context: ExtensionContext, spawned: SpawnedChildren, child: str, request: ChildRequest, watch: Watch
) -> ChildResult:
    running_stopwatch.set(None)  # the child's questions must not pause the clock of the handler
    if request.resumes and (await load_state(context.journal.store, request.resumes)).run is not None:
        raise UsageError(f"the session {request.resumes} is still running: continue it when it has ended")
    return await spawned.start(child, request, context.extension.name, watch)


def _request(harness: Harness, prompt: Content, options: SpawnOptions) -> ChildRequest:
    content = as_content(prompt)
    if not content:
        raise UsageError("a subagent needs a prompt")
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
        raise UsageError(f"there is no agent {agent!r}: this session has no tool `delegate`")
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
        names = ", ".join(sorted(harness.tools)) or "none"
        raise UsageError(f"there is no tool {unknown[0]!r} for a child; the tools are: {names}")
    return tuple(tools)
