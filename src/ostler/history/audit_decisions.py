"""The decisions that are audited, by name, and the trails that explain them: why a call ran or did not, and
why a model was called. `audit.py` applies them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from ostler.core.questions import grants
from ostler.permissions.rules import by_profile, preview, preview_line
from ostler.schema import events
from ostler.schema.events import Event
from ostler.schema.messages import Block, text_of

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


_PROTOCOL_ERRORS = ("unknown_tool", "invalid_arguments")

_RUN_AGAIN = "it is run again: the process that ran it has ended, and the tool allows it"

_CHILD_MOVED = "it is called again: its child, which waited, can go on"


class CallTrail:
    """Knows the calls that are open, who asked for them, and what people said about them."""

    def __init__(self) -> None:
        self._permissions = ""
        self._model = ""
        self._calls: dict[str, tuple[events.ToolCalled, str]] = {}
        """With the model that wants each."""
        self._started: set[str] = set()
        self._deferred: set[str] = set()
        self._asked: dict[str, events.QuestionAsked] = {}
        self._answers: dict[str, tuple[events.QuestionAsked, events.QuestionAnswered]] = {}
        """The last one for each call."""
        self._waiting = ""

    def see(self, event: Event) -> Decision | None:
        finder = _CALL_FINDERS.get(type(event))
        return finder(self, event) if finder else None

    def _about(self, call: str, name: str = "") -> dict[str, Any]:
        """How decisions name the call that they are about."""
        if call not in self._calls:
            return {"call": call, "tool": name}
        called, model = self._calls[call]
        what = preview(called.name, called.arguments)
        return {"call": call, "tool": called.name, "model": model, "what": what}

    def _run_started(self, event: events.RunStarted) -> None:
        self._permissions = event.permissions
        self._waiting = ""

    def _model_called(self, event: events.ModelCalled) -> None:
        self._model = event.model

    def _tool_called(self, event: events.ToolCalled) -> None:
        self._calls[event.call] = (event, self._model)

    # --- a call -------------------------------------------------------------------------------------

    def _tool_started(self, event: events.ToolStarted) -> Decision:
        about = self._about(event.call, event.name)
        details = {"attempt": event.attempt, "child": event.child}
        reason, actor, who = self._allowed_by(event)
        if event.arguments is not None:
            about["what"] = preview(event.name, event.arguments)
            reason += "; a hook rewrote its arguments"
        self._started.add(event.call)
        return Decision("tool.allow", reason, actor, who=who, details=details, **about)

    def _allowed_by(self, event: events.ToolStarted) -> tuple[str, Actor | None, str]:
        """Why it may begin, by whom, and that one's name."""
        asked, answered = self._answers.pop(event.call, (None, None))
        if asked and answered and _is_permission(asked):
            return f"a person allowed it: {_in_words(asked, answered)}", "user", answered.by
        if asked and answered:
            return "a person answered what it wanted to know", "user", answered.by
        if event.call in self._deferred:
            self._deferred.discard(event.call)
            return _CHILD_MOVED, None, ""
        if event.attempt > 1:
            return _RUN_AGAIN, None, ""
        if event.allowed_by:
            return event.allowed_by, None, ""
        return by_profile("full") if self._permissions == "full" else "nothing stood in its way", None, ""

    def _tool_deferred(self, event: events.ToolDeferred) -> Decision:
        self._deferred.add(event.call)
        reason = event.note or "it finishes later"
        return Decision("call.defer", reason, details={"handle": event.handle}, **self._about(event.call))

    def _tool_result(self, event: events.ToolResultFact) -> Decision:
        about = self._about(event.call, event.name)
        asked, answered = self._answers.pop(event.call, (None, None))
        actor: Actor = "tool" if event.call in self._started else "system"
        self._calls.pop(event.call, None)
        self._started.discard(event.call)
        self._deferred.discard(event.call)
        said = _first_line(event.content)
        if event.failed == "call_refused" and asked and answered and not grants(asked, answered):
            return Decision("tool.deny", said, "user", who=answered.by, **about)
        if event.failed == "call_refused":
            return Decision("tool.deny", said, actor, **about)
        if event.failed in _PROTOCOL_ERRORS:
            return Decision("tool.protocol_error", said, details={"failed": event.failed}, **about)
        if event.failed == "tool_cancelled":
            return Decision("tool.cancel", said, **about)
        if event.repeats:
            reason = f"result {event.repeats} is that of the same call"
            return Decision("tool.reuse", reason, details={"repeats": event.repeats}, **about)
        details = {
            "failed": event.failed,
            "duration_ms": event.duration_ms,
            "ends_run": event.ends_run or None,
        }
        return Decision("call.finish", _what_came(event, said), details=details, **about)

    def _child_started(self, event: events.ChildStarted) -> Decision:
        about = self._about(event.call)
        about["what"] = preview_line(event.task)
        agent = f"the agent {event.agent}" if event.agent else "an agent"
        details = {"child": event.child, "agent": event.agent}
        if event.extension:
            reason = f"an extension has {agent} do it in session {event.child}"
            return Decision("child.start", reason, "host", who=event.extension, details=details, **about)
        return Decision("child.start", f"{agent} does it in session {event.child}", details=details, **about)

    def _child_ended(self, event: events.ChildEnded) -> Decision:
        outcome: Outcome | None = "cancelled" if event.status == "cancelled" else None
        details = {"child": event.child, "status": event.status}
        reason = event.reason or event.status
        return Decision("child.end", reason, outcome=outcome, details=details, **self._about(event.call))

    # --- people -------------------------------------------------------------------------------------

    def _question_asked(self, event: events.QuestionAsked) -> Decision:
        self._asked[event.id] = event
        about = self._about(event.call)
        about["what"] = preview_line(event.question.text)
        reason = event.question.reason or f"the {event.asked_by} wants to know"
        details = {"question": event.id, "choices": list(event.question.choices)}
        if not _is_permission(event):
            return Decision("wait_user.request", reason, details=details, **about)
        actor: Actor = "host" if event.asked_by == "hook" else "system"
        return Decision("permission.ask", reason, actor, details=details, **about)

    def _question_answered(self, event: events.QuestionAnswered) -> Decision:
        asked = self._asked.pop(event.id, None)
        details = {"question": event.id, "request": event.request}
        if asked is None:  # of a time that this trail has not seen
            reason = f"the question was {event.outcome}"
            return Decision("wait_user.answer", reason, who=event.by, details=details)
        about = self._about(asked.call)
        about["what"] = preview_line(asked.question.text)
        if asked.call in self._calls:
            self._answers[asked.call] = (asked, event)
        action = "permission.answer" if _is_permission(asked) else "wait_user.answer"
        reason = _in_words(asked, event)
        if event.outcome == "withdrawn":
            return Decision(action, reason, "system", "cancelled", details=details, **about)
        is_no = event.outcome == "declined" or (_is_permission(asked) and not grants(asked, event))
        return Decision(
            action, reason, outcome="denied" if is_no else None, who=event.by, details=details, **about
        )

    def _run_waiting(self, event: events.RunWaiting) -> Decision:
        self._waiting = event.reason
        if event.reason == "paused":
            return Decision("run.pause", "somebody paused it", details={"request": event.request})
        if event.reason == "pending":
            names = [self._about(call)["tool"] or call for call in event.calls]
            reason = f"it waits for what finishes later: {', '.join(names)}"
            return Decision("run.wait", reason, details={"calls": list(event.calls)})
        texts = [self._asked[one].question.text for one in event.questions if one in self._asked]
        reason = f"it waits for an answer: {'; '.join(texts)}"
        return Decision("run.wait", reason, details={"questions": list(event.questions)})

    def _run_resumed(self, event: events.RunResumed) -> Decision:
        is_paused = self._waiting == "paused"
        reason = "somebody let it go on" if is_paused else "what it waited for has arrived"
        actor: Actor = "user" if is_paused else "system"
        return Decision("run.resume", reason, actor, details={"request": event.request})


def _is_permission(asked: events.QuestionAsked) -> bool:
    return asked.asked_by in ("permission", "hook")


def _in_words(asked: events.QuestionAsked, answered: events.QuestionAnswered) -> str:
    """What was answered, or that it was not."""
    answer = answered.answer
    if answered.outcome != "answered":
        remark = f": {answer}" if isinstance(answer, str) and answer else ""
        return f"the question was {answered.outcome}{remark}"
    if asked.question.secret:
        return "the answer is a secret, which is not kept"
    return f"the answer was {answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()}"


def _what_came(event: events.ToolResultFact, said: str) -> str:
    """Without the tool's own words, also those of its summary: output is no reason, and may be anything."""
    if event.failed is None:
        return "it succeeded"
    return "it failed" if event.failed == "tool_failed" else said


def _first_line(content: Sequence[Block]) -> str:
    return text_of(content).strip().partition("\n")[0]


_CALL_FINDERS: dict[type[Event], Callable[[CallTrail, Any], Decision | None]] = {
    events.RunStarted: CallTrail._run_started,
    events.ModelCalled: CallTrail._model_called,
    events.ToolCalled: CallTrail._tool_called,
    events.ToolStarted: CallTrail._tool_started,
    events.ToolDeferred: CallTrail._tool_deferred,
    events.ToolResultFact: CallTrail._tool_result,
    events.ChildStarted: CallTrail._child_started,
    events.ChildEnded: CallTrail._child_ended,
    events.QuestionAsked: CallTrail._question_asked,
    events.QuestionAnswered: CallTrail._question_answered,
    events.RunWaiting: CallTrail._run_waiting,
    events.RunResumed: CallTrail._run_resumed,
}


class ModelTrail:
    """Knows which model the next step should ask, and why that one."""

    def __init__(self) -> None:
        self._kept = events.SettingsChanged()
        """Who gave the session its model."""
        self._of_run = ""
        self._expected = ""
        self._why = ""
        self._asked = ""
        """The model that was asked last."""
        self._failure = ""
        """How that ended, if it did not answer."""

    def see(self, event: Event) -> Decision | None:
        finder = _MODEL_FINDERS.get(type(event))
        return finder(self, event) if finder else None

    def _settings_changed(self, event: events.SettingsChanged) -> None:
        if event.model:
            self._kept = event
            self._expect(event.model, _chosen_by(event))

    def _run_started(self, event: events.RunStarted) -> None:
        self._of_run = event.model
        self._failure = ""
        is_kept = self._kept.model == event.model
        self._expect(event.model, _chosen_by(self._kept) if is_kept else "the run was started with it")

    def _expect(self, model: str, why: str) -> None:
        self._expected, self._why = model, why

    def _model_called(self, event: events.ModelCalled) -> Decision:
        reason = self._reason(event)
        self._asked = event.model
        details = {"purpose": event.purpose, "attempt": event.attempt}
        return Decision("model.select", reason, model=event.model, details=details)

    def _reason(self, event: events.ModelCalled) -> str:
        if self._failure and event.model == self._asked:
            return f"attempt {event.attempt}, because the one before failed: {self._failure}"
        if event.purpose != "step":
            return f"it is asked beside the run: {event.purpose}"
        if event.model == self._expected:
            return self._why
        if event.model == self._of_run:  # by a process that knows nothing of who took over before
            return "the model of the run is asked again"
        return f"a hook chose it in place of {self._expected or 'the model of the run'}"

    def _model_failed(self, event: events.ModelFailed) -> Decision:
        self._failure = event.failure.message
        details: dict[str, Any] = {"failure": event.failure.kind, "attempt": event.attempt}
        if event.rescue:
            self._expect(event.rescue, f"it took over from {self._asked}, which failed: {self._failure}")
            details["failed"] = self._asked
            return Decision("model.fallback", self._failure, model=event.rescue, details=details)
        if event.retry_in is not None:
            details["retry_in"] = event.retry_in
            return Decision("model.retry", self._failure, model=self._asked, details=details)
        return Decision("model.fail", self._failure, model=self._asked, details=details)

    def _assistant_message(self, event: events.AssistantMessage) -> Decision | None:
        self._failure = ""
        if event.suppressed:
            return Decision("answer.withhold", "a hook withheld it from people", model=self._asked)
        if event.shown is not None:
            return Decision("answer.replace", "a hook replaced what people see of it", model=self._asked)
        if event.stop_reason == "refusal":
            return Decision("model.refuse", "the model refused to answer", model=self._asked)
        return None


def _chosen_by(settings: events.SettingsChanged) -> str:
    return f"{settings.by or 'somebody'} chose it for the session"


_MODEL_FINDERS: dict[type[Event], Callable[[ModelTrail, Any], Decision | None]] = {
    events.SettingsChanged: ModelTrail._settings_changed,
    events.RunStarted: ModelTrail._run_started,
    events.ModelCalled: ModelTrail._model_called,
    events.ModelFailed: ModelTrail._model_failed,
    events.AssistantMessage: ModelTrail._assistant_message,
}
