"""Which events are stored, shown, sent to the model and published live. Only this module decides."""

from __future__ import annotations

import msgspec

from ostler.schema import events
from ostler.schema.facts import UnknownEvent
from ostler.schema.messages import Text


class Visibility(msgspec.Struct, frozen=True):
    """Where an event goes."""

    stored: bool
    """It is a fact: in the log, numbered."""
    shown: bool
    """Users see it, live and when the session is opened again."""
    sent: bool
    """The model gets it in the following steps."""
    live: bool
    """Subscribers get it as it happens."""


_FACT = Visibility(stored=True, shown=True, sent=False, live=True)
_INTERNAL = Visibility(stored=True, shown=False, sent=False, live=True)
_SENT = Visibility(stored=True, shown=True, sent=True, live=True)
_SENT_ONLY = Visibility(stored=True, shown=False, sent=True, live=True)
_LIVE = Visibility(stored=False, shown=True, sent=False, live=True)

_VISIBILITY: dict[type, Visibility] = {
    UnknownEvent: _INTERNAL,
    events.ToolResultFact: _SENT,
    events.HistoryReplaced: _SENT,
    events.Compacted: _SENT,
    events.BranchCollapsed: _SENT,
    events.ModelCalled: _INTERNAL,
    events.ExtensionState: _INTERNAL,
    events.Audited: _INTERNAL,
    events.Delivered: _INTERNAL,
    events.SettingsChanged: _INTERNAL,
}
"""The visibility of types that differ from their kind."""

for _type in events.EVENT_TYPES.values():
    _VISIBILITY.setdefault(_type, _FACT if issubclass(_type, events.Entry | events.Record) else _LIVE)


def visibility_of(event: events.Event | UnknownEvent) -> Visibility:
    """By the event's type, and by whether it is hidden, blank or suppressed."""
    kind = type(event)
    if kind is events.UserMessage:
        return _SENT_ONLY if event.hidden else _SENT  # type: ignore[union-attr]
    if isinstance(event, events.AssistantMessage):
        if is_blank(event):
            return _INTERNAL if event.suppressed else _FACT
        return _SENT_ONLY if event.suppressed else _SENT
    if kind is events.ExtensionEntry:
        return _SENT if event.told else _FACT  # type: ignore[union-attr]
    return _VISIBILITY[kind]


def is_blank(message: events.AssistantMessage) -> bool:
    """It has no block but empty text, so there is nothing to send to a model."""
    return not [block for block in message.content if type(block) is not Text or block.text.strip()]


def opens_with(event_type: type[events.Event] | None) -> bool:
    """Whether a fact is needed to open a session whose runs have all ended. The others matter only inside
    their own run, so opening a long session does not read them. A tool call is one of those, because its
    message contains it."""
    if event_type is not None and issubclass(event_type, events.Entry):
        return event_type is not events.ToolCalled
    return event_type is None or event_type in _OPENING_RECORDS


def is_opening(tag: str, run: str) -> bool:
    """Whether a fact is needed to open its session. Usage, children and questions outside a run are, because
    no `run_ended` includes them."""
    return opens_with(events.EVENT_TYPES.get(tag)) or (not run and tag in _OPENING_BETWEEN_RUNS)


_OPENING_BETWEEN_RUNS = {"usage", "child_started", "child_ended", "question_asked", "question_answered"}

_OPENING_RECORDS = {
    events.SessionStarted,
    events.SessionRenamed,
    events.Labelled,
    events.LeafMoved,
    events.SettingsChanged,
    events.PromptsHeld,
    events.PromptsReleased,
    events.ExtensionState,
    events.PermissionRemembered,
    events.RunEnded,
    events.MessageRevised,
}
