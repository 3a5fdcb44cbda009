"""What all stores share: rules for leases and numbering, session summaries, search words, blobs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from msgspec.structs import replace

from ostler.core.processes import ProcessId
from ostler.core.store import BlobPart, Lease, SessionSummary, Store
from ostler.schema import events
from ostler.schema.errors import LeaseLost, NotFound, SessionHeld, StoreError
from ostler.schema.events import ToolResultFact
from ostler.schema.facts import Fact
from ostler.schema.messages import BlobRef, text_of
from ostler.schema.visibility import is_opening

LEASE_MS = 30_000

RENEW_SECONDS = LEASE_MS / 3 / 1000


def next_lease(session: str, held: Lease | None, generation: int, owner: ProcessId, now_ms: int) -> Lease:
    """The lease that `owner` gets. Raises `SessionHeld` while another living process has it.

    `held` is None if the lease was released; `generation` is the last one.
    """
    if held is not None and held.owner != owner and not _is_free(held, now_ms):
        raise SessionHeld(
            f"session {session} is held by process {held.owner.pid} on {held.owner.host}; "
            "wait for it to end, or work in a fork"
        )
    taken_from = held.owner if held is not None and held.owner != owner else None
    return Lease(session, generation + 1, owner, now_ms + LEASE_MS, taken_from)


def living_holder(held: Lease | None, now_ms: int) -> ProcessId | None:
    return held.owner if held is not None and not _is_free(held, now_ms) else None


def is_current(lease: Lease, owner: ProcessId | None, generation: int) -> bool:
    """Whether a lease is still valid, given the session's owner and generation. The generation alone is not
    enough: a session that was deleted and imported again starts with the first one."""
    return owner == lease.owner and generation == lease.generation


def _is_free(held: Lease, now_ms: int) -> bool:
    return held.expires_ms <= now_ms or (held.owner.is_here() and not held.owner.is_alive())


def lease_lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"session {lease.session} was taken over by another process; nothing more is written from here"
    )


def no_session(session: str) -> NotFound:
    return NotFound(f"no session {session!r}; `ostler sessions` lists those there are")


def require_order(session: str, facts: Sequence[Fact], first: int) -> None:
    """Raises `StoreError` unless the facts belong to this session and are numbered from `first` on."""
    if not facts:
        raise StoreError(f"an append to session {session} needs at least one fact")
    for expected, fact in enumerate(facts, first):
        if fact.seq != expected:
            raise StoreError(
                f"the next fact of session {session} must have number {expected}, not {fact.seq}"
            )
        if fact.session != session:
            raise StoreError(f"a fact of session {fact.session} cannot be appended to session {session}")


def require_whole_session(facts: Sequence[Fact]) -> None:
    """Raises `StoreError` unless the facts are a whole session."""
    if not facts or facts[0].type != "session_started":
        raise StoreError("a session must begin with session_started")
    require_order(facts[0].session, facts, 1)


PREVIEW_LENGTH = 120

CHANGING = {"session_renamed", "run_started", "run_waiting", "run_resumed", "run_ended", "user_message"}
"""The types that change more of the summary than its number and time."""


def summary_of(facts: Sequence[Fact]) -> SessionSummary:
    """The summary of a whole session."""
    first, event = facts[0], facts[0].event
    if not isinstance(event, events.SessionStarted):
        raise StoreError("a session must begin with session_started")
    summary = SessionSummary(
        first.session,
        event.cwd,
        created_ms=first.time_ms,
        updated_ms=first.time_ms,
        last_seq=first.seq,
        driver=event.driver,
        forked_from=event.forked_from,
        child_of=event.child_of,
    )
    return updated_summary(summary, facts[1:])


def updated_summary(summary: SessionSummary, facts: Iterable[Fact]) -> SessionSummary:
    """The summary after these facts."""
    for fact in facts:
        if fact.type in CHANGING:
            summary = _apply(summary, fact)
        # Copies in a fork have their original time, which may be before the fork's start.
        updated_ms = max(summary.updated_ms, fact.time_ms)
        summary = replace(summary, last_seq=fact.seq, updated_ms=updated_ms)
    return summary


def _apply(summary: SessionSummary, fact: Fact) -> SessionSummary:
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


def tail_of(facts: Sequence[Fact], default: int = 1) -> int:
    """The first fact from which opening needs all: the start of the open run, or the end of the last."""
    return max((fact.seq for fact in facts if fact.type in ("run_started", "run_ended")), default=default)


def opening_part(facts: Sequence[Fact]) -> list[Fact]:
    """The facts that opening a session needs."""
    tail = tail_of(facts)
    return [fact for fact in facts if fact.seq >= tail or is_opening(fact.type, fact.run)]


_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")

_BEFORE, _AFTER = 40, 120


def words_of(text: str) -> list[str]:
    """Runs of letters and digits, without case and accents; everything else separates words."""
    return _WORD.findall(_fold(text))


def excerpt(text: str, words: list[str]) -> str:
    """The text around the first of the words, on one line."""
    match = re.search(rf"(?<![^\W_]){re.escape(words[0])}", _fold(text))
    place = match.start() if match else 0
    start = max(0, place - _BEFORE)
    return ("… " if start else "") + " ".join(text[start : place + _AFTER].split())


def _fold(text: str) -> str:
    """About as long as the text, so that an index into one is an index into the other."""
    import unicodedata

    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", plain).lower()


PIECE = 192 * 1024
"""A piece in base64 makes an export line of about 256 KiB."""


def blobs_named_by(facts: Iterable[Fact]) -> dict[str, None]:
    """Their ids, in the order of the facts, each once."""
    return {output.id: None for output in outputs_named_by(facts)}


def outputs_named_by(facts: Iterable[Fact]) -> Iterator[BlobRef]:
    for fact in facts:
        if fact.type == "tool_result" and isinstance(fact.event, ToolResultFact) and fact.event.output:
            yield fact.event.output


async def read_in_parts(store: Store, session: str, blob: str) -> AsyncIterator[BlobPart]:
    """A whole blob; nothing if it does not exist."""
    stored = await store.blob(session, blob)
    if stored is None:
        return
    for start in range(0, max(stored.size, 1), PIECE):
        size = min(PIECE, stored.size - start)
        yield BlobPart(blob, await store.read_blob(session, blob, start, size), stored.media_type)
