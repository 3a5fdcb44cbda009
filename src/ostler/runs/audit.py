"""The audit of a session: why it did what it did, read from its facts. Nothing is recorded a second time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.runs.audit_actions import ACTIONS, AuditEntry, Decision
from ostler.runs.audit_calls import CallTrail
from ostler.runs.audit_models import ModelTrail
from ostler.runs.audit_records import plain_decision
from ostler.vocabulary import events
from ostler.vocabulary.events import Event
from ostler.vocabulary.facts import Fact, UnknownEvent

_LONGEST_REASON = 300


def audit_entries(facts: Iterable[Fact]) -> Iterator[AuditEntry]:
    """The decisions in a session's facts, in their order. The facts are one session's, from its first on."""
    trail = Trail()
    for fact in facts:
        if entry := trail.take(fact):
            yield entry


async def audit_of(store: Store, session: str, *, since_ms: int = 0) -> list[AuditEntry]:
    """The audit of a stored session, or its part from a moment on. Raises `NotFound`."""
    facts = await store.read(session)
    recent = {fact.seq for fact in facts if fact.time_ms >= since_ms}
    return [entry for entry in audit_entries(facts) if entry.seq in recent]


def why(facts: Sequence[Fact], call: str) -> list[AuditEntry]:
    """What led to a call, and what came of it: the run, the model that asked for it, permission, result."""
    called = next((fact for fact in facts if _asks_for(fact, call)), None)
    if called is None:
        return []
    begun = (fact.seq for fact in facts if fact.type == "step_started" and fact.seq < called.seq)
    step = max(begun, default=0)

    def matters(entry: AuditEntry) -> bool:
        if entry.seq > called.seq:
            return entry.call == call
        is_of_step = entry.seq > step and entry.action.startswith("model.")
        return entry.run == called.run and (is_of_step or entry.action == "run.start")

    return [entry for entry in audit_entries(facts) if matters(entry)]


def _asks_for(fact: Fact, call: str) -> bool:
    return isinstance(fact.event, events.ToolCalled) and fact.event.call == call


class Trail:
    """Takes a session's facts one by one, and remembers of them what the reasons of later ones need."""

    def __init__(self, state: SessionState | None = None) -> None:
        """With the state of an open session the trail begins there."""
        self._parts = (ModelTrail().see, CallTrail().see, plain_decision)
        for event in _standing(state) if state else ():
            self._decision(event)

    def take(self, fact: Fact) -> AuditEntry | None:
        """The decision that the next fact tells of. Copies tell of none: it was made in their original."""
        event = fact.event
        decision = None if isinstance(event, UnknownEvent) else self._decision(event)
        if decision is None or fact.origin:
            return None
        usual = ACTIONS.get(decision.action)
        return AuditEntry(
            time=fact.time,
            session=fact.session,
            run=fact.run,
            seq=fact.seq,
            actor=decision.actor or (usual.actor if usual else "host"),
            who=decision.who,
            action=decision.action,
            outcome=decision.outcome or (usual.outcome if usual else "recorded"),
            reason=_sentence(decision.reason),
            what=decision.what,
            call=decision.call,
            tool=decision.tool,
            model=decision.model,
            details=_present(decision.details),
        )

    def _decision(self, event: Event) -> Decision | None:
        """At most one part finds a decision, but each may have something to remember."""
        decisions = [see(event) for see in self._parts]
        return next((decision for decision in decisions if decision), None)


def _standing(state: SessionState) -> Iterator[Event]:
    """What an open session's later reasons may refer to, as the events that told of it."""
    yield msgspec.structs.replace(state.settings, by="")  # the state does not keep by whom
    if state.run is None:
        return
    yield state.run.started
    step = state.run.step
    if step and step.model_call:
        yield step.model_call
    if step and step.failure:
        yield step.failure
    for call in step.open_calls() if step else ():
        yield call.called
        if call.started:
            yield call.started
        if call.deferred:
            yield events.ToolDeferred(call.called.call)
        if call.question and call.answered:
            yield call.question
            yield call.answered
    yield from state.questions.values()
    if state.run.waiting:
        yield state.run.waiting


def _present(details: dict[str, Any]) -> dict[str, Any] | None:
    return {name: value for name, value in details.items() if value not in ("", None, [], {})} or None


def _sentence(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…"
