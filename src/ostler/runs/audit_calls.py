"""Why a call ran or did not: who allowed or refused it, what was asked of people, what they answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ostler.kernel.questions import grants
from ostler.runs.audit_actions import Actor, Decision, Outcome
from ostler.tools.permissions import by_profile, one_line, preview
from ostler.vocabulary import events
from ostler.vocabulary.events import Event
from ostler.vocabulary.messages import Block, text_of

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
        about["what"] = one_line(event.task)
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
        about["what"] = one_line(event.question.text)
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
        about["what"] = one_line(asked.question.text)
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
