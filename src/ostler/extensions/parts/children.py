"""A child that an extension has spawned: what is seen of it, what came of it, and the hold on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.extensions.calling import CodeFailed, call_within, takes
from ostler.kernel.child import ChildResult
from ostler.kernel.hooks import TIME_LIMIT
from ostler.kernel.spawned import Watch
from ostler.kernel.stopping import running_stopwatch
from ostler.vocabulary import events
from ostler.vocabulary.errors import NotFound, OstlerError, in_words
from ostler.vocabulary.events import Event, RunStatus
from ostler.vocabulary.facts import Fact, UnknownEvent, decode_event
from ostler.vocabulary.messages import text_of
from ostler.vocabulary.usage import NOTHING_USED, Usage

if TYPE_CHECKING:
    from ostler.extensions.context import ExtensionContext

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
        self._context.calls.do(lambda: self.cut("it was killed"))

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

    # --- at work --------------------------------------------------------------------------------------

    async def work(self) -> None:
        """To the result, whatever happens; to be owned by whoever the child belongs to."""
        loop = asyncio.get_running_loop()
        began, driving = loop.time(), self._driving
        result = SubagentResult(self.id, "failed", error="it ended without a result")
        try:
            try:
                await asyncio.wait({driving})
            except asyncio.CancelledError:
                self.cut()
                await asyncio.wait({driving})
            result = msgspec.structs.replace(await self._result(driving), elapsed=loop.time() - began)
            if self._telling is not None:
                await self._telling
            await self._call("on_complete", result)
        finally:
            if not self._finished.done():
                self._finished.set_result(result)

    def cut(self, why: str = "the run that it belonged to has ended, or its session was left") -> None:
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
            return SubagentResult(self.id, "failed", error=in_words(error))
        return _as_result(driving.result(), "")

    async def _result_so_far(self) -> SubagentResult:
        from ostler.runs.children import result_of

        try:
            ended = result_of(await self._context.journal.store.read(self.id))
        except NotFound:
            ended = None
        return _as_result(ended or ChildResult(self.id, "", "cancelled"), self._why_cut)

    # --- what is told of it ---------------------------------------------------------------------------

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
        context, attending = self._context, self._context.attending
        arguments = (subject, context)[: takes(function)]
        try:
            await call_within(TIME_LIMIT, context.extension.worker, function, *arguments)
        except CodeFailed as failure:
            self._callbacks = msgspec.structs.replace(self._callbacks, **{name: None})
            attending.report(context.extension, name, str(failure))
        await attending.commit()


def _as_result(ended: ChildResult, why_cut: str) -> SubagentResult:
    error = "" if ended.is_whole else why_cut or ended.reason or ended.status
    usage = (ended.own + ended.children).usage
    return SubagentResult(ended.session, ended.status, ended.text, error, usage)
