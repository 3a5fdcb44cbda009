"""The row of a session in the list of sessions, kept up from its facts."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ostler.kernel.store import SessionSummary
from ostler.vocabulary import events
from ostler.vocabulary.errors import StoreError
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import text_of

PREVIEW_LENGTH = 120
CHANGING = frozenset(
    {
        "session_started",
        "session_renamed",
        "run_started",
        "run_waiting",
        "run_resumed",
        "run_ended",
        "user_message",
    }
)
"""The types that change more of the row than its number and its time."""


def new_summary(first: Fact) -> SessionSummary:
    event = first.event
    if not isinstance(event, events.SessionStarted):
        raise StoreError("a session must begin with session_started")
    return SessionSummary(
        id=first.session,
        cwd=event.cwd,
        created_ms=first.time_ms,
        updated_ms=first.time_ms,
        last_seq=first.seq,
        driver=event.driver,
        forked_from=event.forked_from,
        child_of=event.child_of,
    )


def summarised(summary: SessionSummary, facts: Iterable[Fact]) -> SessionSummary:
    """The row after these facts."""
    for fact in facts:
        if fact.type in CHANGING:
            summary = _after(summary, fact)
        # A fork's copies keep their own time; that does not make it older than its beginning.
        updated_ms = max(summary.updated_ms, fact.time_ms)
        summary = msgspec.structs.replace(summary, last_seq=fact.seq, updated_ms=updated_ms)
    return summary


def _after(summary: SessionSummary, fact: Fact) -> SessionSummary:
    replace = msgspec.structs.replace
    match fact.event:
        case events.SessionRenamed(title=title):
            return replace(summary, title=title)
        case events.RunStarted() | events.RunResumed():
            return replace(summary, status="running")
        case events.RunWaiting():
            return replace(summary, status="waiting")
        case events.RunEnded(status=status):
            return replace(summary, status=status)
        case events.UserMessage(content=content, hidden=False) if not summary.preview:
            return replace(summary, preview=" ".join(text_of(content).split())[:PREVIEW_LENGTH])
    return summary
