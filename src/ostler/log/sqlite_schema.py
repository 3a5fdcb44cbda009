"""The tables of the SQLite store, and how an older store becomes a present one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from ostler.vocabulary.errors import StoreError, StoreNewer

SCHEMA = """
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
    body blob not null,              -- empty when it was settled without having been submitted
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
create virtual table messages using fts5 (
    words, session unindexed, seq unindexed, tokenize = 'ascii'  -- split already, as in `words.py`
);
"""

Migration = Callable[[sqlite3.Connection], None]

MIGRATIONS: tuple[Migration, ...] = ()
"""The first takes a store from version 1 to 2, the next from 2 to 3. Each stays as it is for ever."""

APPLICATION = int.from_bytes(b"Ostl", "big")
"""SQLite's `application_id`: tells our files from other programs' databases."""


def version_of(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    return 1 + len(migrations)


def prepare(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Makes the tables in a new file, brings an older store forward, and refuses a newer or foreign one."""
    present = version_of(migrations)
    version = _pragma(connection, "user_version")
    if version == present and _pragma(connection, "application_id") == APPLICATION:
        return
    if version == 0 and not connection.execute("select 1 from sqlite_master limit 1").fetchone():
        _initialise(connection, path, present)
        version = _pragma(connection, "user_version")
    if _pragma(connection, "application_id") != APPLICATION:
        raise StoreError(f"{path} is a database of another program; set OSTLER_HOME to another place")
    if version > present:
        raise StoreNewer(
            f"{path} was written by a newer version (store {version}, this program knows {present}); "
            "upgrade ostler, or set OSTLER_HOME to another place"
        )
    if version < present:
        _migrate(connection, path, migrations)


def _initialise(connection: sqlite3.Connection, path: Path, version: int) -> None:
    mode = connection.execute("pragma journal_mode = wal").fetchone()[0]
    if mode != "wal":
        raise StoreError(
            f"{path} cannot have a write-ahead log on this disk; set OSTLER_HOME to a folder on a local disk"
        )
    connection.execute("begin immediate")
    if _pragma(connection, "user_version") == 0:  # nobody was faster
        for statement in _statements(SCHEMA):
            connection.execute(statement)
        connection.execute(f"pragma application_id = {APPLICATION}")
        connection.execute(f"pragma user_version = {version}")
    connection.execute("commit")


def _migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    """All steps in one transaction, after a copy: what fails in the middle has changed nothing."""
    connection.execute("begin immediate")
    version = _pragma(connection, "user_version")
    try:
        if version < version_of(migrations):  # nobody was faster
            copy_store(path, path.with_name(f"{path.name}.version-{version}"))
            for migration in migrations[version - 1 :]:
                migration(connection)
            connection.execute(f"pragma user_version = {version_of(migrations)}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def copy_store(path: Path, to: Path) -> None:
    """A whole copy as of this moment, or none."""
    part = to.with_name(f"{to.name}.part")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(part)) as target:
        source.backup(target)
    part.replace(to)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"pragma {name}").fetchone()[0]
    return value


def _statements(script: str) -> Iterator[str]:
    for statement in script.split(";\n"):
        if statement.strip():
            yield statement
