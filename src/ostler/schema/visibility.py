"""One pure function that says what becomes of an event. Nothing else decides these."""

from __future__ import annotations

import msgspec

from ostler.schema import events
from ostler.schema.facts import UnknownEvent
from ostler.schema.messages import Text


class Visibility(msgspec.Struct, frozen=True):
    """What becomes of an event."""

    stored: bool
    """It is a fact: in the log, numbered."""
    shown: bool
    """People see it, live and when the session is opened again."""
    sent: bool
    """The model is told it in the steps that follow."""
    live: bool
    """It goes over the live channel as it happens."""


_FACT = Visibility(stored=True, shown=True, sent=False, live=True)

_BACKSTAGE = Visibility(stored=True, shown=False, sent=False, live=True)

_TOLD = Visibility(stored=True, shown=True, sent=True, live=True)

_TOLD_ONLY = Visibility(stored=True, shown=False, sent=True, live=True)

_LIVE = Visibility(stored=False, shown=True, sent=False, live=True)


_FATES: dict[type, Visibility] = {
    UnknownEvent: _BACKSTAGE,
    events.ToolResultFact: _TOLD,
    events.HistoryReplaced: _TOLD,
    events.Compacted: _TOLD,
    events.BranchCollapsed: _TOLD,
    events.ModelCalled: _BACKSTAGE,
    events.ExtensionState: _BACKSTAGE,
    events.Audited: _BACKSTAGE,
    events.Delivered: _BACKSTAGE,
    events.SettingsChanged: _BACKSTAGE,
}
"""The fate of each type that is not marked, where it differs from that of its kind."""


_KINDS: dict[type[events.Event], Visibility] = {
    events.Entry: _FACT,
    events.Record: _FACT,
    events.Delta: _LIVE,
    events.LiveEvent: _LIVE,
}

for _type in events.EVENT_TYPES.values():
    _FATES.setdefault(_type, next(fate for kind, fate in _KINDS.items() if issubclass(_type, kind)))


def visibility_of(event: events.Event | UnknownEvent) -> Visibility:
    """Stored, shown, told, live: from the type, and from the marks hidden, blank and suppressed."""
    kind = type(event)
    if kind is events.UserMessage:
        return _TOLD_ONLY if event.hidden else _TOLD  # type: ignore[union-attr]
    if kind is events.AssistantMessage:
        return _fate_of_answer(event)  # type: ignore[arg-type]
    if kind is events.ExtensionEntry:
        return _TOLD if event.told else _FACT  # type: ignore[union-attr]
    return _FATES[kind]


def _fate_of_answer(message: events.AssistantMessage) -> Visibility:
    if is_blank(message):
        return _BACKSTAGE if message.suppressed else _FACT
    return _TOLD_ONLY if message.suppressed else _TOLD


def is_blank(message: events.AssistantMessage) -> bool:
    """Nothing in it that a model could be told: no block but empty text."""
    return not [block for block in message.content if type(block) is not Text or block.text.strip()]


def opens_with(event_type: type[events.Event] | None) -> bool:
    """Whether a fact is needed to open a session whose runs have all ended.

    The others matter only inside their own run, so opening a long session need not read them. A call is
    one of those: its message says the same.
    """
    if event_type is None:
        return True
    if issubclass(event_type, events.Entry):
        return event_type is not events.ToolCalled
    return event_type in _OPENING_RECORDS


def is_opening(tag: str, run: str) -> bool:
    """Whether a fact is needed to open its session. Usage, children and questions that belong to no run
    are: no `run_ended` tells of them."""
    return opens_with(events.EVENT_TYPES.get(tag)) or (not run and tag in _OPENING_BETWEEN_RUNS)


_OPENING_BETWEEN_RUNS = frozenset(
    {"usage", "child_started", "child_ended", "question_asked", "question_answered"}
)


_OPENING_RECORDS = frozenset(
    {
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
)
