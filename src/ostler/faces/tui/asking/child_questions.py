"""What the children of a session ask: it is asked here, and seen as if the session itself had asked."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ostler.faces.tui.drawing.pieces import one_line
from ostler.vocabulary.events import ChildEvent, ChildStarted, Event, QuestionAnswered, QuestionAsked
from ostler.vocabulary.facts import Fact

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
