"""Decisions that a single fact tells of, whatever came before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec

from ostler.runs.audit_actions import Actor, Decision, Outcome
from ostler.tools.permissions import one_line
from ostler.vocabulary import events
from ostler.vocabulary.events import Event
from ostler.vocabulary.messages import text_of

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
    what = one_line(f"/{event.name} {event.arguments}".strip())
    return Decision("command.run", reason, who=event.extension, what=what, details={"request": event.request})


def _permission_remembered(event: events.PermissionRemembered) -> Decision:
    details = {"effect": event.effect, "scope": event.scope, "where": event.where, "request": event.request}
    place = event.scope if event.scope != "user" else "user, everywhere"
    if event.effect == "revoked":
        action, reason = "permission.revoke", f"it was taken back for the {place}"
    else:
        action, reason = "permission.remember", f"from now on: {event.effect}, for the {place}"
    return Decision(action, reason, who=event.by, what=one_line(event.rule), details=details)


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
        return Decision("run.steer", "somebody spoke while the model worked", what=one_line(text))
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
