"""Items of tool calls, of their children, and of questions, also those that children ask."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.history.item_store import ItemStore
from ostler.history.items import (
    CallItem,
    CallResult,
    CallStage,
    ChildItem,
    Closed,
    Grown,
    Opened,
    QuestionItem,
)
from ostler.permissions.rules import preview
from ostler.schema import events
from ostler.schema.events import Event, Totals
from ostler.schema.facts import Fact, UnknownEvent, decode_event
from ostler.schema.messages import Text, ToolCall
from ostler.schema.text import one_line

MAX_OUTPUT = 100_000
"""Characters of a running call's output that an item holds."""

_ACTIVITY = 200
"""Characters of a child's last line."""

_STAGES: dict[str, CallStage] = {
    "call_refused": "refused",
    "tool_cancelled": "cancelled",
    "tool_interrupted": "cancelled",
}


class StreamedText:
    """Text that arrives in fragments, each with its offset."""

    def __init__(self) -> None:
        self.length = 0
        self._parts: list[str] = []
        self.size = 0
        """The length of the part that is still held."""

    def append(self, fragment: str) -> None:
        self._parts.append(fragment)
        self.length += len(fragment)
        self.size += len(fragment)

    def replace_from(self, offset: int, fragment: str) -> None:
        """A fragment that was sent again replaces what followed its offset."""
        size = max(0, len(self.text) - (self.length - offset))
        self._parts = [self.text[:size], fragment]
        self.size = size + len(fragment)
        self.length = offset + len(fragment)

    def keep_end(self, length: int) -> None:
        """Forgets what came before the last characters. Offsets still count it."""
        self._parts = [self.text[-length:]]
        self.size = length

    @property
    def text(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""


class OpenCall:
    """A call without a result."""

    def __init__(self, base: dict[str, Any], call: str, name: str, message: str = "") -> None:
        self.key = base["key"]
        self.base = base
        self.fields: dict[str, Any] = {"call": call, "name": name, "message": message, "stage": "writing"}
        self.arguments = StreamedText()
        self.output = StreamedText()
        self.children: dict[str, OpenChild] = {}
        self.has_started = False

    @property
    def is_live(self) -> bool:
        """Only deltas describe it so far."""
        return self.fields.get("arguments") is None and not self.base.get("seq")

    @property
    def message(self) -> str:
        return str(self.fields["message"])

    @property
    def stage(self) -> CallStage:
        stage: CallStage = self.fields["stage"]
        return stage

    def item(self) -> CallItem:
        children = tuple([child.item() for child in self.children.values()])
        output = self.output.text[-MAX_OUTPUT:]
        fields = self.base | self.fields | {"arguments_text": self.arguments.text, "output": output}
        return CallItem(**fields, children=children)


class OpenChild:
    """A child that works."""

    def __init__(self, base: dict[str, Any], call: str, session: str) -> None:
        self.key = base["key"]
        self.base = base
        self.call = call
        self.fields: dict[str, Any] = {"session": session}
        self.used: Totals | None = None
        self.activity = ""
        self.is_talking = False

    def talk(self, text: str) -> None:
        self.show(self.activity + text if self.is_talking else text)

    def show(self, text: str) -> None:
        """Replaces the text: a terminal agent sends its whole message each time."""
        self.activity = text[text.rstrip().rfind("\n") + 1 :][-_ACTIVITY:]
        self.is_talking = True

    def item(self) -> ChildItem:
        fields = self.base | self.fields | {"totals": self.used, "talking": self.is_talking}
        return ChildItem(**fields, activity=self.activity.strip())


class CallItems:
    """The part of `ItemBuilder` for calls, children and questions."""

    def __init__(self, store: ItemStore) -> None:
        self._store = store
        self._children: dict[str, OpenChild] = {}
        """The children that work, by session."""
        self._child_names: dict[str, str] = {}

    def _open_call(self, call: str) -> OpenCall | None:
        record = self._store.get(f"call:{call}") if call else None
        return record if isinstance(record, OpenCall) else None

    # --- calls ----------------------------------------------------------------------------------------

    def open_input(self, event: events.ToolInputStarted) -> None:
        key = f"call:{event.call}"
        if self._store.get(key) is None:
            self._store.open(OpenCall(self._store.base(None, key), event.call, event.name, event.message))

    def on_tool_input_delta(self, event: events.ToolInputDelta, fact: Fact | None) -> None:
        call = self._open_call(event.call)
        if call is None or call.stage != "writing" or event.offset > call.arguments.length:
            return
        if event.offset == call.arguments.length:
            call.arguments.append(event.text)
            self._store.changes.append(Grown(call.key, "arguments_text", event.text))
        else:
            call.arguments.replace_from(event.offset, event.text)
            self._store.change_open(call)

    def on_tool_input_ended(self, event: events.ToolInputEnded, fact: Fact | None) -> None:
        call = self._open_call(event.call)
        if call is not None and call.stage == "writing":
            call.fields["stage"] = "called"
            self._store.change_open(call)

    def message_call(self, block: ToolCall, message: str, base: dict[str, Any]) -> str:
        """A call in the fact of a message; returns the key of its item."""
        key = f"call:{block.id}"
        record = self._store.get(key)
        if record is None:
            record = OpenCall(base | {"key": key}, block.id, block.name, message)
            self._write(record, block)
            self._store.open(record)
        elif isinstance(record, OpenCall):
            record.base = base | {"key": key}
            self._write(record, block)
            self._store.change_open(record)
        return key

    def _write(self, call: OpenCall, block: ToolCall) -> None:
        call.fields["name"] = block.name
        if call.stage == "writing":
            call.fields["stage"] = "called"
        call.arguments = StreamedText()
        call.arguments.append(block.arguments)

    def on_tool_called(self, event: events.ToolCalled, fact: Fact | None) -> None:
        record = self._open_call(event.call)
        call = record or OpenCall(self._store.base(fact, f"call:{event.call}"), event.call, event.name)
        call.fields |= {
            "called_seq": fact.seq if fact else 0,
            "arguments": event.arguments,
            "tool_kind": event.kind,
            "malformed": event.malformed,
            "display": event.display,
        }
        if call.stage == "writing":
            call.fields["stage"] = "called"
        if record is None:
            self._store.open(call)
        else:
            self._store.change_open(call)

    def on_tool_started(self, event: events.ToolStarted, fact: Fact | None) -> None:
        if (call := self._open_call(event.call)) is None:
            return
        call.has_started = True
        call.fields |= {"stage": "running", "allowed_by": event.allowed_by}
        if event.arguments is not None:
            call.fields["arguments"] = event.arguments
        call.output = StreamedText()
        self._store.change_open(call)

    def on_tool_output(self, event: events.ToolOutput, fact: Fact | None) -> None:
        if (call := self._open_call(event.call)) is None:
            return
        text, offset, output = event.text, event.offset, call.output
        if offset < output.length:
            output.replace_from(offset, text)
            self._store.change_open(call)
            return
        end = offset + len(text)
        if offset > output.length:
            text = f"\n…\n{text}"
        output.append(text)
        output.length = end
        if output.size > 2 * MAX_OUTPUT:
            output.keep_end(MAX_OUTPUT)
        self._store.changes.append(Grown(call.key, "output", text))

    def on_tool_deferred(self, event: events.ToolDeferred, fact: Fact | None) -> None:
        if (call := self._open_call(event.call)) is not None:
            call.fields |= {"stage": "deferred", "note": event.note}
            self._store.change_open(call)

    def on_tool_result(self, event: events.ToolResultFact, fact: Fact | None) -> None:
        call = self._open_call(event.call)
        if call is None:  # its start is not among the events, or this is a second result
            call = OpenCall(self._store.base(fact, f"call:{event.call}"), event.call, event.name)
        result = CallResult(
            fact.seq if fact else 0,
            event.content,
            event.failed,
            event.details,
            event.summary,
            event.output,
            event.duration_ms,
            event.repeats,
        )
        stage: CallStage = _STAGES.get(event.failed, "failed") if event.failed else "done"
        call.fields |= {"stage": stage, "result": result}
        call.output = StreamedText()
        self._store.close(call.item())

    def abandon(self) -> None:
        """Closes the calls and questions of a run that has ended."""
        for record in self._store.records():
            if isinstance(record, OpenCall):
                record.fields["stage"] = "abandoned"
                self._store.close(record.item())
            elif isinstance(record, OpenQuestion) and record.asked.asked_by != "extension":
                self._store.close(msgspec.structs.replace(record.item(), state="withdrawn"))

    # --- children -------------------------------------------------------------------------------------

    def _child(self, call: str, session: str, fact: Fact | None) -> OpenChild:
        child = self._children.get(session)
        if child is None or child.call != call:
            child = OpenChild(self._store.base(fact, f"child:{session}"), call, session)
            self._children[session] = child
            if (owner := self._open_call(call)) is not None:
                owner.children[session] = child
        return child

    def on_child_started(self, event: events.ChildStarted, fact: Fact | None) -> None:
        child = self._child(event.call, event.child, fact)
        child.base = self._store.base(fact, child.key)
        child.fields |= {"agent": event.agent, "task": event.task}
        if event.extension:
            child.fields["extension"] = event.extension
        self._name(event)
        if self._open_call(event.call) is not None:
            self._store.changes.append(Opened(child.item()))
        else:
            self._store.open(child)

    def _name(self, event: events.ChildStarted) -> None:
        self._child_names[event.child] = event.agent or one_line(event.task)[:40]

    def on_child_used(self, event: events.ChildUsed, fact: Fact | None) -> None:
        if event.child in self._children or self._open_call(event.call) is not None:
            child = self._child(event.call, event.child, fact)
            child.used = event.totals if child.used is None else child.used + event.totals

    def on_child_ended(self, event: events.ChildEnded, fact: Fact | None) -> None:
        child = self._child(event.call, event.child, fact)
        self._children.pop(event.child, None)
        item = msgspec.structs.replace(
            child.item(),
            status=event.status,
            reason=event.reason,
            totals=event.own if child.used is None else event.own + child.used,
            children=event.children,
            talking=False,
        )
        call = self._store.get(f"call:{event.call}") if event.call else None
        if isinstance(call, OpenCall):
            call.children[event.child] = EndedChild(item)
            self._store.changes.append(Closed(item))
        elif isinstance(call, CallItem):
            children = tuple([item if one.session == item.session else one for one in call.children])
            self._store.change(msgspec.structs.replace(call, children=children))
            self._store.changes.append(Closed(item))
        else:
            self._store.close(item)

    def on_child_event(self, event: events.ChildEvent, fact: Fact | None) -> None:
        inner = _inner_event(event)
        session = event.child
        while isinstance(inner, events.ChildEvent):
            session, inner = inner.child, _inner_event(inner)
        match inner:
            case events.QuestionAsked():
                # Its call belongs to another session, even if a call here has the same id.
                asked = msgspec.structs.replace(inner, call="")
                base = self._store.base(None, f"question:{inner.id}")
                self._store.open(OpenQuestion(base, session, self._child_names.get(session, ""), asked))
                return
            case events.QuestionAnswered():
                self.on_question_answered(inner, None)
                return
            case events.ChildStarted():
                self._name(inner)
        self._show_activity(event, inner)

    def _show_activity(self, event: events.ChildEvent, inner: Event | UnknownEvent) -> None:
        if event.child not in self._children and self._open_call(event.call) is None:
            return
        child = self._child(event.call, event.child, None)
        match inner:
            case events.TextDelta(text=text) | events.ReasoningDelta(text=text):
                child.talk(text)
                self._store.changes.append(Grown(child.key, "activity", text))
            case events.LiveValue(name="terminal:message", value=dict() as value):
                child.show(str(value.get("text", "")).rstrip())
                self._store.changes.append(Grown(child.key, "activity", ""))
            case events.ToolCalled(name=name, arguments=arguments):
                child.activity, child.is_talking = f"{name} {preview(name, arguments)}", False
                self._store.changes.append(Grown(child.key, "activity", ""))

    # --- questions ------------------------------------------------------------------------------------

    def on_question_asked(self, event: events.QuestionAsked, fact: Fact | None) -> None:
        base = self._store.base(fact, f"question:{event.id}")
        self._store.open(OpenQuestion(base, fact.session if fact else "", "", event))
        if (call := self._open_call(event.call)) is not None:
            call.fields |= {"stage": "asking", "question": event.id}
            self._store.change_open(call)

    def on_question_answered(self, event: events.QuestionAnswered, fact: Fact | None) -> None:
        question = self._store.get(f"question:{event.id}")
        if not isinstance(question, OpenQuestion):
            return
        item = msgspec.structs.replace(
            question.item(),
            state=event.outcome,
            answer=event.answer,
            by=event.by,
            identity=event.identity,
            answered_seq=fact.seq if fact else 0,
        )
        self._store.close(item)
        call = self._open_call(question.asked.call)
        if call is not None and call.stage == "asking":
            call.fields["stage"] = "running" if call.has_started else "called"
            self._store.change_open(call)


class EndedChild(OpenChild):
    """A child that has ended, in a call that goes on."""

    def __init__(self, item: ChildItem) -> None:
        self._item = item

    def item(self) -> ChildItem:
        return self._item


class OpenQuestion:
    """A question without an answer."""

    def __init__(self, base: dict[str, Any], session: str, agent: str, asked: events.QuestionAsked) -> None:
        self.key = base["key"]
        self.asked = asked
        self._item = QuestionItem(**base, id=asked.id, session=session, agent=agent, asked=asked)

    def item(self) -> QuestionItem:
        return self._item


def _inner_event(event: events.ChildEvent) -> Event | UnknownEvent:
    return event.event if isinstance(event.event, Event) else decode_event(event.line())


_SHELL = ("tui", "shell")
"""The owner and the name of the entry of a `!command`."""


def shell_entry(command: str, output: str, *, failed: bool, seconds: float) -> events.ExtensionEntry:
    """A `!command` as an entry of the session. It starts no run; the model receives it with the next prompt,
    or before its next step."""
    data = {"command": command, "failed": failed, "seconds": round(seconds, 3)}
    heading = Text(f"The user ran this command in a shell of their own:\n$ {command}\nIt printed:")
    return events.ExtensionEntry(*_SHELL, data, (heading, Text(output)))


def shell_item(entry: events.ExtensionEntry, base: dict[str, Any]) -> CallItem | None:
    """The item of a `!command`; None for other entries."""
    data = entry.data
    if (entry.extension, entry.name) != _SHELL or not isinstance(data, dict):
        return None
    failed, seq = bool(data.get("failed")), base.get("seq", 0)
    duration_ms = round(float(data.get("seconds", 0)) * 1000)
    result = CallResult(seq, entry.told[1:], "tool_failed" if failed else None, duration_ms=duration_ms)
    return CallItem(
        **base,
        called_seq=seq,
        name="!",
        tool_kind="execute",
        arguments={"command": str(data.get("command", ""))},
        stage="failed" if failed else "done",
        result=result,
    )
