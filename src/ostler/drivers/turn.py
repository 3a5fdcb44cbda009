"""One turn of an agent that speaks a protocol, as facts and live events.

Another vendor's agent tells what it says and which of its tools it uses, but not when it asks a model, nor
with what. So its facts are those of our own runs without steps and model calls:

- What it says between two calls is one `assistant_message`. Its `call` is an id of ours that only its deltas
  share, and no `model_called` has it.
- A call of its tools is a `tool_called`, `tool_started` and `tool_result` of step 0, under an id of ours: the
  agent's own may come again in another turn. A call that is announced with less than it is later known of is
  started with the rest; when somebody is asked for permission, it starts behind the answer.
- A call that the agent never ended is `tool_interrupted`: nobody knows what came of it.
- A plan is a to-do list. `usage` is what the agent reports for the whole turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from ostler.core.call_context import bounded
from ostler.core.journal import Journal
from ostler.core.tool import ResultLimits
from ostler.drivers.agent_messages import StoredMessage
from ostler.drivers.driver import (
    AgentMessage,
    FileChange,
    PlanUpdate,
    ReasoningUpdate,
    TextUpdate,
    ToolUpdate,
    Update,
    UsageUpdate,
)
from ostler.schema import events
from ostler.schema.facts import storage_problem
from ostler.schema.messages import Block, Reasoning, StopReason, Text, ToolCall
from ostler.schema.outcomes import Display, FailureKind
from ostler.schema.usage import Usage
from ostler.tools.diff import diff_of_texts

_KINDS = {"delete": "edit", "move": "edit", "think": "other", "switch_mode": "other"}

_FILLED = re.compile(r"\{\w+\}")

_UNKNOWN_END = "The agent did not say what came of it."


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
    """Those about it that are open: some agents say before the answer that it is in progress."""


class _Spoken(msgspec.Struct):
    """What is said or thought in one go: in pieces, for there are many."""

    kind: type[Text | Reasoning]
    pieces: list[str]
    length: int


class Turn:
    """Records and publishes; whoever owns it commits, after each update."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._message = ""
        self._spoken: list[_Spoken] = []
        self._calls: dict[str, Call] = {}
        self._refused = 0
        self._used = UsageUpdate()
        self.is_cancelled = False
        """Somebody has told the agent to stop: what fails now fails for that."""

    async def take(self, update: Update) -> None:
        match update:
            case TextUpdate(text=text):
                self._say(Text, text)
            case ReasoningUpdate(text=text):
                self._say(Reasoning, text)
            case ToolUpdate():
                await self._take_call(update)
            case PlanUpdate(items=items):
                self._journal.record(events.TodoUpdated(items))
            case UsageUpdate():
                self._used = update

    async def end(self, stop: StopReason) -> events.Totals:
        """What it said is whole, and what it left open is closed. What it used, as far as it told."""
        self._close_message(stop)
        for call in self._calls.values():
            if not call.ended:
                call.text = call.text or _UNKNOWN_END
                is_known = call.refused or self.is_cancelled
                await self._end(call, self._failure_of(call) if is_known else "tool_interrupted")
        usage = self._used.usage
        if usage is not None:
            cumulative = self._journal.state.usage + usage
            model = self._used.model or self._model()
            self._journal.record(events.UsageReported(self._message, model, usage, cumulative))
        return events.Totals(
            tool_calls=len(self._calls), refused_calls=self._refused, usage=usage or Usage(cost=0.0)
        )

    @property
    def context(self) -> int:
        return self._used.context

    def _model(self) -> str:
        run = self._journal.state.run
        return run.started.model if run else ""

    # --- what it says ---------------------------------------------------------------------------------

    def _say(self, kind: type[Text | Reasoning], text: str) -> None:
        if not text:
            return
        if not self._spoken:
            self._message = self._journal.world.new_id("msg")
        if not self._spoken or self._spoken[-1].kind is not kind:
            self._spoken.append(_Spoken(kind, [], 0))
        present = self._spoken[-1]
        delta = events.TextDelta if kind is Text else events.ReasoningDelta
        self._journal.publish([delta(self._message, len(self._spoken) - 1, present.length, text)])
        present.pieces.append(text)
        present.length += len(text)

    def _close_message(self, stop: StopReason, *calls: ToolCall) -> None:
        content: tuple[Block, ...] = (*(one.kind("".join(one.pieces)) for one in self._spoken), *calls)
        if not content:
            return
        if not self._spoken:
            self._message = self._journal.world.new_id("msg")
        self._journal.record(events.AssistantMessage(self._message, content, stop))
        self._spoken = []

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
        """The call that it is about, with what it says of it. A new one becomes a fact."""
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
        if update.id in self._calls:  # it ended, and its place is needed
            self._calls[call.id] = self._calls.pop(update.id)
        self._calls[update.id] = call
        written = msgspec.json.encode(call.arguments).decode()
        self._close_message("tool_calls", ToolCall(call.id, call.name, written))
        title = "" if _FILLED.search(call.title) else call.title  # else a part of it would be left out
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
        """It is at work now, by somebody's word or without being asked for."""
        call = self.call(update)
        if not (call.started or call.ended or call.questions or call.refused):
            call.started = True
            started = events.ToolStarted(
                call.id, call.name, arguments=call.arguments or None, allowed_by=allowed_by
            )
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
            journal.record(events.ToolStarted(call.id, call.name, arguments=call.arguments or None))
        said = (Text(call.text),) if call.text else ()
        content, whole = await bounded(said, ResultLimits(), journal.store, journal.session, call.id)
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

    def _storable(self, given: dict[str, Any] | None) -> dict[str, Any]:
        if not given:
            return {}
        problem = storage_problem(events.ToolStarted("", "", arguments=given))
        return {"unreadable": problem} if problem else given


def change_details(changes: tuple[FileChange, ...]) -> dict[str, Any]:
    """What people are shown of changed files: as our own tools tell it."""
    diffs = [diff_of_texts(one.old or "", one.new, one.path, one.path) for one in changes]
    if not diffs:
        return {}
    return {
        "path": changes[0].path,
        "diff": "\n".join(one.text for one in diffs),
        "diff_truncated": any(one.truncated for one in diffs),
    }


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

    def unsettled(self, messages: tuple[AgentMessage, ...]) -> tuple[int, str] | None:
        """The agent's last message, if the screen shows it other than its fact."""
        if not messages or messages[-1].role == "user":
            return None
        last = messages[-1]
        _, text = self._facts.get(last.id, (0, ""))
        return (last.id, last.text) if last.text.strip() and last.text != text else None
