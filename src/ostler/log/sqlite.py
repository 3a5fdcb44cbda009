"""The store in one SQLite file, for all sessions of a user: the embedded default."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ostler.kernel.journal import World
from ostler.kernel.processes import ProcessId
from ostler.kernel.store import NO_REQUESTS, BlobPart, Hit, Lease, SessionSummary
from ostler.log.leasing import LEASE_MS, lost, next_lease, no_session
from ostler.log.pulse import Pulse, inbox_of
from ostler.log.sqlite_connection import Durability, Writer, connect, in_our_words
from ostler.log.sqlite_search import search, update_index
from ostler.log.summaries import CHANGING, new_summary, summarised
from ostler.vocabulary.errors import NotFound, StoreError
from ostler.vocabulary.events import EVENT_TYPES, ToolResultFact
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.governance import opens_with
from ostler.vocabulary.messages import BlobRef
from ostler.vocabulary.requests import OVERTAKING, AnyRequest, decode_request, encode_request

PAGE = 2000
_SUMMARY = "id, cwd, created, updated, last_seq, title, preview, status, driver, forked_from, child_of"
_FACT = "seq, type, parent, run, time, origin, body"
_OPENING: dict[str, bool] = {tag: opens_with(event) for tag, event in EVENT_TYPES.items()}


class SqliteStore:
    """All four contracts of a store, in one file with a write-ahead log."""

    def __init__(self, path: Path, *, durability: Durability = "process", world: World | None = None) -> None:
        self.path = path
        self._now_ms: Callable[[], int] = (world or World()).now_ms
        self._writer = Writer(path, durability)
        self._reader = connect(path, create=False)
        self._data_version = 0
        self._pulse = Pulse(self._changed_elsewhere)
        self._keys: dict[str, int] = {}

    # --- log ----------------------------------------------------------------------------------------

    async def create(self, first: Fact, owner: ProcessId) -> Lease:
        lease = next_lease(first.session, None, 0, owner, self._now_ms())

        def work(db: sqlite3.Connection) -> None:
            self._insert_session(db, [first], lease)

        await self._writer.run(work)
        return lease

    async def append(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> None:
        key = self._key(lease.session)
        first, last = facts[0].seq, facts[-1].seq

        def work(db: sqlite3.Connection) -> None:
            changed = db.execute(
                "update sessions set last_seq = ?, updated = ? where key = ? and generation = ? and last_seq = ?"
                " and owner is not null",
                (last, facts[-1].time_ms, key, lease.generation, first - 1),
            ).rowcount
            if changed == 0:
                self._refuse_append(db, key, lease, first)
            if last - first != len(facts) - 1:
                raise StoreError(f"facts of session {lease.session} must be numbered without holes")
            _insert_facts(db, key, facts)
            if any(fact.type in CHANGING for fact in facts):
                self._update_summary(db, key, facts)
            for request, seq in settled.items():
                db.execute("update inbox set settled = ? where session = ? and id = ?", (seq, key, request))
            for fact in facts:
                if fact.type == "tool_result" and isinstance(fact.event, ToolResultFact):
                    db.execute("delete from processes where session = ? and call = ?", (key, fact.event.call))

        await self._writer.run(work)
        self._pulse.tick(lease.session)

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> list[Fact]:
        rows = self._query(
            f"select {_FACT} from facts where session = ? and seq > ? order by seq limit ?",
            (self._key(session), after, -1 if limit is None else limit),
        )
        return [_fact(session, row) for row in rows]

    async def read_opening(self, session: str) -> list[Fact]:
        key = self._key(session)
        rows = self._query(
            f"select {_FACT} from facts where session = ?1 and"
            " (opening = 1 or seq >= (select tail_seq from sessions where key = ?1)) order by seq",
            (key,),
        )
        return [_fact(session, row) for row in rows]

    async def follow(self, session: str, after: int = 0) -> AsyncIterator[list[Fact]]:
        while True:
            seen = self._pulse.version(session)
            facts = await self.read(session, after, PAGE)
            if facts:
                after = facts[-1].seq
                yield facts
            else:
                await self._pulse.wait(session, seen)

    async def last_seq(self, session: str) -> int:
        return (await self.summary(session)).last_seq

    async def summary(self, session: str) -> SessionSummary:
        rows = self._query(f"select {_SUMMARY} from sessions where id = ?", (session,))
        if not rows:
            raise no_session(session)
        return SessionSummary(*rows[0])

    async def sessions(
        self, *, cwd: str | None = None, limit: int | None = None, prefix: str = ""
    ) -> list[SessionSummary]:
        rows = self._query(
            f"select {_SUMMARY} from sessions where (?1 is null or cwd = ?1) and substr(id, 1, length(?2)) = ?2"
            " order by updated desc, id desc limit ?3",
            (cwd, prefix, -1 if limit is None else limit),
        )
        return [SessionSummary(*row) for row in rows]

    async def search(self, query: str, *, limit: int = 50) -> list[Hit]:
        await self._writer.run(update_index)
        with in_our_words(self.path):
            return search(self._reader, query, limit)

    async def import_session(self, facts: Sequence[Fact], blobs: Sequence[BlobPart] = ()) -> None:
        def work(db: sqlite3.Connection) -> None:
            key = self._insert_session(db, facts, None)
            for part in blobs:
                _append_blob(db, key, part)

        await self._writer.run(work)

    async def delete(self, session: str, owner: ProcessId) -> None:
        key = self._key(session)

        def work(db: sqlite3.Connection) -> None:
            held, generation = self._held(db, key, session)
            next_lease(session, held, generation, owner, self._now_ms())
            db.execute(
                "delete from blob_parts where blob in (select key from blobs where session = ?)", (key,)
            )
            for table in ("facts", "inbox", "processes", "blobs"):
                db.execute(f"delete from {table} where session = ?", (key,))
            db.execute("delete from messages where session = ?", (session,))
            db.execute("delete from sessions where key = ?", (key,))

        await self._writer.run(work)
        self._keys.pop(session, None)

    # --- leases -------------------------------------------------------------------------------------

    async def acquire(self, session: str, owner: ProcessId) -> Lease:
        key = self._key(session)

        def work(db: sqlite3.Connection) -> Lease:
            held, generation = self._held(db, key, session)
            lease = next_lease(session, held, generation, owner, self._now_ms())
            db.execute(
                "update sessions set generation = ?, owner = ?, expires = ? where key = ?",
                (lease.generation, msgspec.json.encode(owner), lease.expires_ms, key),
            )
            return lease

        return await self._writer.run(work)

    async def renew(self, lease: Lease) -> Lease:
        renewed = msgspec.structs.replace(lease, expires_ms=self._now_ms() + LEASE_MS)

        def work(db: sqlite3.Connection) -> None:
            changed = db.execute(
                "update sessions set expires = ? where key = ? and generation = ? and owner is not null",
                (renewed.expires_ms, self._key(lease.session), lease.generation),
            ).rowcount
            if changed == 0:
                raise lost(lease)

        await self._writer.run(work)
        return renewed

    async def release(self, lease: Lease) -> None:
        await self._writer.run(
            lambda db: db.execute(
                "update sessions set owner = null where key = ? and generation = ?",
                (self._key(lease.session), lease.generation),
            )
        )

    async def own_process(self, lease: Lease, call: str, process: ProcessId) -> None:
        await self._writer.run(
            lambda db: db.execute(
                "insert into processes select key, ?, ? from sessions where key = ? and generation = ?",
                (call, msgspec.json.encode(process), self._key(lease.session), lease.generation),
            )
        )

    async def owned_processes(self, session: str) -> list[tuple[str, ProcessId]]:
        rows = self._query("select call, process from processes where session = ?", (self._key(session),))
        return [(call, msgspec.json.decode(process, type=ProcessId)) for call, process in rows]

    # --- inbox --------------------------------------------------------------------------------------

    async def submit(self, session: str, request: AnyRequest) -> bool:
        added = await self._writer.run(
            lambda db: (
                db.execute(
                    "insert or ignore into inbox (session, id, body) values (?, ?, ?)",
                    (self._key(session), request.id, encode_request(request)),
                ).rowcount
            )
        )
        self._pulse.tick(inbox_of(session))
        return added == 1

    async def pending(self, session: str) -> list[AnyRequest]:
        rows = self._query(
            "select body from inbox where session = ? and settled is null order by arrived",
            (self._key(session),),
        )
        requests = [decode_request(body) for (body,) in rows]
        return sorted(requests, key=lambda request: not isinstance(request, OVERTAKING))

    async def settled(self, session: str, request: str) -> int | None:
        rows = self._query(
            "select settled from inbox where session = ? and id = ?", (self._key(session), request)
        )
        return rows[0][0] if rows else None

    async def arrivals(self, session: str, seen: int) -> int:
        return await self._pulse.wait(inbox_of(session), seen)

    # --- blobs --------------------------------------------------------------------------------------

    async def append_blob(self, session: str, blob: str, data: bytes, media_type: str = "text/plain") -> None:
        key, part = self._key(session), BlobPart(blob, data, media_type)
        await self._writer.run(lambda db: _append_blob(db, key, part))

    async def blob(self, session: str, blob: str) -> BlobRef | None:
        rows = self._query(
            "select id, size, media_type from blobs where session = ? and id = ?", (self._key(session), blob)
        )
        return BlobRef(*rows[0]) if rows else None

    async def read_blob(self, session: str, blob: str, start: int = 0, size: int | None = None) -> bytes:
        rows = self._query(
            "select key, size from blobs where session = ? and id = ?", (self._key(session), blob)
        )
        if not rows:
            raise NotFound(f"no blob {blob!r} in session {session}")
        key, whole = rows[0]
        end = whole if size is None else start + size
        parts = self._query(
            "select start, data from blob_parts where blob = ? and start < ? and start + length(data) > ?"
            " order by start",
            (key, end, start),
        )
        return b"".join(data[max(0, start - at) : end - at] for at, data in parts)

    async def close(self) -> None:
        await self._pulse.close()
        await self._writer.close()
        self._reader.close()

    # --- rows ---------------------------------------------------------------------------------------

    def _query(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with in_our_words(self.path):
            return self._reader.execute(sql, values).fetchall()

    def _key(self, session: str) -> int:
        key = self._keys.get(session)
        if key is None:
            rows = self._query("select key from sessions where id = ?", (session,))
            if not rows:
                raise no_session(session)
            key = self._keys[session] = rows[0][0]
        return key

    def _held(self, db: sqlite3.Connection, key: int, session: str) -> tuple[Lease | None, int]:
        row = db.execute("select owner, generation, expires from sessions where key = ?", (key,)).fetchone()
        if row is None:
            raise no_session(session)
        owner, generation, expires = row
        if owner is None:
            return None, generation
        return Lease(session, generation, msgspec.json.decode(owner, type=ProcessId), expires), generation

    def _refuse_append(self, db: sqlite3.Connection, key: int, lease: Lease, first: int) -> None:
        held, generation = self._held(db, key, lease.session)
        if held is None or generation != lease.generation:
            raise lost(lease)
        expected = db.execute("select last_seq from sessions where key = ?", (key,)).fetchone()[0] + 1
        raise StoreError(f"facts of session {lease.session} must be numbered from {expected} on, not {first}")

    def _update_summary(self, db: sqlite3.Connection, key: int, facts: Sequence[Fact]) -> None:
        row = db.execute(f"select {_SUMMARY} from sessions where key = ?", (key,)).fetchone()
        summary = summarised(SessionSummary(*row), facts)
        bounds = [fact.seq for fact in facts if fact.type in ("run_started", "run_ended")]
        db.execute(
            "update sessions set title = ?, preview = ?, status = ?, tail_seq = max(tail_seq, ?) where key = ?",
            (summary.title, summary.preview, summary.status, max(bounds, default=0), key),
        )

    def _insert_session(self, db: sqlite3.Connection, facts: Sequence[Fact], lease: Lease | None) -> int:
        summary = summarised(new_summary(facts[0]), facts[1:])
        if db.execute("select 1 from sessions where id = ?", (summary.id,)).fetchone():
            raise StoreError(f"session {summary.id} exists already")
        tail = max((fact.seq for fact in facts if fact.type in ("run_started", "run_ended")), default=1)
        key = db.execute(
            f"insert into sessions ({_SUMMARY}, tail_seq, generation, owner, expires, indexed_seq)"
            " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (
                *(getattr(summary, name) for name in _SUMMARY_FIELDS),
                tail,
                lease.generation if lease else 0,
                msgspec.json.encode(lease.owner) if lease else None,
                lease.expires_ms if lease else 0,
            ),
        ).lastrowid
        assert key is not None
        _insert_facts(db, key, facts)
        return key

    def _changed_elsewhere(self) -> bool:
        before = self._data_version
        self._data_version = self._query("pragma data_version", ())[0][0]
        return self._data_version != before


_SUMMARY_FIELDS = (
    "id",
    "cwd",
    "created_ms",
    "updated_ms",
    "last_seq",
    "title",
    "preview",
    "status",
    "driver",
    "forked_from",
    "child_of",
)


def _insert_facts(db: sqlite3.Connection, key: int, facts: Sequence[Fact]) -> None:
    db.executemany(
        "insert into facts values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                key,
                fact.seq,
                fact.type,
                _OPENING.get(fact.type, True),
                fact.parent,
                fact.run,
                fact.time_ms,
                fact.origin,
                fact.body,
            )
            for fact in facts
        ],
    )


def _append_blob(db: sqlite3.Connection, session: int, part: BlobPart) -> None:
    names = (session, part.blob)
    db.execute(
        "insert or ignore into blobs (session, id, media_type, size) values (?, ?, ?, 0)",
        (*names, part.media_type),
    )
    db.execute(
        "insert into blob_parts select key, size, ? from blobs where session = ? and id = ?",
        (part.data, *names),
    )
    db.execute("update blobs set size = size + ? where session = ? and id = ?", (len(part.data), *names))


def _fact(session: str, row: tuple[Any, ...]) -> Fact:
    seq, tag, parent, run, time_ms, origin, body = row
    return Fact(seq, session, run, time_ms, body, type=tag, parent=parent, origin=origin)
