"""What is audited: the decisions that facts tell of, by name. `audit.py` finds them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ostler.vocabulary import events
from ostler.vocabulary.events import Event

Actor = Literal["system", "host", "agent", "model", "tool", "user"]
Outcome = Literal[
    "allowed", "denied", "fallback", "retry", "cancelled", "paused", "resumed", "requested", "recorded"
]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something was done, or not done. A fact gives at most one, so its number names the entry, too."""

    time: str
    session: str
    run: str = ""
    seq: int
    """Of the fact that tells of it."""
    actor: Actor
    who: str = ""
    """The actor's name, where it is known."""
    action: str
    outcome: Outcome
    reason: str
    what: str = ""
    """What it is about, in one line: a command, a path, a question."""
    call: str = ""
    tool: str = ""
    model: str = ""
    details: dict[str, Any] | None = None


class Decision(msgspec.Struct, frozen=True):
    """What an event tells of. What is left out is as usual for the action, or not known."""

    action: str
    reason: str
    actor: Actor | None = None
    outcome: Outcome | None = None
    who: str = ""
    what: str = ""
    call: str = ""
    tool: str = ""
    model: str = ""
    details: dict[str, Any] = {}
    """Blank ones are left out of the entry."""


class Action(msgspec.Struct, frozen=True):
    """A kind of decision: the fact that tells of it, who usually makes it, what usually comes of it."""

    fact: type[Event]
    actor: Actor
    outcome: Outcome
    answers: str


ACTIONS: dict[str, Action] = {
    "session.start": Action(
        events.SessionStarted, "user", "recorded", "where the session comes from: a copy, a parent's call"
    ),
    "session.navigate": Action(events.LeafMoved, "user", "recorded", "why it goes on from another entry"),
    "settings.change": Action(events.SettingsChanged, "user", "recorded", "who changed what from here on"),
    "request.refuse": Action(events.RequestRefused, "system", "denied", "why a request was declined"),
    "prompts.hold": Action(events.PromptsHeld, "system", "paused", "why queued prompts do not start"),
    "prompts.release": Action(events.PromptsReleased, "user", "resumed", "why they start, or are dropped"),
    "run.start": Action(
        events.RunStarted, "user", "recorded", "what caused the run; under which profile and limits"
    ),
    "run.steer": Action(events.UserMessage, "user", "recorded", "a person spoke to the running model"),
    "run.remind": Action(
        events.UserMessage, "system", "recorded", "the model was told something that no person said"
    ),
    "run.wait": Action(events.RunWaiting, "system", "paused", "for whom or what the run waits"),
    "run.pause": Action(events.RunWaiting, "user", "paused", "somebody paused the run"),
    "run.resume": Action(events.RunResumed, "system", "resumed", "why the run goes on"),
    "run.cancel": Action(events.RunEnded, "user", "cancelled", "who cancelled the run, or what did"),
    "run.end": Action(events.RunEnded, "system", "recorded", "how the run ended, and why"),
    "budget.warn": Action(events.Warned, "system", "recorded", "a limit is near"),
    "budget.stop": Action(events.RunEnded, "system", "denied", "which limit ended the run"),
    "step.deny": Action(events.StepEnded, "host", "denied", "why a hook did not let a step begin"),
    "model.select": Action(
        events.ModelCalled, "system", "allowed", "why this model is asked; one for each call of a model"
    ),
    "model.retry": Action(
        events.ModelFailed, "system", "retry", "why the same model is asked again, and when"
    ),
    "model.fallback": Action(events.ModelFailed, "system", "fallback", "why another model takes over"),
    "model.fail": Action(events.ModelFailed, "model", "recorded", "why no model is asked any more"),
    "model.refuse": Action(events.AssistantMessage, "model", "denied", "the model refused to answer"),
    "answer.withhold": Action(events.AssistantMessage, "host", "denied", "a hook kept an answer from people"),
    "answer.replace": Action(
        events.AssistantMessage, "host", "recorded", "a hook showed people another answer"
    ),
    "tool.allow": Action(
        events.ToolStarted, "system", "allowed", "which profile, rule or person let a call begin"
    ),
    "tool.deny": Action(events.ToolResultFact, "system", "denied", "who or what refused a call, and why"),
    "tool.protocol_error": Action(
        events.ToolResultFact, "model", "denied", "why a call could not be understood"
    ),
    "tool.cancel": Action(
        events.ToolResultFact, "system", "cancelled", "why a call was stopped or never ran"
    ),
    "tool.reuse": Action(
        events.ToolResultFact, "system", "recorded", "an earlier result of the same call stands for it"
    ),
    "call.defer": Action(events.ToolDeferred, "tool", "paused", "what the call waits for to finish later"),
    "call.finish": Action(events.ToolResultFact, "tool", "recorded", "what came of a call that ran"),
    "child.start": Action(events.ChildStarted, "tool", "recorded", "what a child was started for"),
    "child.end": Action(events.ChildEnded, "agent", "recorded", "how the child's run ended, and why"),
    "permission.ask": Action(
        events.QuestionAsked, "system", "requested", "why a person is asked before a call begins"
    ),
    "permission.answer": Action(events.QuestionAnswered, "user", "allowed", "what the person answered"),
    "permission.remember": Action(
        events.PermissionRemembered, "user", "recorded", "which rule holds from now on, and where"
    ),
    "permission.revoke": Action(events.PermissionRemembered, "user", "recorded", "which rule holds no more"),
    "wait_user.request": Action(events.QuestionAsked, "tool", "requested", "what a tool wants to know"),
    "wait_user.answer": Action(events.QuestionAnswered, "user", "recorded", "what the person answered"),
    "history.replace": Action(
        events.HistoryReplaced, "host", "recorded", "the model is told other messages than before"
    ),
    "history.compact": Action(
        events.Compacted, "system", "recorded", "the model is told a summary in place of entries"
    ),
    "history.restore": Action(
        events.CompactionUndone, "user", "recorded", "the model is told again what was summed up"
    ),
    "history.collapse": Action(
        events.BranchCollapsed, "user", "recorded", "the model is told of a branch that was left"
    ),
    "command.run": Action(events.CommandRan, "user", "recorded", "which extension's command somebody ran"),
    "hook.fail": Action(events.Warned, "host", "recorded", "a hook failed; a guard that fails refuses"),
    "system.warn": Action(events.Warned, "system", "recorded", "something else that a person should know"),
}
"""Every action but those of `audited` facts, which bring their own name."""

NO_DECISION: frozenset[type[Event]] = frozenset(
    {
        events.SessionRenamed,
        events.Labelled,
        events.StepStarted,
        events.UsageReported,
        events.ToolCalled,
        events.ChildUsed,
        events.ExtensionEntry,
        events.ExtensionState,
        events.TodoUpdated,
        events.SourceCited,
        events.Delivered,
        events.MessageRevised,
    }
)
"""Facts that tell what happened, and not that somebody decided it."""
