"""Calls of tools while they are written and run, with the children that they have."""
# MERGED: What the children of a session ask: it is asked here, and seen as if the session itself had asked.

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.history.costs import dollars
from ostler.permissions.rules import preview
from ostler.schema import events
from ostler.schema.events import ChildEvent, ChildStarted, Event, QuestionAnswered, QuestionAsked
from ostler.schema.facts import Fact, decode_event
from ostler.schema.text import one_line
from ostler.tui.items import CallItem, ChildItem
from ostler.tui.render.terminal_text import TerminalText

if TYPE_CHECKING:
    from ostler.extensions.context_api.subagents import SubagentEvents
    from ostler.tui.render.call_arguments import ArgumentsStream


_LINE = 200
"""Characters of a child's last words that are kept."""


class OpenCall:
    """A call that has no result yet: its arguments grow, then its output does."""

    def __init__(self, block: CallItem, since: float, cwd: Path | None = None) -> None:
        self.block = block
        self.since = since
        self.is_asked = False
        """A question about it stands, which shows what it would do."""
        self.output = TerminalText()
        self._children: dict[str, Child] = {}
        self._cwd = cwd
        self._written: list[str] = []
        self._arguments: ArgumentsStream | None = None

    def write(self, fragment: str) -> None:
        self._written.append(fragment)

    @property
    def arguments(self) -> ArgumentsStream:
        """As far as they are written. They are read when they are looked at: of most calls in a session that
        is opened, nobody ever does."""
        if self._arguments is None:
            from ostler.tui.render.call_arguments import arguments_stream

            self._arguments = arguments_stream(self.block.name, self._cwd)
        if self._written:
            written, self._written = "".join(self._written), []
            self._arguments.feed(written)
        return self._arguments

    def start(self, now: float, arguments: dict[str, Any] | None) -> None:
        self.since = now
        changed = self.block.arguments if arguments is None else arguments
        self.block = msgspec.structs.replace(self.block, stage="running", arguments=changed)

    def print(self, text: str) -> None:
        self.output.feed(text)

    def begin_child(self, child: str, agent: str, task: str) -> None:
        self._children[child] = Child(agent or "child", _line(task))

    def see_child(self, child: str, event: events.ChildEvent) -> None:
        self._children.setdefault(child, Child("child")).see(event)

    def count_child(self, used: events.ChildUsed) -> None:
        self._children.setdefault(used.child, Child("child")).use(used)

    def end_child(self, ended: events.ChildEnded) -> None:
        self._children.setdefault(ended.child, Child("child")).end(ended)

    def ended_children(self) -> tuple[ChildItem, ...]:
        return tuple(child.said() for child in self._children.values() if child.has_ended)

    def look(self, now: float) -> None:
        """Brings the block up to date."""
        children = tuple(child.said() for child in self._children.values())
        self.block = msgspec.structs.replace(self.block, seconds=now - self.since, children=children)


class Child:
    """What a child does, in one line."""

    def __init__(self, name: str, line: str = "") -> None:
        self._name = name
        self._line = line
        self._is_talking = False
        self._reader: SubagentEvents | None = None
        self._used = events.Totals()
        self.has_ended = False

    def see(self, event: events.ChildEvent) -> None:
        inner = event.event if isinstance(event.event, events.Event) else decode_event(event.line())
        if isinstance(inner, events.LiveValue):
            self._show(inner)
            return
        if self._reader is None:
            from ostler.extensions.context_api.subagents import SubagentEvents

            self._reader = SubagentEvents()
        seen = self._reader.read(inner) if isinstance(inner, events.Event) else None
        match seen.kind if seen else "":
            case "text" | "reasoning" if seen:
                said = self._line + seen.text if self._is_talking else seen.text
                whole = said.rstrip()
                self._line = said[whole.rfind("\n") + 1 :][-_LINE:]
                self._is_talking = True
            case "tool_call" if seen:
                self._line = f"{seen.tool} {preview(seen.tool, seen.arguments or {})}"
                self._is_talking = False

    def _show(self, shown: events.LiveValue) -> None:
        """A terminal agent draws its message anew: the whole of it comes each time."""
        if shown.name == "terminal:message" and shown.value is not None:
            self._line = shown.value["text"].rstrip().rpartition("\n")[2][-_LINE:]
            self._is_talking = True

    def use(self, used: events.ChildUsed) -> None:
        self._used += used.totals

    def end(self, ended: events.ChildEnded) -> None:
        both = ended.own + ended.children + self._used
        calls = f"{both.tool_calls} call{'' if both.tool_calls == 1 else 's'}" if both.tool_calls else ""
        cost = dollars(both.least_cost) if both.least_cost else ""
        status = ended.reason if ended.status != "completed" and ended.reason else ended.status
        self._line = " · ".join(one for one in (status, calls, cost) if one)
        self.has_ended = True

    def said(self) -> ChildItem:
        return ChildItem(self._name, self._line.strip(), self._is_talking and not self.has_ended)


def _line(text: str) -> str:
    return " ".join(text.split())[:_LINE]


_KINDS = {"question_asked": QuestionAsked, "question_answered": QuestionAnswered}

_TELLING = (b'"question_asked"', b'"question_answered"', b'"child_started"')


class ChildQuestions:
    """Knows which child asks what, also those of children."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._askers: dict[str, str] = {}

    def who(self, question: str) -> str:
        """The child that asks; empty for the session itself."""
        return self._askers.get(question, "")

    def among(self, batch: Sequence[Fact | Event]) -> Sequence[Fact | Event]:
        """What happened, and behind each event that tells of a child's question or answer that one itself."""
        told: list[Fact | Event] = []
        for one in batch:
            told.append(one)
            event = one.event if isinstance(one, Fact) else one
            if isinstance(event, ChildStarted):
                self._names[event.child] = event.agent or one_line(event.task)[:40]
            elif isinstance(event, ChildEvent) and (inner := self._inner(event)):
                told.append(inner)
        return told

    def _inner(self, told: ChildEvent) -> QuestionAsked | QuestionAnswered | None:
        """Facts are told as the lines that they are stored as."""
        if isinstance(told.event, ChildEvent):
            return self._inner(told.event)
        if isinstance(told.event, Event):
            return None
        line = told.line()
        if not any(kind in line for kind in _TELLING):
            return None
        fact = msgspec.json.decode(line)
        if fact.get("type") == "child_event":
            return self._inner(msgspec.convert(fact, ChildEvent))
        if fact.get("type") == "child_started":
            self._names[fact["child"]] = fact.get("agent") or one_line(fact.get("task", ""))[:40]
        if fact.get("type") not in _KINDS:
            return None
        event: QuestionAsked | QuestionAnswered = msgspec.convert(fact, _KINDS[fact["type"]])
        self._askers[event.id] = f"child {self._names.get(told.child, '')}".rstrip()
        # Its call is none of this session's, whatever it is called.
        return msgspec.structs.replace(event, call="") if isinstance(event, QuestionAsked) else event
