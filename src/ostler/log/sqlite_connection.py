"""Connections to the one SQLite file: its schema, its transactions, and its errors in our words."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from ostler.vocabulary.errors import (
    OstlerError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreNewer,
    StoreReadOnly,
)

SCHEMA_VERSION = 1
SCHEMA = """
create table meta (key text primary key, value) without rowid;
create table sessions (
    key integer primary key,
    id text not null unique,
    cwd text not null,
    created integer not null,
    updated integer not null,
    last_seq integer not null,
    tail_seq integer not null,       -- opening needs every fact from here on
    title text not null,
    preview text not null,
    status text not null,
    driver text not null,
    forked_from text not null,
    child_of text not null,
    generation integer not null,
    owner blob,                      -- null: the lease is free
    expires integer not null,
    indexed_seq integer not null     -- the search index holds messages up to here
);
create index sessions_by_use on sessions (updated desc);
create table facts (
    session integer not null,
    seq integer not null,
    type text not null,
    opening integer not null,        -- needed to open the session after its run has ended
    parent integer,
    run text not null,
    time integer not null,
    origin text not null,
    body blob not null,
    primary key (session, seq)
) without rowid;
create table inbox (
    arrived integer primary key autoincrement,
    session integer not null,
    id text not null,
    body blob not null,
    settled integer,
    unique (session, id)
);
create table processes (session integer not null, call text not null, process blob not null);
create table blobs (
    key integer primary key,
    session integer not null,
    id text not null,
    media_type text not null,
    size integer not null,
    unique (session, id)
);
create table blob_parts (blob integer not null, start integer not null, data blob not null);
create index blob_parts_by_place on blob_parts (blob, start);
create virtual table messages using fts5 (text, session unindexed, seq unindexed, time unindexed);
"""

BUSY_SECONDS = 10.0
COMMITS_BETWEEN_LOOKS = 200
LARGE_WAL = 4 * 1024 * 1024

Durability = Literal["process", "power"]
"""What a committed fact survives: the end of the process, or the loss of power too (at the price of an fsync)."""

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]


def connect(path: Path, durability: Durability = "process", *, create: bool = True) -> sqlite3.Connection:
    """A connection in autocommit mode, to a database of our version."""
    with _in_our_words(path):
        if create:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not path.exists():
                path.touch(mode=0o600)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS)
        connection.execute("pragma cache_size = -1024")
        version = connection.execute("pragma user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            connection.close()
            raise StoreNewer(
                f"{path} was written by a newer version (store {version}, this program knows {SCHEMA_VERSION}); "
                "upgrade ostler, or set OSTLER_HOME to another place"
            )
        if version == 0:
            _initialise(connection)
        connection.execute(f"pragma synchronous = {'full' if durability == 'power' else 'normal'}")
        connection.execute("pragma wal_autocheckpoint = 0")
        return connection


def _initialise(connection: sqlite3.Connection) -> None:
    connection.execute("pragma journal_mode = wal")
    connection.execute("begin immediate")
    if connection.execute("pragma user_version").fetchone()[0] == 0:  # nobody was faster
        for statement in _statements(SCHEMA):
            connection.execute(statement)
        connection.execute(f"pragma user_version = {SCHEMA_VERSION}")
    connection.execute("commit")


def _statements(script: str) -> Iterator[str]:
    for statement in script.split(";\n"):
        if statement.strip():
            yield statement


class Writer:
    """Commits work. A lone transaction is committed at once, on the spot; what arrives while another
    commit is under way is committed together by a thread."""

    def __init__(self, path: Path, durability: Durability) -> None:
        self._path = path
        self.connection = connect(path, durability)
        self.connection.execute("pragma busy_timeout = 0")
        self._inline = durability == "process"
        self._queue: list[tuple[Work[Any], asyncio.Future[Any]]] = []
        self._flusher: asyncio.Task[None] | None = None
        self._checkpointer: asyncio.Task[None] | None = None
        self._wal = Path(f"{path}-wal")
        self._commits = 0

    async def run(self, work: Work[Result]) -> Result:
        """Runs `work` in a transaction, and returns when it is committed."""
        if self._inline and (self._flusher is None or self._flusher.done()):
            try:
                outcome = self._transact([work])[0]
            except StoreBusy:
                outcome = await self._enqueue(work)  # another process writes: wait for it in a thread
        else:
            outcome = await self._enqueue(work)
        if self._commits % COMMITS_BETWEEN_LOOKS == 0:
            self._checkpoint_if_large()
        self._commits += 1
        if isinstance(outcome, BaseException):
            raise outcome
        result: Result = outcome
        return result

    async def _enqueue(self, work: Work[Any]) -> Any:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((work, done))
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.ensure_future(self._flush())
        return await done

    async def _flush(self) -> None:
        while self._queue:
            batch, self._queue = self._queue, []
            try:
                outcomes = await asyncio.to_thread(self._transact_patiently, [work for work, _ in batch])
            except StoreError as error:
                outcomes = [error] * len(batch)
            for (_, done), outcome in zip(batch, outcomes, strict=True):
                if not done.done():
                    done.set_result(outcome)

    def _transact_patiently(self, batch: list[Work[Any]]) -> list[Any]:
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._transact(batch)
            except StoreBusy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)

    def _transact(self, batch: list[Work[Any]]) -> list[Any]:
        """Each work's result or its own refusal; if the commit fails, none of it has happened."""
        with _in_our_words(self._path):
            self.connection.execute("begin immediate")
            try:
                outcomes = [self._one(work, alone=len(batch) == 1) for work in batch]
                if len(batch) == 1 and isinstance(outcomes[0], BaseException):
                    self.connection.execute("rollback")
                else:
                    self.connection.execute("commit")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("rollback")
                raise
            return outcomes

    def _one(self, work: Work[Any], *, alone: bool) -> Any:
        if alone:
            try:
                return work(self.connection)
            except OstlerError as refusal:
                return refusal
        self.connection.execute("savepoint one")
        try:
            outcome = work(self.connection)
        except OstlerError as refusal:
            self.connection.execute("rollback to one")
            outcome = refusal
        self.connection.execute("release one")
        return outcome

    def _checkpoint_if_large(self) -> None:
        """Moves the write-ahead log into the database beside the work, not in the middle of a commit."""
        if not self._wal.exists() or self._wal.stat().st_size < LARGE_WAL:
            return
        if self._checkpointer is None or self._checkpointer.done():
            self._checkpointer = asyncio.ensure_future(asyncio.to_thread(_checkpoint, self._path))

    async def close(self) -> None:
        for task in (self._flusher, self._checkpointer):
            if task:
                await asyncio.wait({task})
        self.connection.close()


def _checkpoint(path: Path) -> None:
    with _in_our_words(path):
        connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            connection.execute("pragma wal_checkpoint(passive)")
        finally:
            connection.close()


@contextmanager
def _in_our_words(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into those of the tree, each with what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(error, path) from error
    except PermissionError as error:
        raise StoreReadOnly(f"{path} cannot be written ({error.strerror}); check who owns it") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be used: {error.strerror or error}") from error


in_our_words = _in_our_words


def _explained(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"{path} is locked by another process; try again when it has finished")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return StoreReadOnly(f"{path} cannot be opened for writing; check its owner and its folder's")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        free = shutil.disk_usage(path.parent).free if path.parent.exists() else 0
        return StoreFull(f"{path} cannot be written: {error} ({free // 2**20} MiB free on its disk)")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreCorrupt(
            f"{path} is damaged ({error}); move it away to start afresh, or recover it with `sqlite3 FILE .recover`"
        )
    return StoreError(f"{path}: {error}")
