"""One pure function that says what becomes of an event. Nothing else decides these."""

from __future__ import annotations

import msgspec

from ostler.vocabulary import events
from ostler.vocabulary.facts import UnknownEvent
from ostler.vocabulary.messages import Text


class Fate(msgspec.Struct, frozen=True):
    """What becomes of an event."""

    stored: bool
    """It is a fact: in the log, numbered."""
    shown: bool
    """People see it, live and when the session is opened again."""
    told: bool
    """The model is told it in the steps that follow."""
    live: bool
    """It goes over the live channel as it happens."""


_ENTRY = Fate(stored=True, shown=True, told=False, live=True)
_TOLD = Fate(stored=True, shown=True, told=True, live=True)
_RECORD = Fate(stored=True, shown=True, told=False, live=True)
_BACKSTAGE = Fate(stored=True, shown=False, told=False, live=True)
_LIVE = Fate(stored=False, shown=True, told=False, live=True)

_TOLD_TYPES = (
    events.UserMessage,
    events.AssistantMessage,
    events.ToolResultFact,
    events.HistoryReplaced,
    events.Compacted,
    events.BranchCollapsed,
)
_BACKSTAGE_TYPES = (
    events.ModelCalled,
    events.ExtensionState,
    events.Audited,
    events.Delivered,
    events.SettingsChanged,
)


def fate(event: events.Event | UnknownEvent) -> Fate:
    """Stored, shown, told, live: from the type, and from the marks hidden, blank and suppressed."""
    match event:
        case UnknownEvent():
            return _BACKSTAGE
        case events.Delta() | events.LiveEvent():
            return _LIVE
        case events.UserMessage(hidden=True):
            return msgspec.structs.replace(_TOLD, shown=False)
        case events.AssistantMessage(suppressed=suppressed):
            return msgspec.structs.replace(_TOLD, shown=not suppressed, told=not is_blank(event))
        case events.ExtensionEntry(told=told):
            return _TOLD if told else _ENTRY
        case events.Entry():
            return _TOLD if isinstance(event, _TOLD_TYPES) else _ENTRY
        case _:
            return _BACKSTAGE if isinstance(event, _BACKSTAGE_TYPES) else _RECORD


def is_blank(message: events.AssistantMessage) -> bool:
    """Nothing in it that a model could be told: no block but empty text."""
    return all(isinstance(block, Text) and not block.text.strip() for block in message.content)


def opens_with(event_type: type[events.Event] | None) -> bool:
    """Whether a fact is needed to open a session whose runs have all ended.

    The others matter only inside their own run, so opening a long session need not read them.
    """
    if event_type is None:
        return True
    return issubclass(event_type, events.Entry) or event_type in _OPENING_RECORDS


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
        events.RunEnded,
        events.MessageRevised,
    }
)
