"""The audit of a session: its decisions, computed from its facts, and the sinks that they are written to."""

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


def plain_decision(event: Event) -> Decision | None:
    """The decision that an event records by itself, whatever came before it."""
    return _session_decision(event) or _run_decision(event) or _context_decision(event)


def _session_decision(event: Event) -> Decision | None:
    match event:
        case events.SessionStarted(child_of=parent, call=call) if parent:
            actor: Actor = "tool" if call else "host"
            details = {"parent": parent, "call": call}
            return Decision("session.start", f"a child of session {parent}", actor, details=details)
        case events.SessionStarted(forked_from=original, forked_at=entry) if original:
            return Decision("session.start", f"a copy of session {original} up to its entry {entry}")
        case events.SessionStarted(cwd=cwd):
            return Decision("session.start", f"work begins in {cwd}")
        case events.LeafMoved(to=entry, request=request):
            reason = f"the next message follows entry {entry}"
            return Decision("session.navigate", reason, details={"request": request})
        case events.SettingsChanged(by=by, model=model):
            changed = _fields(event, "by", "request")
            reason = f"{by or 'someone'} set {', '.join(changed) or 'nothing'}"
            return Decision("settings.change", reason, who=by, model=model, details=changed)
        case events.RequestRefused(reason=reason, request=request):
            return Decision("request.refuse", reason, details={"request": request})
        case events.PromptsHeld(reason=reason):
            return Decision("prompts.hold", reason)
        case events.PromptsReleased(request=request):
            return Decision("prompts.release", "someone released them", details={"request": request})
        case events.CommandRan(extension=extension, request=request):
            reason = f"someone ran it{', and it failed' if event.failed else ''}"
            what = preview_line(f"/{event.name} {event.arguments}".strip())
            return Decision("command.run", reason, who=extension, what=what, details={"request": request})
        case events.PermissionRemembered(effect=effect):
            place = "user, everywhere" if event.scope == "user" else event.scope
            action, reason = "permission.remember", f"from now on: {effect}, for the {place}"
            if effect == "revoked":
                action, reason = "permission.revoke", f"it was revoked for the {place}"
            who, what = event.identity or event.by, preview_line(event.rule)
            details = _fields(event, "rule", "identity" if event.identity else "by")
            return Decision(action, reason, who=who, what=what, details=details)
    return None


def _run_decision(event: Event) -> Decision | None:
    match event:
        case events.RunStarted(parent_run=parent, agent=agent, model=model):
            details = _fields(event, "model", "version", "cwd", "continues")
            if parent:
                reason = f"a child of run {parent}"
                return Decision("run.start", reason, "agent", who=agent, model=model, details=details)
            reason = "it was asked to continue without a new prompt" if event.continues else "it was prompted"
            return Decision("run.start", reason, model=model, details=details)
        case events.UserMessage(source="steer", content=content):
            reason = "someone steered the model while it worked"
            return Decision("run.steer", reason, what=preview_line(text_of(content)))
        case events.UserMessage(source="reminder" | "hook" as source, content=content):
            return Decision("run.remind", text_of(content), "host" if source == "hook" else "system")
        case events.StepEnded(refused=reason) if reason:
            return Decision("step.deny", reason)
        case events.RunEnded(status=status, failure=failure, request=request):
            details = {"status": status, "failure": failure.kind if failure else "", "request": request}
            action = {"cancelled": "run.cancel", "limit": "budget.stop"}.get(status, "run.end")
            outcome: Outcome | None = "denied" if status == "refused" else None
            return Decision(action, event.reason or status, outcome=outcome, details=details)
    return None


def _context_decision(event: Event) -> Decision | None:
    match event:
        case events.HistoryReplaced(by=by, messages=messages):
            reason = f"{by or 'someone'} replaced it with {len(messages)} messages"
            return Decision("history.replace", reason, who=by)
        case events.Compacted(by=by, tokens_before=before, tokens_after=after):
            reason = f"{len(event.replaces)} entries became a summary ({by or 'automatic'})"
            details = {"tokens_before": before, "tokens_after": after}
            return Decision("history.compact", reason, who=by, details=details)
        case events.CompactionUndone(compaction=compaction, request=request):
            reason = f"compaction {compaction} was undone"
            return Decision("history.restore", reason, details={"request": request})
        case events.BranchCollapsed(leaf=leaf, request=request):
            reason = f"the branch that ends in entry {leaf} became a summary"
            return Decision("history.collapse", reason, details={"request": request})
        case events.Warned(about=about, text=text, call=call):
            action = {"limit": "budget.warn", "hook": "hook.fail"}.get(about, "system.warn")
            return Decision(action, text, call=call, details={"about": about, **(event.details or {})})
        case events.Audited():
            return _audited(event)
    return None


def _audited(event: events.Audited) -> Decision:
    """An `audited` fact names its own decision; its details may name the actor, the call and so on."""
    details = event.details or {}
    named = {name: str(details[name]) for name in ("who", "what", "call", "tool", "model") if name in details}
    decision = Decision(event.decision, event.reason, details=details, **named)  # type: ignore[arg-type]
    kinds = {"actor": get_args(Actor), "outcome": get_args(Outcome)}
    valid = {name: details[name] for name, values in kinds.items() if details.get(name) in values}
    return msgspec.structs.replace(decision, **valid)


def _fields(event: Event, *without: str) -> dict[str, Any]:
    fields = msgspec.to_builtins(event)
    return {name: value for name, value in fields.items() if name not in ("type", *without)}


_LONGEST_REASON = 300


def audit_entries(facts: Iterable[Fact]) -> Iterator[AuditEntry]:
    """The decisions in the facts of one session, which begin with its first."""
    trail = Trail()
    for fact in facts:
        if entry := trail.take(fact):
            yield entry


async def audit_of(store: Store, session: str, *, since_ms: int = 0) -> list[AuditEntry]:
    """The audit of a stored session since a time. Raises `NotFound`."""
    facts = await store.read(session)
    recent = {fact.seq for fact in facts if fact.time_ms >= since_ms}
    return [entry for entry in audit_entries(facts) if entry.seq in recent]


def why(facts: Sequence[Fact], call: str) -> list[AuditEntry]:
    """The entries about a call: its run, the model that made it, its permission and its result."""
    calls = (fact for fact in facts if isinstance(fact.event, events.ToolCalled) and fact.event.call == call)
    called = next(calls, None)
    if called is None:
        return []
    steps = [fact.seq for fact in facts if fact.type == "step_started" and fact.seq < called.seq]

    def matters(entry: AuditEntry) -> bool:
        if entry.seq > called.seq:
            return entry.call == call
        is_of_step = entry.seq > max(steps, default=0) and entry.action.startswith("model.")
        return entry.run == called.run and (is_of_step or entry.action == "run.start")

    return [entry for entry in audit_entries(facts) if matters(entry)]


class Trail:
    """Turns the facts of a session into entries, and remembers what later reasons need.

    With the state of an open session it begins there.
    """

    def __init__(self, state: SessionState | None = None) -> None:
        self._parts = (ModelTrail().see, CallTrail().see, plain_decision)
        for event in _events_in_force(state) if state else ():
            self._decision(event)

    def take(self, fact: Fact) -> AuditEntry | None:
        """The entry of the next fact. A copied fact has none: its original has it."""
        event = fact.event
        decision = None if isinstance(event, UnknownEvent) else self._decision(event)
        if decision is None or fact.origin:
            return None
        usual = ACTIONS.get(decision.action)
        reason = " ".join(decision.reason.split())
        details = {name: value for name, value in decision.details.items() if value not in ("", None, [], {})}
        return AuditEntry(
            time=fact.time,
            session=fact.session,
            run=fact.run,
            seq=fact.seq,
            actor=decision.actor or (usual.actor if usual else "host"),
            who=decision.who,
            action=decision.action,
            outcome=decision.outcome or (usual.outcome if usual else "recorded"),
            reason=reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…",
            what=decision.what,
            call=decision.call,
            tool=decision.tool,
            model=decision.model,
            details=details or None,
        )

    def _decision(self, event: Event) -> Decision | None:
        """Every part must see the event, even if another one has the decision."""
        decisions = [see(event) for see in self._parts]
        return next((decision for decision in decisions if decision), None)


def _events_in_force(state: SessionState) -> Iterator[Event]:
    """The events of an open session that later reasons may refer to."""
    yield msgspec.structs.replace(state.settings, by="")  # the state does not store by whom
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


TO_LOG = "log"
_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK  # a pipe without a reader is an error


class AuditSink(Protocol):
    """Writes entries, on the event loop: it must not block.

    If it raises, that is reported once, it gets no more entries, and the run continues.
    """

    def write(self, entries: Sequence[AuditEntry]) -> None: ...


class FileAudit:
    """A file with one JSON object per line, to which several processes may append at once."""

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
    """One printable line, with known API keys redacted."""
    subject = " ".join(filter(None, (entry.tool or entry.model or entry.who, entry.what)))
    line = f"{entry.action}{' ' if subject else ''}{subject}: {entry.reason}"
    return redact_keys("".join(c if c.isprintable() else "\ufffd" for c in line))


def audit_to(
    session: Session | Journal, sinks: Sequence[AuditSink], warn: Callable[[str], None] | None = None
) -> Callable[[], None]:
    """Writes the decisions of an open session to the sinks from now on. Returns a function that stops it.

    `warn` is called when a sink fails; by default the session publishes a warning.
    """
    if not sinks:
        return lambda: None
    journal = session if isinstance(session, Journal) else session.journal
    trail, open_sinks = Trail(journal.state), list(sinks)

    def publish_warning(text: str) -> None:
        journal.publish([Warned(text, about="store")])

    def see(batch: Sequence[Fact | Event]) -> None:
        facts = (item for item in batch if isinstance(item, Fact))
        entries = [entry for fact in facts if (entry := trail.take(fact))]
        for sink in tuple(open_sinks) if entries else ():
            try:
                sink.write(entries)
            except Exception as error:
                open_sinks.remove(sink)
                problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                (warn or publish_warning)(f"{sink!r} cannot be written ({problem}): it gets no more entries")

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
