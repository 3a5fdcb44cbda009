"""One turn of a driven agent as facts and live events.

An agent that speaks a protocol reports its text and tool calls, but not its model calls. So its facts are
those of our own runs without steps and model calls:

- Its text between two calls is one `assistant_message`. The `call` of that is an id of ours that only its
  deltas share; there is no `model_called` for it.
- A tool call is a `tool_called`, `tool_started` and `tool_result` of step 0, under an id of ours: the agent
  may use its own again in another turn. Details that come after the announcement are in `tool_started`, which
  follows the answer when the agent asks for permission.
- A call that the agent never ended is `tool_interrupted`: its outcome is unknown.
- A plan is a to-do list. `usage` is what the agent reports for the whole turn.

A screen gives only messages: see `ScreenFacts`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from ostler import __version__
from ostler.core.call_context import bounded
from ostler.core.journal import Journal
from ostler.core.tool import ResultLimits
from ostler.drivers.agent_messages import StoredMessage
from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.driver import (
    AgentMessage,
    FileChange,
    PlanUpdate,
    ReasoningUpdate,
    TextUpdate,
    ToolUpdate,
    TurnEnd,
    Update,
    UsageUpdate,
)
from ostler.schema import events
from ostler.schema.errors import OstlerError, failure_of
from ostler.schema.events import RunStatus
from ostler.schema.facts import storage_problem
from ostler.schema.messages import Block, Reasoning, StopReason, Text, ToolCall
from ostler.schema.outcomes import Display, FailureKind
from ostler.schema.usage import Usage
from ostler.tools.diff import diff_of_texts

_KINDS = {"delete": "edit", "move": "edit", "think": "other", "switch_mode": "other"}
_FILLED = re.compile(r"\{\w+\}")
_UNKNOWN_END = "The agent reported no result."


class Call(msgspec.Struct):
    """A call of the agent's tools."""

    id: str
    name: str
    title: str
    arguments: dict[str, Any]
    begun_ms: int
    text: str = ""
    changes: tuple[FileChange, ...] = ()
    started: bool = False
    ended: bool = False
    refused: bool = False
    questions: int = 0
    """The open questions about it: some agents report it in progress before the answer."""


class _Block(msgspec.Struct):
    """A block of text or reasoning that grows, in pieces: there are many."""

    kind: type[Text | Reasoning]
    pieces: list[str]
    length: int


class Turn:
    """Records facts and publishes deltas; its owner commits after each update."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._message = ""
        self._blocks: list[_Block] = []
        self._calls: dict[str, Call] = {}
        self._refused = 0
        self.used = UsageUpdate()
        self.is_cancelled = False
        """The agent was interrupted: calls that fail now fail for that reason."""

    async def take(self, update: Update) -> None:
        match update:
            case TextUpdate(text=text):
                self._append(Text, text)
            case ReasoningUpdate(text=text):
                self._append(Reasoning, text)
            case ToolUpdate():
                await self._take_call(update)
            case PlanUpdate(items=items):
                self._journal.record(events.TodoUpdated(items))
            case UsageUpdate():
                self.used = update

    async def end(self, stop: StopReason) -> events.Totals:
        """Closes the message and all open calls; returns the totals that the agent reported."""
        self._close_message(stop)
        for call in self._calls.values():
            if not call.ended:
                call.text = call.text or _UNKNOWN_END
                has_reason = call.refused or self.is_cancelled
                await self._end(call, self._failure_of(call) if has_reason else "tool_interrupted")
        usage = self.used.usage
        if usage is not None:
            state = self._journal.state
            model = self.used.model or (state.run.started.model if state.run else "")
            self._journal.record(events.UsageReported(self._message, model, usage, state.usage + usage))
        return events.Totals(
            tool_calls=len(self._calls), refused_calls=self._refused, usage=usage or Usage(cost=0.0)
        )

    # --- text -----------------------------------------------------------------------------------------

    def _append(self, kind: type[Text | Reasoning], text: str) -> None:
        if not text:
            return
        if not self._blocks:
            self._message = self._journal.world.new_id("msg")
        if not self._blocks or self._blocks[-1].kind is not kind:
            self._blocks.append(_Block(kind, [], 0))
        block = self._blocks[-1]
        delta = events.TextDelta if kind is Text else events.ReasoningDelta
        self._journal.publish([delta(self._message, len(self._blocks) - 1, block.length, text)])
        block.pieces.append(text)
        block.length += len(text)

    def _close_message(self, stop: StopReason, *calls: ToolCall) -> None:
        content: tuple[Block, ...] = (*(block.kind("".join(block.pieces)) for block in self._blocks), *calls)
        if not content:
            return
        if not self._blocks:
            self._message = self._journal.world.new_id("msg")
        self._journal.record(events.AssistantMessage(self._message, content, stop))
        self._blocks = []

    # --- calls ----------------------------------------------------------------------------------------

    async def _take_call(self, update: ToolUpdate) -> None:
        call = self.call(update)
        if call.ended:
            return
        call.changes = call.changes if update.changes is None else update.changes
        if update.status in ("completed", "failed"):
            call.text = call.text if update.text is None else update.text
            await self._end(call, self._failure_of(call) if update.status == "failed" else None)
            return
        if update.status == "in_progress":
            self.start(update)
        self._print(call, update.text)

    def _failure_of(self, call: Call) -> FailureKind:
        if call.refused:
            return "call_refused"
        return "tool_cancelled" if self.is_cancelled else "tool_failed"

    def call(self, update: ToolUpdate) -> Call:
        """The call of an update, with its changes. A new call becomes a fact."""
        call = self._calls.get(update.id)
        if call is None or (call.ended and update.begins):
            call = self._begin(update)
        elif not call.ended:
            call.title = update.title or call.title
            call.arguments = self._storable(update.input) or call.arguments
        return call

    def _begin(self, update: ToolUpdate) -> Call:
        journal = self._journal
        kind = update.kind or "other"
        call = Call(
            journal.world.new_id("call"),
            update.name or kind,
            update.title,
            self._storable(update.input),
            journal.world.now_ms(),
        )
        if update.id in self._calls:  # the earlier call of that id has ended
            self._calls[call.id] = self._calls.pop(update.id)
        self._calls[update.id] = call
        arguments = msgspec.json.encode(call.arguments).decode()
        self._close_message("tool_calls", ToolCall(call.id, call.name, arguments))
        title = "" if _FILLED.search(call.title) else call.title  # a part would look like a placeholder
        journal.record(
            events.ToolCalled(
                call.id,
                call.name,
                call.arguments,
                step=0,
                kind=_KINDS.get(kind, kind),
                display=Display(title=title),
            )
        )
        return call

    def start(self, update: ToolUpdate, allowed_by: str = "") -> None:
        """Records that it runs now, with or without a permission."""
        call = self.call(update)
        if not (call.started or call.ended or call.questions or call.refused):
            call.started = True
            self._record_start(call, allowed_by)

    def _record_start(self, call: Call, allowed_by: str = "") -> None:
        arguments = call.arguments or None
        started = events.ToolStarted(call.id, call.name, arguments=arguments, allowed_by=allowed_by)
        self._journal.record(started)

    def _print(self, call: Call, text: str | None) -> None:
        if text is None:
            return
        if call.started and text.startswith(call.text) and len(text) > len(call.text):
            more = text[len(call.text) :]
            self._journal.publish([events.ToolOutput(call.id, len(call.text), more)])
        call.text = text

    async def _end(self, call: Call, failed: FailureKind | None) -> None:
        call.ended = True
        self._refused += failed == "call_refused"
        journal = self._journal
        if failed is None and not call.started:
            self._record_start(call)
        text = (Text(call.text),) if call.text else ()
        content, whole = await bounded(text, ResultLimits(), journal.store, journal.session, call.id)
        journal.record(
            events.ToolResultFact(
                call.id,
                call.name,
                content,
                failed,
                details=change_details(call.changes) or None,
                summary=call.title,
                output=whole,
                duration_ms=max(0, journal.world.now_ms() - call.begun_ms),
            )
        )

    def _storable(self, arguments: dict[str, Any] | None) -> dict[str, Any]:
        if not arguments:
            return {}
        problem = storage_problem(events.ToolStarted("", "", arguments=arguments))
        return {"unreadable": problem} if problem else arguments


def change_details(changes: tuple[FileChange, ...]) -> dict[str, Any]:
    """The changed files as details of a result, in the shape that our own tools use."""
    diffs = [diff_of_texts(change.old or "", change.new, change.path, change.path) for change in changes]
    if not diffs:
        return {}
    return {
        "path": changes[0].path,
        "diff": "\n".join(diff.text for diff in diffs),
        "diff_truncated": any(diff.truncated for diff in diffs),
    }


_RUN_STATUS: dict[str, RunStatus] = {"end": "completed", "refusal": "refused", "limit": "limit"}

_STOP_REASON: dict[str, StopReason] = {
    "end": "end",
    "refusal": "refusal",
    "limit": "length",
    "cancelled": "cancelled",
}


class SentMessage(msgspec.Struct):
    """A message to the agent, from its acceptance to the end of its run."""

    text: str
    request: str
    confirmed: asyncio.Future[None]
    is_initial: bool = False
    message: int = 0
    """The number of its fact, once there is one: its run is open."""
    turn: Turn | None = None
    """Of an agent without a screen."""
    delivered: bool = False
    cancelled: bool = False
    cancelled_by: str = ""
    """The request that cancelled it."""

    @classmethod
    def of(cls, text: str, request: str = "", *, is_initial: bool = False) -> SentMessage:
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # When no sender waits, a failure concerns only the run.
        confirmed.add_done_callback(lambda future: future.cancelled() or future.exception())
        return cls(text, request, confirmed, is_initial)

    def confirm(self, failure: OstlerError | None = None) -> None:
        if self.confirmed.done():
            return
        if failure is None:
            self.confirmed.set_result(None)
        else:
            self.confirmed.set_exception(OstlerError(failure.message))

    def begin_run(self, journal: Journal, spec: AgentSpec) -> None:
        started = events.RunStarted(
            version=__version__,
            cwd=str(spec.cwd),
            model=f"{spec.stored_driver}/{spec.type}",
            request=self.request,
            agent=spec.type,
        )
        journal.record(started, run=journal.world.new_id("run"), settles=self.request)
        message = events.UserMessage((Text(self.text),), source="terminal", request=self.request)
        self.message = journal.record(message, settles=self.request).seq

    async def end_run(
        self, journal: Journal, end: TurnEnd | OstlerError, *, has_died: bool
    ) -> OstlerError | None:
        """Returns why the turn failed, if it did."""
        run, turn = journal.state.run, self.turn
        assert run is not None
        failure = end if isinstance(end, OstlerError) else None
        status: RunStatus = "interrupted" if has_died else "failed"
        stop: StopReason = "other"
        reason = failure.message if failure else ""
        if isinstance(end, TurnEnd):
            status, stop, reason = _RUN_STATUS.get(end.stop, "cancelled"), _STOP_REASON[end.stop], end.reason
        if self.cancelled or status == "cancelled":
            status, stop, failure = "cancelled", "cancelled", None
            reason = (reason if turn is None else "") or "the agent was interrupted"
            if turn is not None:
                turn.is_cancelled = True
        own = await turn.end(stop) if turn is not None else events.Totals()
        duration = max(0, journal.world.now_ms() - run.time_ms)
        ended = events.RunEnded(
            status,
            reason,
            failure_of(failure) if failure and not has_died else None,
            own=msgspec.structs.replace(own, duration_ms=duration),
            cumulative=journal.state.usage,
            request=self.cancelled_by,
            context=turn.used.context if turn is not None else 0,
        )
        journal.record(ended, settles=self.cancelled_by)
        return failure


class ScreenFacts:
    """The messages of a screen as facts: a new one is recorded, a changed one revised."""

    def __init__(self, journal: Journal, stored: Iterable[StoredMessage]) -> None:
        self._journal = journal
        self._facts = {one.message.id: (one.seq, one.message.text) for one in stored}
        """By the tracker's message id: the number and the text of the fact."""

    def record(self, messages: Iterable[AgentMessage]) -> None:
        """Called while the screen is stable."""
        for message in messages:
            seq, text = self._facts.get(message.id, (0, ""))
            if message.text == text or not (seq or message.text.strip()):
                continue
            content = (Text(message.text),)
            if seq:
                self._journal.record(events.MessageRevised(seq, content))
            elif message.role == "agent":
                seq = self._journal.record(events.AssistantMessage("", content, "end")).seq
            else:  # of an earlier conversation that this one continues
                seq = self._journal.record(events.UserMessage(content, source="terminal")).seq
                self._journal.record(events.Delivered(seq))
            self._facts[message.id] = (seq, message.text)

    def note_delivery(self, seq: int, messages: tuple[AgentMessage, ...]) -> None:
        """The tracker's last user message is the fact of that number."""
        place = max(message.id for message in messages if message.role == "user")
        self._facts[place] = (seq, messages[place].text)

    def unrecorded(self, messages: tuple[AgentMessage, ...]) -> tuple[int, str] | None:
        """The agent's last message, if it differs from its fact."""
        if not messages or messages[-1].role == "user":
            return None
        last = messages[-1]
        _, text = self._facts.get(last.id, (0, ""))
        return (last.id, last.text) if last.text.strip() and last.text != text else None
