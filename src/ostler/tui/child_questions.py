"""The questions of children: they are asked here as if the session itself had asked them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ostler.schema.events import ChildEvent, ChildStarted, Event, QuestionAnswered, QuestionAsked
from ostler.schema.facts import Fact
from ostler.schema.text import one_line

_KINDS = {"question_asked": QuestionAsked, "question_answered": QuestionAnswered}
_MARKERS = (b'"question_asked"', b'"question_answered"', b'"child_started"')


class ChildQuestions:
    """Finds the questions of children in their events, also those of their children."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._askers: dict[str, str] = {}

    def who(self, question: str) -> str:
        """The child that asks; empty for the session itself."""
        return self._askers.get(question, "")

    def among(self, batch: Sequence[Fact | Event]) -> Sequence[Fact | Event]:
        """The events, and behind each event of a child that is a question or an answer that one itself."""
        expanded: list[Fact | Event] = []
        for one in batch:
            expanded.append(one)
            event = one.event if isinstance(one, Fact) else one
            if isinstance(event, ChildStarted):
                self._names[event.child] = event.agent or one_line(event.task)[:40]
            elif isinstance(event, ChildEvent) and (inner := self._inner(event)):
                expanded.append(inner)
        return expanded

    def _inner(self, child: ChildEvent) -> QuestionAsked | QuestionAnswered | None:
        """Facts arrive as the lines they are stored as."""
        if isinstance(child.event, ChildEvent):
            return self._inner(child.event)
        if isinstance(child.event, Event):
            return None
        line = child.line()
        if not any(kind in line for kind in _MARKERS):
            return None
        fact = msgspec.json.decode(line)
        if fact.get("type") == "child_event":
            return self._inner(msgspec.convert(fact, ChildEvent))
        if fact.get("type") == "child_started":
            self._names[fact["child"]] = fact.get("agent") or one_line(fact.get("task", ""))[:40]
        if fact.get("type") not in _KINDS:
            return None
        event: QuestionAsked | QuestionAnswered = msgspec.convert(fact, _KINDS[fact["type"]])
        self._askers[event.id] = f"child {self._names.get(child.child, '')}".rstrip()
        # Its call is none of this session's, whatever its id.
        return msgspec.structs.replace(event, call="") if isinstance(event, QuestionAsked) else event
