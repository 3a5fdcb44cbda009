"""The actions in an audit, and the trails that explain calls and model requests. `audit.py` applies them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ostler.core.questions import grants
from ostler.permissions.rules import by_profile, preview, preview_line
from ostler.schema import events
from ostler.schema.events import Event
from ostler.schema.messages import text_of

Actor = Literal["system", "host", "agent", "model", "tool", "user"]

Outcome = Literal[
    "allowed", "denied", "fallback", "retry", "cancelled", "paused", "resumed", "requested", "recorded"
]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something was done, or not done. A fact has at most one entry."""

    time: str
    session: str
    run: str = ""
    seq: int
    """The number of its fact."""
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
    """The decision that an event records. `ACTIONS` has the default actor and outcome."""

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
    """The entry omits blank ones."""


class Action(msgspec.Struct, frozen=True):
    """A kind of decision: its fact, its usual actor and outcome, and the question that it answers."""

    fact: type[Event]
    actor: Actor
    outcome: Outcome
    answers: str


ACTIONS: dict[str, Action] = {
    "session.start": Action(events.SessionStarted, "user", "recorded", "new, copied, or started by a call"),
    "session.navigate": Action(events.LeafMoved, "user", "recorded", "why it continues at another entry"),
    "settings.change": Action(events.SettingsChanged, "user", "recorded", "who changed what from here on"),
    "request.refuse": Action(events.RequestRefused, "system", "denied", "why a request was declined"),
    "prompts.hold": Action(events.PromptsHeld, "system", "paused", "why queued prompts do not start"),
    "prompts.release": Action(events.PromptsReleased, "user", "resumed", "why they start, or are dropped"),
    "run.start": Action(events.RunStarted, "user", "recorded", "what caused the run; its profile and limits"),
    "run.steer": Action(events.UserMessage, "user", "recorded", "a person steered the running model"),
    "run.remind": Action(events.UserMessage, "system", "recorded", "a message that no person wrote"),
    "run.wait": Action(events.RunWaiting, "system", "paused", "what the run waits for"),
    "run.pause": Action(events.RunWaiting, "user", "paused", "someone paused the run"),
    "run.resume": Action(events.RunResumed, "system", "resumed", "why the run continues"),
    "run.cancel": Action(events.RunEnded, "user", "cancelled", "who or what cancelled the run"),
    "run.end": Action(events.RunEnded, "system", "recorded", "how the run ended, and why"),
    "budget.warn": Action(events.Warned, "system", "recorded", "a limit is near"),
    "budget.stop": Action(events.RunEnded, "system", "denied", "which limit ended the run"),
    "step.deny": Action(events.StepEnded, "host", "denied", "why a hook refused a step"),
    "model.select": Action(
        events.ModelCalled, "system", "allowed", "why this model; one for each model call"
    ),
    "model.retry": Action(events.ModelFailed, "system", "retry", "why the call is retried, and when"),
    "model.fallback": Action(events.ModelFailed, "system", "fallback", "why another model takes over"),
    "model.fail": Action(events.ModelFailed, "model", "recorded", "why there is no retry and no fallback"),
    "model.refuse": Action(events.AssistantMessage, "model", "denied", "the model refused to answer"),
    "answer.withhold": Action(events.AssistantMessage, "host", "denied", "a hook withheld an answer"),
    "answer.replace": Action(events.AssistantMessage, "host", "recorded", "a hook showed another answer"),
    "tool.allow": Action(
        events.ToolStarted, "system", "allowed", "which profile, rule or person allowed a call"
    ),
    "tool.deny": Action(events.ToolResultFact, "system", "denied", "who or what refused a call, and why"),
    "tool.protocol_error": Action(events.ToolResultFact, "model", "denied", "why a call was invalid"),
    "tool.cancel": Action(
        events.ToolResultFact, "system", "cancelled", "why a call was stopped or never ran"
    ),
    "tool.reuse": Action(
        events.ToolResultFact, "system", "recorded", "the same call's earlier result is used"
    ),
    "call.defer": Action(events.ToolDeferred, "tool", "paused", "what the call waits for to finish later"),
    "call.finish": Action(events.ToolResultFact, "tool", "recorded", "how a call ended that ran"),
    "child.start": Action(events.ChildStarted, "tool", "recorded", "why a child was started"),
    "child.end": Action(events.ChildEnded, "agent", "recorded", "how the child's run ended, and why"),
    "permission.ask": Action(events.QuestionAsked, "system", "requested", "why a call needs permission"),
    "permission.answer": Action(events.QuestionAnswered, "user", "allowed", "what the person answered"),
    "permission.remember": Action(
        events.PermissionRemembered, "user", "recorded", "which rule applies from now on, and where"
    ),
    "permission.revoke": Action(
        events.PermissionRemembered, "user", "recorded", "which rule no longer applies"
    ),
    "wait_user.request": Action(events.QuestionAsked, "tool", "requested", "what a tool wants to know"),
    "wait_user.answer": Action(events.QuestionAnswered, "user", "recorded", "what the person answered"),
    "history.replace": Action(
        events.HistoryReplaced, "host", "recorded", "the model receives other messages than before"
    ),
    "history.compact": Action(events.Compacted, "system", "recorded", "a summary replaces entries"),
    "history.restore": Action(events.CompactionUndone, "user", "recorded", "a compaction is undone"),
    "history.collapse": Action(events.BranchCollapsed, "user", "recorded", "a summary replaces a branch"),
    "command.run": Action(events.CommandRan, "user", "recorded", "which extension command someone ran"),
    "hook.fail": Action(events.Warned, "host", "recorded", "a hook failed; a guard that fails refuses"),
    "system.warn": Action(events.Warned, "system", "recorded", "another warning for people"),
}
"""All actions, except those of `audited` facts, which name their own."""


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
"""Facts that record no decision."""


class EventTrail:
    """Passes each event to the method that is named after its type, such as `on_tool_called`."""

    def see(self, event: Event) -> Decision | None:
        handler: Callable[[Event], Decision | None] | None = getattr(self, f"on_{event.type}", None)
        return handler(event) if handler else None


class CallTrail(EventTrail):
    """Follows the open calls: which model made them, and how people answered questions about them."""

    def __init__(self) -> None:
        self._permissions = ""
        self._model = ""
        self._calls: dict[str, tuple[events.ToolCalled, str]] = {}
        """Each with the model that made it."""
        self._started: set[str] = set()
        self._deferred: set[str] = set()
        self._asked: dict[str, events.QuestionAsked] = {}
        self._answers: dict[str, tuple[events.QuestionAsked, events.QuestionAnswered]] = {}
        """The last one for each call."""
        self._waiting = ""

    def _about(self, call: str, name: str = "") -> dict[str, Any]:
        """The fields of a decision about a call."""
        if call not in self._calls:
            return {"call": call, "tool": name}
        called, model = self._calls[call]
        what = preview(called.name, called.arguments)
        return {"call": call, "tool": called.name, "model": model, "what": what}

    def on_run_started(self, event: events.RunStarted) -> None:
        self._permissions = event.permissions
        self._waiting = ""

    def on_model_called(self, event: events.ModelCalled) -> None:
        self._model = event.model

    def on_tool_called(self, event: events.ToolCalled) -> None:
        self._calls[event.call] = (event, self._model)

    # --- a call -------------------------------------------------------------------------------------

    def on_tool_started(self, event: events.ToolStarted) -> Decision:
        about = self._about(event.call, event.name)
        details = {"attempt": event.attempt, "child": event.child}
        reason, actor, who = self._allowed_by(event)
        if event.arguments is not None:
            about["what"] = preview(event.name, event.arguments)
            reason += "; a hook rewrote its arguments"
        self._started.add(event.call)
        return Decision("tool.allow", reason, actor, who=who, details=details, **about)

    def _allowed_by(self, event: events.ToolStarted) -> tuple[str, Actor | None, str]:
        """The reason, the actor and the actor's name."""
        asked, answered = self._answers.pop(event.call, (None, None))
        if asked and answered and _is_permission(asked):
            return f"a person allowed it: {_in_words(asked, answered)}", "user", _who(answered)
        if asked and answered:
            return "a person answered what it wanted to know", "user", _who(answered)
        if event.call in self._deferred:
            self._deferred.discard(event.call)
            return "it is called again: its child, which waited, can continue", None, ""
        if event.attempt > 1:
            return "it is run again: the process that ran it has ended, and the tool is idempotent", None, ""
        if event.allowed_by:
            return event.allowed_by, None, ""
        return by_profile("full") if self._permissions == "full" else "no rule forbids it", None, ""

    def on_tool_deferred(self, event: events.ToolDeferred) -> Decision:
        self._deferred.add(event.call)
        reason = event.note or "it finishes later"
        return Decision("call.defer", reason, details={"handle": event.handle}, **self._about(event.call))

    def on_tool_result(self, event: events.ToolResultFact) -> Decision:
        about = self._about(event.call, event.name)
        asked, answered = self._answers.pop(event.call, (None, None))
        actor: Actor = "tool" if event.call in self._started else "system"
        self._calls.pop(event.call, None)
        self._started.discard(event.call)
        self._deferred.discard(event.call)
        text = text_of(event.content).strip().partition("\n")[0]
        if event.failed == "call_refused" and asked and answered and not grants(asked, answered):
            return Decision("tool.deny", text, "user", who=_who(answered), **about)
        if event.failed == "call_refused":
            return Decision("tool.deny", text, actor, **about)
        if event.failed in ("unknown_tool", "invalid_arguments"):
            return Decision("tool.protocol_error", text, details={"failed": event.failed}, **about)
        if event.failed == "tool_cancelled":
            return Decision("tool.cancel", text, **about)
        if event.repeats:
            reason = f"result {event.repeats} is of the same call"
            return Decision("tool.reuse", reason, details={"repeats": event.repeats}, **about)
        ends_run = event.ends_run or None
        details = {"failed": event.failed, "duration_ms": event.duration_ms, "ends_run": ends_run}
        if event.failed in (None, "tool_failed"):  # a tool's own output is no reason
            text = "it failed" if event.failed else "it succeeded"
        return Decision("call.finish", text, details=details, **about)

    def on_child_started(self, event: events.ChildStarted) -> Decision:
        about = self._about(event.call) | {"what": preview_line(event.task)}
        agent = f"the agent {event.agent}" if event.agent else "an agent"
        details = {"child": event.child, "agent": event.agent}
        if event.extension:
            reason = f"an extension has {agent} do it in session {event.child}"
            return Decision("child.start", reason, "host", who=event.extension, details=details, **about)
        return Decision("child.start", f"{agent} does it in session {event.child}", details=details, **about)

    def on_child_ended(self, event: events.ChildEnded) -> Decision:
        outcome: Outcome | None = "cancelled" if event.status == "cancelled" else None
        details = {"child": event.child, "status": event.status}
        reason = event.reason or event.status
        return Decision("child.end", reason, outcome=outcome, details=details, **self._about(event.call))

    # --- people -------------------------------------------------------------------------------------

    def on_question_asked(self, event: events.QuestionAsked) -> Decision:
        self._asked[event.id] = event
        about = self._about(event.call) | {"what": preview_line(event.question.text)}
        reason = event.question.reason or f"the {event.asked_by} wants to know"
        details = {"question": event.id, "choices": list(event.question.choices)}
        if not _is_permission(event):
            return Decision("wait_user.request", reason, details=details, **about)
        actor: Actor = "host" if event.asked_by == "hook" else "system"
        return Decision("permission.ask", reason, actor, details=details, **about)

    def on_question_answered(self, event: events.QuestionAnswered) -> Decision:
        asked = self._asked.pop(event.id, None)
        claims = event.by if event.identity else ""
        details = {"question": event.id, "request": event.request, "by": claims}
        if asked is None:  # it was asked before this trail began
            reason = f"the question was {event.outcome}"
            return Decision("wait_user.answer", reason, who=_who(event), details=details)
        about = self._about(asked.call) | {"what": preview_line(asked.question.text)}
        if asked.call in self._calls:
            self._answers[asked.call] = (asked, event)
        action = "permission.answer" if _is_permission(asked) else "wait_user.answer"
        reason = _in_words(asked, event)
        if event.outcome == "withdrawn":
            return Decision(action, reason, "system", "cancelled", details=details, **about)
        is_no = event.outcome == "declined" or (_is_permission(asked) and not grants(asked, event))
        outcome: Outcome | None = "denied" if is_no else None
        return Decision(action, reason, outcome=outcome, who=_who(event), details=details, **about)

    def on_run_waiting(self, event: events.RunWaiting) -> Decision:
        self._waiting = event.reason
        if event.reason == "paused":
            return Decision("run.pause", "someone paused it", details={"request": event.request})
        if event.reason == "pending":
            names = [self._about(call)["tool"] or call for call in event.calls]
            reason = f"it waits for deferred calls: {', '.join(names)}"
            return Decision("run.wait", reason, details={"calls": list(event.calls)})
        texts = [self._asked[one].question.text for one in event.questions if one in self._asked]
        reason = f"it waits for an answer: {'; '.join(texts)}"
        return Decision("run.wait", reason, details={"questions": list(event.questions)})

    def on_run_resumed(self, event: events.RunResumed) -> Decision:
        details = {"request": event.request}
        if self._waiting == "paused":
            return Decision("run.resume", "someone resumed it", "user", details=details)
        return Decision("run.resume", "what it waited for has arrived", details=details)


def _is_permission(asked: events.QuestionAsked) -> bool:
    return asked.asked_by in ("permission", "hook")


def _who(answered: events.QuestionAnswered) -> str:
    """Who answered. Facts of older versions have only the name that the client gave itself."""
    return answered.identity or answered.by


def _in_words(asked: events.QuestionAsked, answered: events.QuestionAnswered) -> str:
    answer = answered.answer
    if answered.outcome != "answered":
        remark = f": {answer}" if isinstance(answer, str) and answer else ""
        return f"the question was {answered.outcome}{remark}"
    if asked.question.secret:
        return "the answer is a secret, which is not stored"
    return f"the answer was {answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()}"


class ModelTrail(EventTrail):
    """Follows which model the next step should use, and why."""

    def __init__(self) -> None:
        self._settings = events.SettingsChanged()
        """The last change of the session's model."""
        self._of_run = ""
        self._expected = ""
        self._why = ""
        self._last = ""
        """The model that was called last."""
        self._failure = ""
        """Its error, if it failed."""

    def on_settings_changed(self, event: events.SettingsChanged) -> None:
        if event.model:
            self._settings = event
            self._expect(event.model, _chosen_by(event))

    def on_run_started(self, event: events.RunStarted) -> None:
        self._of_run = event.model
        self._failure = ""
        is_of_session = self._settings.model == event.model
        reason = _chosen_by(self._settings) if is_of_session else "the run was started with it"
        self._expect(event.model, reason)

    def _expect(self, model: str, why: str) -> None:
        self._expected, self._why = model, why

    def on_model_called(self, event: events.ModelCalled) -> Decision:
        reason = self._reason(event)
        self._last = event.model
        details = {"purpose": event.purpose, "attempt": event.attempt}
        return Decision("model.select", reason, model=event.model, details=details)

    def _reason(self, event: events.ModelCalled) -> str:
        if self._failure and event.model == self._last:
            return f"attempt {event.attempt}, because the one before failed: {self._failure}"
        if event.purpose != "step":
            return f"a side call: {event.purpose}"
        if event.model == self._expected:
            return self._why
        if event.model == self._of_run:  # by a process that does not know of the fallback
            return "the model of the run is used again"
        return f"a hook chose it in place of {self._expected or 'the model of the run'}"

    def on_model_failed(self, event: events.ModelFailed) -> Decision:
        self._failure = event.failure.message
        details: dict[str, Any] = {"failure": event.failure.kind, "attempt": event.attempt}
        if event.rescue:
            self._expect(event.rescue, f"it took over from {self._last}, which failed: {self._failure}")
            details["failed"] = self._last
            return Decision("model.fallback", self._failure, model=event.rescue, details=details)
        if event.retry_in is not None:
            details["retry_in"] = event.retry_in
            return Decision("model.retry", self._failure, model=self._last, details=details)
        return Decision("model.fail", self._failure, model=self._last, details=details)

    def on_assistant_message(self, event: events.AssistantMessage) -> Decision | None:
        self._failure = ""
        if event.suppressed:
            return Decision("answer.withhold", "a hook withheld it from people", model=self._last)
        if event.shown is not None:
            return Decision("answer.replace", "a hook replaced what people see of it", model=self._last)
        if event.stop_reason == "refusal":
            return Decision("model.refuse", "the model refused to answer", model=self._last)
        return None


def _chosen_by(settings: events.SettingsChanged) -> str:
    return f"{settings.by or 'someone'} chose it for the session"
