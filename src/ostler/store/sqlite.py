"""The default store: one SQLite file for all sessions of a user."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec

from ostler.core.journal import World
from ostler.core.process_tree import why_inside
from ostler.core.processes import ProcessId
from ostler.core.store import NO_REQUESTS, BlobPart, Hit, Lease, SessionSummary, accepted
from ostler.schema.errors import ConsentRefused, NotFound
from ostler.schema.events import ToolResultFact
from ostler.schema.facts import Fact
from ostler.schema.messages import BlobRef
from ostler.schema.requests import CONSENT, OVERTAKING, AnyRequest, decode_request, encode_request
from ostler.store.change_notifier import ANYWHERE, ChangeNotifier, inbox_of
from ostler.store.rules import (
    CHANGING,
    LEASE_MS,
    is_current,
    lease_lost,
    living_holder,
    next_lease,
    no_session,
    require_order,
    require_whole_session,
)
from ostler.store.sqlite_connection import PATIENCE, Durability, connect_again, translate_errors
from ostler.store.sqlite_rows import (
    SELECT_FACTS,
    SUMMARY_COLUMNS,
    append_blob_part,
    delete_session,
    fact_of,
    insert_facts,
    insert_session,
    is_index_stale,
    search_messages,
    update_index,
    update_summary,
)
from ostler.store.sqlite_writer import Writer

PAGE = 2000

# Rows are always selected by the session's id: another process may have deleted a session, and a new one may
# have its key.
_KEY = "(select key from sessions where id = ?)"

_READ = f"{SELECT_FACTS} where session = {_KEY} and seq > ? order by seq limit ?"

_READ_OPENING = (
    f"{SELECT_FACTS} where session = (select key from sessions where id = :session)"
    " and (opening = 1 or seq >= (select tail_seq from sessions where id = :session)) order by seq"
)

# The sessions come first, so that those without changes since then are not searched.
_USAGES = (
    "select id, seq, type, parent, run, time, origin, body from sessions cross join facts on session = key"
    " where updated >= :since and (:session = '' or id = :session)"
    " and type = 'usage' and origin = '' and time >= :since"
    " order by time, session, seq"
)


class SqliteStore:
    """Implements `Store` in one file with a write-ahead log.

    `patience` is how many seconds a write waits for another process's transaction before `StoreBusy`.
    """

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "process",
        world: World | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.path = path
        self.socket_folder: Path | None = path.parent / "live"
        self._now_ms: Callable[[], int] = (world or World()).now_ms
        self._reader: sqlite3.Connection
        self._writer = Writer(path, durability, patience)
        try:
            self._reader = connect_again(path)
        except BaseException:
            self._writer.close_at_once()
            raise
        self._version_of_others = 0
        self._notifier = ChangeNotifier(self._changed_elsewhere, self._writer.wal)

    @cached_property
    def id(self) -> str:
        (row,) = self._query("select id from store", ())
        return str(row[0])

    def consent_problem(self, process: int | None = None) -> str:
        rows = self._query("select distinct owner from sessions where owner is not null", ())
        return why_inside(self.id, [_process(owner) for (owner,) in rows], process)

    # --- log ----------------------------------------------------------------------------------------

    async def create(self, first: Fact, owner: ProcessId) -> Lease:
        require_whole_session([first])
        lease = next_lease(first.session, None, 0, owner, self._now_ms())
        await self._writer.run(lambda db: insert_session(db, [first], lease))
        return lease

    async def append(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> None:
        try:
            await self._writer.run(_append(lease, facts, settled))
        finally:  # even if it was cancelled, because it may have been written
            self._notifier.notify(lease.session)

    def append_now(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> bool | asyncio.Future[None]:
        notify = partial(self._notifier.notify, lease.session)
        return self._writer.run_soon(_append(lease, facts, settled), lease.session, notify)

    async def read(self, session: str, after: int = 0, limit: int | None = None) -> list[Fact]:
        rows = self._rows_of(session, _READ, after, -1 if limit is None else limit)
        return [fact_of(session, row) for row in rows]

    async def read_opening(self, session: str) -> list[Fact]:
        with translate_errors(self.path):
            rows = self._reader.execute(_READ_OPENING, {"session": session})
            # Not `fetchall`: the memory of one row is reused for the next.
            facts = [
                Fact(seq, session, run, time_ms, body, tag, parent, origin)
                for seq, tag, parent, run, time_ms, origin, body in rows
            ]
        if not facts:
            raise no_session(session)
        return facts

    async def follow(self, session: str, after: int = 0) -> AsyncIterator[list[Fact]]:
        while True:
            seen = self._notifier.version(session)
            facts = await self.read(session, after, PAGE)
            if facts:
                after = facts[-1].seq
                yield facts
            else:
                await self._notifier.wait(session, seen)

    async def changes(self, seen: int) -> int:
        return await self._notifier.wait(ANYWHERE, seen)

    async def last_seq(self, session: str) -> int:
        return (await self.summary(session)).last_seq

    async def summary(self, session: str) -> SessionSummary:
        rows = self._query(f"select {SUMMARY_COLUMNS} from sessions where id = ?", (session,))
        if not rows:
            raise no_session(session)
        return SessionSummary(*rows[0])

    async def sessions(
        self, *, cwd: str | None = None, limit: int | None = None, prefix: str = "", since_ms: int = 0
    ) -> list[SessionSummary]:
        rows = self._query(
            f"select {SUMMARY_COLUMNS} from sessions"
            " where updated >= :since and (:cwd is null or cwd = :cwd)"
            " and substr(id, 1, length(:prefix)) = :prefix"
            " order by updated desc, id desc limit :limit",
            {"since": since_ms, "cwd": cwd, "prefix": prefix, "limit": -1 if limit is None else limit},
        )
        return [SessionSummary(*row) for row in rows]

    async def search(self, query: str, *, limit: int = 50) -> list[Hit]:
        with translate_errors(self.path):
            while is_index_stale(self._reader):
                await self._writer.run(update_index, lengthy=True)
            return search_messages(self._reader, query, limit)

    async def usages(self, *, since_ms: int = 0, session: str = "") -> list[Fact]:
        rows = self._query(_USAGES, {"since": since_ms, "session": session})
        if not rows and session:
            self._require(session)
        return [fact_of(row[0], row[1:]) for row in rows]

    async def import_session(self, facts: Sequence[Fact], blobs: Sequence[BlobPart] = ()) -> None:
        require_whole_session(facts)

        def work(db: sqlite3.Connection) -> None:
            key = insert_session(db, facts, None)
            for part in blobs:
                append_blob_part(db, key, part)

        await self._writer.run(work, lengthy=True)

    async def delete(self, session: str, owner: ProcessId) -> None:
        def work(db: sqlite3.Connection) -> None:
            key, held, generation = _lease_row(db, session)
            next_lease(session, held, generation, owner, self._now_ms())
            delete_session(db, key, session)

        try:
            await self._writer.run(work, lengthy=True)
        finally:
            self._notifier.notify(session)
            self._notifier.notify(inbox_of(session))

    # --- leases -------------------------------------------------------------------------------------

    async def acquire(self, session: str, owner: ProcessId) -> Lease:
        def work(db: sqlite3.Connection) -> Lease:
            key, held, generation = _lease_row(db, session)
            lease = next_lease(session, held, generation, owner, self._now_ms())
            update = "update sessions set generation = ?, owner = ?, expires = ? where key = ?"
            db.execute(update, (lease.generation, msgspec.json.encode(owner), lease.expires_ms, key))
            return lease

        return await self._writer.run(work)

    async def renew(self, lease: Lease) -> Lease:
        return await self._set_expiry(lease, self._now_ms() + LEASE_MS)

    async def suspend(self, lease: Lease) -> Lease:
        return await self._set_expiry(lease, self._now_ms())

    async def _set_expiry(self, lease: Lease, expires_ms: int) -> Lease:
        def work(db: sqlite3.Connection) -> None:
            key, _ = _leased_row(db, lease)
            db.execute("update sessions set expires = ? where key = ?", (expires_ms, key))

        await self._writer.run(work)
        return msgspec.structs.replace(lease, expires_ms=expires_ms)

    async def holder(self, session: str) -> ProcessId | None:
        with translate_errors(self.path):
            _, held, _ = _lease_row(self._reader, session)
        return living_holder(held, self._now_ms())

    async def release(self, lease: Lease) -> None:
        update = "update sessions set owner = null where id = ? and generation = ? and owner = ?"
        values = (lease.session, lease.generation, msgspec.json.encode(lease.owner))
        await self._writer.run(lambda db: db.execute(update, values))

    async def own_process(self, lease: Lease, call: str, process: ProcessId) -> None:
        def work(db: sqlite3.Connection) -> None:
            key, _ = _leased_row(db, lease)
            db.execute("insert into processes values (?, ?, ?)", (key, call, msgspec.json.encode(process)))

        await self._writer.run(work)

    async def owned_processes(self, session: str) -> list[tuple[str, ProcessId]]:
        rows = self._rows_of(session, f"select call, process from processes where session = {_KEY}")
        return [(call, _process(process)) for call, process in rows]

    # --- inbox --------------------------------------------------------------------------------------

    async def submit(self, session: str, request: AnyRequest) -> bool:
        if isinstance(request, CONSENT) and (problem := self.consent_problem()):
            raise ConsentRefused(problem)

        def work(db: sqlite3.Connection) -> bool:
            row = (_key(db, session), request.id, encode_request(accepted(request)))
            insert = "insert or ignore into inbox (session, id, body) values (?, ?, ?)"
            return db.execute(insert, row).rowcount == 1

        try:
            return await self._writer.run(work)
        finally:
            self._notifier.notify(inbox_of(session))

    async def pending(self, session: str) -> list[AnyRequest]:
        query = f"select body from inbox where session = {_KEY} and settled is null order by arrived"
        rows = self._rows_of(session, query)
        requests = [request for (body,) in rows if (request := decode_request(body)) is not None]
        return sorted(requests, key=lambda request: not isinstance(request, OVERTAKING))

    async def settlement(self, session: str, request: str) -> int | None:
        rows = self._rows_of(session, f"select settled from inbox where session = {_KEY} and id = ?", request)
        return rows[0][0] if rows else None

    async def arrivals(self, session: str, seen: int) -> int:
        self._require(session)
        return await self._notifier.wait(inbox_of(session), seen)

    # --- blobs --------------------------------------------------------------------------------------

    async def append_blob(self, session: str, blob: str, data: bytes, media_type: str = "text/plain") -> None:
        part = BlobPart(blob, data, media_type)
        await self._writer.run(lambda db: append_blob_part(db, _key(db, session), part))

    async def blob(self, session: str, blob: str) -> BlobRef | None:
        query = f"select id, size, media_type from blobs where session = {_KEY} and id = ?"
        rows = self._query(query, (session, blob))
        return BlobRef(*rows[0]) if rows else None

    async def read_blob(self, session: str, blob: str, start: int = 0, size: int | None = None) -> bytes:
        rows = self._query(f"select key, size from blobs where session = {_KEY} and id = ?", (session, blob))
        if not rows:
            raise NotFound(f"no blob {blob!r} in session {session}")
        key, total = rows[0]
        end = total if size is None else min(total, start + size)
        query = "select start, data from blob_parts where blob = ? and start < ? and start + length(data) > ?"
        parts = self._query(f"{query} order by start", (key, end, start))
        return b"".join(data[max(0, start - at) : end - at] for at, data in parts)

    async def checkpoint(self) -> None:
        if self._writer.has_long_wal():
            await self.close()

    async def close(self) -> None:
        """Finishes started writes; everything that waits gets a `StoreError`. May be called twice."""
        try:
            await self._notifier.close()
        finally:  # even if it is cancelled: an open connection would keep the file busy
            try:
                await self._writer.close()
            finally:
                self._reader.close()

    # --- reading ------------------------------------------------------------------------------------

    def _query(self, sql: str, values: tuple[Any, ...] | dict[str, Any]) -> list[tuple[Any, ...]]:
        with translate_errors(self.path):
            return self._reader.execute(sql, values).fetchall()

    def _rows_of(self, session: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a session. Raises `NotFound` if the session does not exist."""
        rows = self._query(sql, (session, *values))
        if not rows:
            self._require(session)
        return rows

    def _require(self, session: str) -> None:
        if not self._query("select 1 from sessions where id = ?", (session,)):
            raise no_session(session)

    def _changed_elsewhere(self) -> bool:
        before = self._version_of_others
        self._version_of_others = self._writer.version_of_others()
        return self._version_of_others != before


def _key(db: sqlite3.Connection, session: str) -> int:
    return _lease_row(db, session)[0]


def _lease_row(db: sqlite3.Connection, session: str) -> tuple[int, Lease | None, int]:
    """The session's key, its lease unless it is free, and the last generation."""
    query = "select key, generation, owner, expires from sessions where id = ?"
    row = db.execute(query, (session,)).fetchone()
    if row is None:
        raise no_session(session)
    key, generation, owner, expires = row
    return key, Lease(session, generation, _process(owner), expires) if owner else None, generation


def _leased_row(db: sqlite3.Connection, lease: Lease) -> tuple[int, int]:
    """The key and the last number of a session. Raises `LeaseLost` unless this lease is the current one."""
    query = "select key, last_seq, generation, owner from sessions where id = ?"
    row = db.execute(query, (lease.session,)).fetchone()
    if row is None or row[3] is None or not is_current(lease, _process(row[3]), row[2]):
        raise lease_lost(lease)
    return row[0], row[1]


def _process(encoded: bytes) -> ProcessId:
    return msgspec.json.decode(encoded, type=ProcessId)


def _append(
    lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int]
) -> Callable[[sqlite3.Connection], None]:
    def work(db: sqlite3.Connection) -> None:
        key, last_seq = _leased_row(db, lease)
        require_order(lease.session, facts, last_seq + 1)
        latest = max([fact.time_ms for fact in facts])
        update = "update sessions set last_seq = ?, updated = max(updated, ?) where key = ?"
        db.execute(update, (facts[-1].seq, latest, key))
        insert_facts(db, key, facts)
        if not CHANGING.isdisjoint([fact.type for fact in facts]):
            update_summary(db, key, facts)
        for request, seq in settled.items():
            db.execute(
                "insert into inbox (session, id, body, settled) values (?, ?, x'', ?)"
                " on conflict (session, id) do update"
                " set settled = coalesce(settled, excluded.settled), body = x''",
                (key, request, seq),
            )
        for fact in facts:
            if fact.type == "tool_result" and isinstance(fact.event, ToolResultFact):
                db.execute("delete from processes where session = ? and call = ?", (key, fact.event.call))

    return work
