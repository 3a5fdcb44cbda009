"""Why a model was asked: who chose it, which one failed before, what was asked of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ostler.runs.audit_actions import Decision
from ostler.vocabulary import events
from ostler.vocabulary.events import Event


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
