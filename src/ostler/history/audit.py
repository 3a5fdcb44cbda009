"""The audit of a session: why it did what it did, computed from its facts, and where the entries go while the
session is open: to a file, to Python's logging, or to a host's own sink."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, get_args

import msgspec

from ostler.core.journal import Journal
from ostler.core.state import SessionState
from ostler.core.store import Store
from ostler.history.audit_decisions import (
    ACTIONS,
    Actor,
    AuditEntry,
    CallTrail,
    Decision,
    ModelTrail,
    Outcome,
)
from ostler.models.credentials import redact_keys
from ostler.permissions.rules import preview_line
from ostler.schema import events
from ostler.schema.errors import ConfigurationError
from ostler.schema.events import Event, Warned
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.messages import text_of
from ostler.store.paths import expand_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from logging import Logger

    from ostler.sessions.session import Session


_NOT_THE_REASON = ("type", "model", "version", "cwd", "continues")


def plain_decision(event: Event) -> Decision | None:
    finder = _FINDERS.get(type(event))
    return finder(event) if finder else None


# --- the session ------------------------------------------------------------------------------------


def _session_started(event: events.SessionStarted) -> Decision:
    if event.child_of:
        details = {"parent": event.child_of, "call": event.call}
        actor: Actor = "tool" if event.call else "host"
        return Decision("session.start", f"a child of session {event.child_of}", actor, details=details)
    if event.forked_from:
        reason = f"a copy of session {event.forked_from} up to its entry {event.forked_at}"
        return Decision("session.start", reason)
    return Decision("session.start", f"work begins in {event.cwd}")


def _leaf_moved(event: events.LeafMoved) -> Decision:
    reason = f"what is said next follows entry {event.to}"
    return Decision("session.navigate", reason, details={"request": event.request})


def _settings_changed(event: events.SettingsChanged) -> Decision:
    settings = msgspec.to_builtins(event)
    changed = {name: value for name, value in settings.items() if name not in ("type", "by", "request")}
    reason = f"{event.by or 'somebody'} set {', '.join(changed) or 'nothing'}"
    return Decision("settings.change", reason, who=event.by, model=event.model, details=changed)


def _request_refused(event: events.RequestRefused) -> Decision:
    return Decision("request.refuse", event.reason, details={"request": event.request})


def _prompts_held(event: events.PromptsHeld) -> Decision:
    return Decision("prompts.hold", event.reason)


def _prompts_released(event: events.PromptsReleased) -> Decision:
    return Decision("prompts.release", "somebody released them", details={"request": event.request})


def _command_ran(event: events.CommandRan) -> Decision:
    reason = f"somebody ran it{', and it failed' if event.failed else ''}"
    what = preview_line(f"/{event.name} {event.arguments}".strip())
    return Decision("command.run", reason, who=event.extension, what=what, details={"request": event.request})


def _permission_remembered(event: events.PermissionRemembered) -> Decision:
    details = {"effect": event.effect, "scope": event.scope, "where": event.where, "request": event.request}
    place = event.scope if event.scope != "user" else "user, everywhere"
    if event.effect == "revoked":
        action, reason = "permission.revoke", f"it was taken back for the {place}"
    else:
        action, reason = "permission.remember", f"from now on: {event.effect}, for the {place}"
    return Decision(action, reason, who=event.by, what=preview_line(event.rule), details=details)


# --- a run ------------------------------------------------------------------------------------------


def _run_started(event: events.RunStarted) -> Decision:
    told = msgspec.to_builtins(event)
    details = {name: value for name, value in told.items() if name not in _NOT_THE_REASON}
    if event.parent_run:
        reason = f"a child of run {event.parent_run}"
        return Decision("run.start", reason, "agent", who=event.agent, model=event.model, details=details)
    reason = "it was asked to go on as it is" if event.continues else "it was prompted"
    return Decision("run.start", reason, model=event.model, details=details)


def _user_message(event: events.UserMessage) -> Decision | None:
    text = text_of(event.content)
    if event.source == "steer":
        return Decision("run.steer", "somebody spoke while the model worked", what=preview_line(text))
    if event.source in ("reminder", "hook"):
        return Decision("run.remind", text, "host" if event.source == "hook" else "system")
    return None


def _step_ended(event: events.StepEnded) -> Decision | None:
    return Decision("step.deny", event.refused) if event.refused else None


def _run_ended(event: events.RunEnded) -> Decision:
    failure = event.failure.kind if event.failure else ""
    details = {"status": event.status, "failure": failure, "request": event.request}
    reason = event.reason or event.status
    if event.status == "cancelled":
        return Decision("run.cancel", reason, details=details)
    if event.status == "limit":
        return Decision("budget.stop", reason, details=details)
    return Decision(
        "run.end", reason, outcome="denied" if event.status == "refused" else None, details=details
    )


# --- what the model is told, and the rest -----------------------------------------------------------


def _history_replaced(event: events.HistoryReplaced) -> Decision:
    reason = f"{event.by or 'somebody'} put {len(event.messages)} messages in its place"
    return Decision("history.replace", reason, who=event.by)


def _compacted(event: events.Compacted) -> Decision:
    reason = f"{len(event.replaces)} entries became a summary ({event.by or 'automatic'})"
    details = {"tokens_before": event.tokens_before, "tokens_after": event.tokens_after}
    return Decision("history.compact", reason, who=event.by, details=details)


def _compaction_undone(event: events.CompactionUndone) -> Decision:
    reason = f"compaction {event.compaction} was undone"
    return Decision("history.restore", reason, details={"request": event.request})


def _branch_collapsed(event: events.BranchCollapsed) -> Decision:
    reason = f"the branch that ends in entry {event.leaf} became a summary"
    return Decision("history.collapse", reason, details={"request": event.request})


def _warned(event: events.Warned) -> Decision:
    action = {"limit": "budget.warn", "hook": "hook.fail"}.get(event.about, "system.warn")
    return Decision(
        action, event.text, call=event.call, details={"about": event.about, **(event.details or {})}
    )


def _audited(event: events.Audited) -> Decision:
    """It brings its own name for what was decided, and in its details whom and what it is about."""
    details = event.details or {}
    named = {name: str(details[name]) for name in ("who", "what", "call", "tool", "model") if name in details}
    decision = Decision(event.decision, event.reason, details=details, **named)  # type: ignore[arg-type]
    kinds = {"actor": get_args(Actor), "outcome": get_args(Outcome)}
    known = {name: details[name] for name, values in kinds.items() if details.get(name) in values}
    return msgspec.structs.replace(decision, **known)


_FINDERS: dict[type[Event], Callable[[Any], Decision | None]] = {
    events.SessionStarted: _session_started,
    events.LeafMoved: _leaf_moved,
    events.SettingsChanged: _settings_changed,
    events.RequestRefused: _request_refused,
    events.PromptsHeld: _prompts_held,
    events.PromptsReleased: _prompts_released,
    events.CommandRan: _command_ran,
    events.PermissionRemembered: _permission_remembered,
    events.RunStarted: _run_started,
    events.UserMessage: _user_message,
    events.StepEnded: _step_ended,
    events.RunEnded: _run_ended,
    events.HistoryReplaced: _history_replaced,
    events.Compacted: _compacted,
    events.CompactionUndone: _compaction_undone,
    events.BranchCollapsed: _branch_collapsed,
    events.Warned: _warned,
    events.Audited: _audited,
}


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


TO_LOG = "log"

_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK  # a pipe that nobody reads is refused


class AuditSink(Protocol):
    """Takes entries in their order, on the event loop: it must not block.

    What it raises is reported once; from then on it is given nothing more, and the run goes on.
    """

    def write(self, entries: Sequence[AuditEntry]) -> None: ...


class FileAudit:
    """A file with one JSON object a line, that several processes may append to at once."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)

    def __repr__(self) -> str:
        return f"the audit file {self._path}"

    def write(self, entries: Sequence[AuditEntry]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Opened anew each time: a file that was moved away or rotated gets a successor.
        descriptor = os.open(self._path, _APPENDING, 0o600)
        try:
            for entry in entries:
                line = redact_keys(msgspec.json.encode(entry).decode()).encode() + b"\n"
                if os.write(descriptor, line) < len(line):  # one write a line: none is torn by another's
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)


class LoggingAudit:
    """Python's logging: a line to read, and the entry's fields as `audit` of the record."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def __repr__(self) -> str:
        return f"the audit in the log {self._logger.name}"

    def write(self, entries: Sequence[AuditEntry]) -> None:
        for entry in entries:
            self._logger.info("%s", describe_entry(entry), extra={"audit": msgspec.to_builtins(entry)})


def describe_entry(entry: AuditEntry) -> str:
    """One line that can all be printed, without the keys that are known."""
    subject = " ".join(filter(None, (entry.tool or entry.model or entry.who, entry.what)))
    line = f"{entry.action}{' ' if subject else ''}{subject}: {entry.reason}"
    return redact_keys("".join(c if c.isprintable() else "\ufffd" for c in line))


def audit_to(
    session: Session | Journal, sinks: Sequence[AuditSink], warn: Callable[[str], None] | None = None
) -> Callable[[], None]:
    """Gives the decisions of an open session to the sinks, one after the other, from now on.

    `warn` hears of a sink that failed; without it, those who follow the session do. Returns how to stop.
    """
    if not sinks:
        return lambda: None
    journal = session if isinstance(session, Journal) else session.journal
    trail, open_sinks = Trail(journal.state), list(sinks)

    def tell(text: str) -> None:
        journal.publish([Warned(text, about="store")])

    def see(batch: Sequence[Fact | Event]) -> None:
        taken = [trail.take(item) for item in batch if isinstance(item, Fact)]
        entries = [entry for entry in taken if entry]
        for sink in tuple(open_sinks) if entries else ():
            try:
                sink.write(entries)
            except Exception as error:
                open_sinks.remove(sink)
                problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                (warn or tell)(f"{sink!r} cannot be written ({problem}): it gets no more entries")

    return journal.subscribe(see)


def configured_sinks(audit: str) -> list[AuditSink]:
    """The sinks that the setting `audit` names: a file, or `log` for standard error."""
    if not audit:
        return []
    if audit == TO_LOG:
        return [LoggingAudit(_logger_to_stderr())]
    if not audit.startswith(("/", "~/")):
        raise ConfigurationError(
            f"audit must be a whole path, such as ~/ostler-audit.jsonl, or {TO_LOG}; it is {audit!r}"
        )
    return [FileAudit(expand_home(audit))]


def _logger_to_stderr() -> Logger:
    import logging

    logger = logging.getLogger("ostler.audit")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("ostler: audit: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return logger
