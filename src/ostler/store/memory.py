"""A store in memory, for tests, the simulator, and agents that need not outlive their process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from ostler.core.journal import World
from ostler.core.processes import ProcessId
from ostler.core.store import NO_REQUESTS, BlobPart, Hit, Lease, SessionSummary, accepted
from ostler.schema.errors import NotFound, StoreError
from ostler.schema.events import AssistantMessage, ToolResultFact, UserMessage
from ostler.schema.facts import Fact
from ostler.schema.messages import BlobRef, text_of
from ostler.schema.requests import OVERTAKING, AnyRequest
from ostler.store.change_notifier import ANYWHERE, ChangeNotifier, inbox_of
from ostler.store.rules import (
    LEASE_MS,
    excerpt,
    is_current,
    lease_lost,
    living_holder,
    next_lease,
    no_session,
    opening_part,
    require_order,
    require_whole_session,
    summary_of,
    updated_summary,
    words_of,
)

_SEARCHED = (UserMessage, AssistantMessage)


class _Session:
    def __init__(self, facts: Sequence[Fact]) -> None:
        self.facts = list(facts)
        self.summary = summary_of(facts)
        self.lease: Lease | None = None
        self.generation = 0
        self.requests: dict[str, AnyRequest] = {}
        self.settled: dict[str, int] = {}
        self.processes: dict[str, list[ProcessId]] = {}


class MemoryStore:
    """Implements `Store` with dictionaries."""

    socket_folder: Path | None = None

    def __init__(self, world: World | None = None) -> None:
        self._now_ms: Callable[[], int] = (world or World()).now_ms
        self.id = (world or World()).new_id("store")
        self._sessions: dict[str, _Session] = {}
        self._blobs: dict[tuple[str, str], tuple[str, bytearray]] = {}
        self._notifier = ChangeNotifier()

    def consent_problem(self, process: int | None = None) -> str:
        """No other process can reach it."""
        return ""

    # --- log ----------------------------------------------------------------------------------------

    async def create(self, first: Fact, owner: ProcessId) -> Lease:
        return self._grant(self._add([first]), owner)

    async def append(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> None:
        self.append_now(lease, facts, settled)

    def append_now(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> bool:
        session = self._leased(lease)
        require_order(lease.session, facts, session.summary.last_seq + 1)
        finished = [fact.event.call for fact in facts if isinstance(fact.event, ToolResultFact)]
        session.summary = updated_summary(session.summary, facts)
        session.facts.extend(facts)
        for request, seq in settled.items():
            session.requests.pop(request, None)
            session.settled.setdefault(request, seq)
        for call in finished:
            session.processes.pop(call, None)
        self._notifier.notify(lease.session)
        return True

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> list[Fact]:
        facts = self._session(session).facts[after:]
        return facts if limit is None else facts[:limit]

    async def read_opening(self, session: str) -> list[Fact]:
        return opening_part(self._session(session).facts)

    async def follow(self, session: str, after: int = 0) -> AsyncIterator[list[Fact]]:
        while True:
            seen = self._notifier.version(session)
            facts = await self.read(session, after)
            if facts:
                after = facts[-1].seq
                yield facts
            else:
                await self._notifier.wait(session, seen)

    async def changes(self, seen: int) -> int:
        return await self._notifier.wait(ANYWHERE, seen)

    async def last_seq(self, session: str) -> int:
        return self._session(session).summary.last_seq

    async def summary(self, session: str) -> SessionSummary:
        return self._session(session).summary

    async def sessions(
        self, *, cwd: str | None = None, limit: int | None = None, prefix: str = "", since_ms: int = 0
    ) -> list[SessionSummary]:
        summaries = [
            one.summary
            for name, one in self._sessions.items()
            if cwd in (None, one.summary.cwd)
            and name.startswith(prefix)
            and one.summary.updated_ms >= since_ms
        ]
        summaries.sort(key=lambda summary: (summary.updated_ms, summary.id), reverse=True)
        return summaries if limit is None else summaries[:limit]

    async def search(self, query: str, *, limit: int = 50) -> list[Hit]:
        words = words_of(query)
        hits: list[Hit] = []
        for fact in [fact for session in self._sessions.values() for fact in session.facts if words]:
            text = text_of(fact.event.content) if isinstance(fact.event, _SEARCHED) else ""
            present = words_of(text)
            if all(any(word.startswith(start) for word in present) for start in words):
                hits.append(Hit(fact.session, fact.seq, excerpt(text, words), fact.time_ms))
        hits.sort(key=lambda hit: hit.time_ms, reverse=True)
        return hits[:limit]

    async def usages(self, *, since_ms: int = 0, session: str = "") -> list[Fact]:
        sessions = [self._session(session)] if session else self._sessions.values()
        facts = [fact for one in sessions for fact in one.facts if fact.type == "usage" and not fact.origin]
        return sorted([fact for fact in facts if fact.time_ms >= since_ms], key=lambda fact: fact.time_ms)

    async def import_session(self, facts: Sequence[Fact], blobs: Sequence[BlobPart] = ()) -> None:
        self._add(facts)
        for part in blobs:
            await self.append_blob(facts[0].session, part.blob, part.data, part.media_type)

    async def delete(self, session: str, owner: ProcessId) -> None:
        stored = self._session(session)
        next_lease(session, stored.lease, stored.generation, owner, self._now_ms())
        del self._sessions[session]
        self._blobs = {name: blob for name, blob in self._blobs.items() if name[0] != session}
        self._notifier.notify(session)
        self._notifier.notify(inbox_of(session))

    # --- leases -------------------------------------------------------------------------------------

    async def acquire(self, session: str, owner: ProcessId) -> Lease:
        return self._grant(self._session(session), owner)

    async def renew(self, lease: Lease) -> Lease:
        return self._set_expiry(lease, self._now_ms() + LEASE_MS)

    async def suspend(self, lease: Lease) -> Lease:
        return self._set_expiry(lease, self._now_ms())

    def _set_expiry(self, lease: Lease, expires_ms: int) -> Lease:
        session = self._leased(lease)
        session.lease = msgspec.structs.replace(lease, expires_ms=expires_ms)
        return session.lease

    async def holder(self, session: str) -> ProcessId | None:
        return living_holder(self._session(session).lease, self._now_ms())

    async def release(self, lease: Lease) -> None:
        session = self._sessions.get(lease.session)
        if session and session.lease and is_current(lease, session.lease.owner, session.generation):
            session.lease = None

    async def own_process(self, lease: Lease, call: str, process: ProcessId) -> None:
        self._leased(lease).processes.setdefault(call, []).append(process)

    async def owned_processes(self, session: str) -> list[tuple[str, ProcessId]]:
        rows = self._session(session).processes.items()
        return [(call, process) for call, processes in rows for process in processes]

    # --- inbox --------------------------------------------------------------------------------------

    async def submit(self, session: str, request: AnyRequest) -> bool:
        stored = self._session(session)
        if request.id in stored.requests or request.id in stored.settled:
            return False
        stored.requests[request.id] = accepted(request)
        self._notifier.notify(inbox_of(session))
        return True

    async def pending(self, session: str) -> list[AnyRequest]:
        requests = list(self._session(session).requests.values())
        return sorted(requests, key=lambda request: not isinstance(request, OVERTAKING))

    async def settlement(self, session: str, request: str) -> int | None:
        return self._session(session).settled.get(request)

    async def arrivals(self, session: str, seen: int) -> int:
        self._session(session)
        return await self._notifier.wait(inbox_of(session), seen)

    # --- blobs --------------------------------------------------------------------------------------

    async def append_blob(self, session: str, blob: str, data: bytes, media_type: str = "text/plain") -> None:
        self._session(session)
        self._blobs.setdefault((session, blob), (media_type, bytearray()))[1].extend(data)

    async def blob(self, session: str, blob: str) -> BlobRef | None:
        media_type, data = self._blobs.get((session, blob), ("", None))
        return None if data is None else BlobRef(blob, len(data), media_type)

    async def read_blob(self, session: str, blob: str, start: int = 0, size: int | None = None) -> bytes:
        if (session, blob) not in self._blobs:
            raise NotFound(f"no blob {blob!r} in session {session}")
        data = self._blobs[session, blob][1]
        return bytes(data[start:] if size is None else data[start : start + size])

    async def checkpoint(self) -> None:
        pass

    async def close(self) -> None:
        await self._notifier.close()

    def _session(self, session: str) -> _Session:
        stored = self._sessions.get(session)
        if stored is None:
            raise no_session(session)
        return stored

    def _leased(self, lease: Lease) -> _Session:
        session = self._sessions.get(lease.session)
        if session and session.lease and is_current(lease, session.lease.owner, session.generation):
            return session
        raise lease_lost(lease)

    def _add(self, facts: Sequence[Fact]) -> _Session:
        require_whole_session(facts)
        if facts[0].session in self._sessions:
            raise StoreError(f"session {facts[0].session} exists already")
        session = self._sessions[facts[0].session] = _Session(facts)
        return session

    def _grant(self, session: _Session, owner: ProcessId) -> Lease:
        lease = next_lease(session.summary.id, session.lease, session.generation, owner, self._now_ms())
        session.lease, session.generation = lease, lease.generation
        return lease
