"""Opens the SQLite file: its tables and migrations, errors as `StoreError`, no network file systems."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from ostler.schema.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreNewer, StoreReadOnly

SCHEMA = """
create table store (id text not null);
insert into store values ('store_' || lower(hex(randomblob(16))));
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


def _add_store_id(db: sqlite3.Connection) -> None:
    """Version 2: the id that consent is bound to. A copy of the file keeps it."""
    db.execute("create table store (id text not null)")
    db.execute("insert into store values ('store_' || lower(hex(randomblob(16))))")


MIGRATIONS: tuple[Migration, ...] = (_add_store_id,)
"""The first migrates a store from version 1 to 2, the next from 2 to 3. They never change."""

APPLICATION = int.from_bytes(b"Ostl", "big")
"""SQLite's `application_id`, which distinguishes our files from other databases."""


def version_of(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    return 1 + len(migrations)


def prepare(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Creates the tables in a new file, migrates an older store, and refuses a newer or foreign one."""
    current = version_of(migrations)
    version = _pragma(connection, "user_version")
    if version == current and _pragma(connection, "application_id") == APPLICATION:
        return
    if version == 0 and not connection.execute("select 1 from sqlite_master limit 1").fetchone():
        _initialise(connection, path, current)
        version = _pragma(connection, "user_version")
    if _pragma(connection, "application_id") != APPLICATION:
        raise StoreError(f"{path} is a database of another program; set OSTLER_HOME to another place")
    if version > current:
        raise StoreNewer(
            f"{path} was written by a newer version (store {version}, this program knows {current}); "
            "upgrade ostler, or set OSTLER_HOME to another place"
        )
    if version < current:
        _migrate(connection, path, migrations)


def _initialise(connection: sqlite3.Connection, path: Path, version: int) -> None:
    if connection.execute("pragma journal_mode = wal").fetchone()[0] != "wal":
        raise StoreError(
            f"{path} cannot have a write-ahead log on this disk; set OSTLER_HOME to a folder on a local disk"
        )
    with Transaction(connection):
        if _pragma(connection, "user_version") == 0:  # no other process was faster
            for statement in SCHEMA.rstrip(";\n").split(";\n"):
                connection.execute(statement)
            connection.execute(f"pragma application_id = {APPLICATION}")
            connection.execute(f"pragma user_version = {version}")


def _migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    """All steps in one transaction, after a copy: a failure changes nothing."""
    with Transaction(connection):
        version = _pragma(connection, "user_version")
        if version < version_of(migrations):  # no other process was faster
            copy_store(path, path.with_name(f"{path.name}.version-{version}"))
            for migration in migrations[version - 1 :]:
                migration(connection)
            connection.execute(f"pragma user_version = {version_of(migrations)}")


class Transaction:
    """Commits what the block writes; an error rolls it back."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("begin immediate")

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            if kind is None:
                self._connection.execute("commit")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("rollback")


def copy_store(path: Path, to: Path) -> None:
    """Makes a complete copy as of this moment, or none."""
    part = to.with_name(f"{to.name}.part")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(part)) as target:
        source.backup(target)
    part.replace(to)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"pragma {name}").fetchone()[0]
    return value


_TIGHT = 1024 * 1024
"""An I/O error with fewer free bytes than this counts as a full disk."""

_ELSEWHERE = "check that place, or set OSTLER_HOME to another"


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _sqlite_error(error, path) from error
    except OSError as error:
        raise _os_error(error, path) from error


def _sqlite_error(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"{path} is locked by another process; try again when it has finished")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return StoreReadOnly(f"{path} cannot be opened for writing; check its owner and its folder's")
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _free(path) < _TIGHT):
        return _full(path)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreCorrupt(
            f"{path} is damaged ({error}); move it away to start afresh, or try `sqlite3 FILE .recover`"
        )
    return StoreError(f"{path} cannot be used: {error}; {_ELSEWHERE}")


def _os_error(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreReadOnly(f"{path} cannot be written ({error.strerror}); check who owns it and its folder")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path)
    return StoreError(f"{path} cannot be used: {error.strerror or error}; {_ELSEWHERE}")


def _full(path: Path) -> StoreFull:
    return StoreFull(
        f"{path} cannot grow ({_free(path) // 2**20} MiB free on its disk); make room and try again"
    )


def _free(path: Path) -> int:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return 0
    return disk.f_bavail * disk.f_frsize


MOUNTS = Path("/proc/self/mounts")

_LOCAL = frozenset({"apfs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
"""The common ones, for which no pattern is compiled."""

_NETWORK = (
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|beegfs|gpfs|gfs2|ocfs2|orangefs|pvfs2|glusterfs|ncpfs|coda|davfs"
    r"|fuse\.(sshfs|glusterfs|ceph-fuse|davfs\d?|rclone|s3fs|gcsfuse|blobfuse\d?|smb\w*|nfs\w*|juicefs|goofys)"
)


def refuse_network_disk(path: Path, mounts: str | None = None) -> None:
    """Raises `StoreError` if `path` is known to be on a network file system."""
    if mounts is None:
        try:
            mounts = os.fsdecode(MOUNTS.read_bytes())
        except OSError:
            return
    point, kind = _mount_of(os.path.realpath(path), mounts)
    is_sandbox = kind == "9p" and point == "/"  # its root, which no other machine sees
    if kind in _LOCAL or is_sandbox or not re.fullmatch(_NETWORK, kind):
        return
    raise StoreError(
        f"{path} is on a network file system ({kind} at {point}), where a store would be damaged; "
        "set OSTLER_HOME to a folder on a local disk"
    )


def _mount_of(path: str, mounts: str) -> tuple[str, str]:
    """The longest mount point above `path`, and its type; a later mount hides an earlier one."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1]
        if "\\" in point:  # spaces and some other characters are octal numbers there
            point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point)
        is_above = path == point or path.startswith(f"{point.removesuffix('/')}/")
        if len(point) >= len(best) and is_above:
            best, kind = point, fields[2]
    return best, kind


PATIENCE = 10.0
"""Seconds to wait for another process's transaction."""

Durability = Literal["process", "power"]
"""What a committed fact survives: the end of the process, or also a power loss, with an fsync for each."""


def connect(
    path: Path,
    durability: Durability = "process",
    *,
    patience: float = PATIENCE,
    migrations: Sequence[Migration] = MIGRATIONS,
) -> sqlite3.Connection:
    """A connection in autocommit mode to a store of our version, created or migrated if necessary."""
    refuse_network_disk(path)
    with translate_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            path.touch(mode=0o600)
        connection = _connection(path, patience)
        with _closed_on_error(connection):
            _prepare_with_retry(connection, path, migrations, time.monotonic() + patience)
            connection.execute(f"pragma synchronous = {'full' if durability == 'power' else 'normal'}")
        return connection


def _prepare_with_retry(
    connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration], deadline: float
) -> None:
    """If several processes create a store at once, SQLite rejects all but one immediately."""
    while True:
        try:
            return prepare(connection, path, migrations)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def connect_again(path: Path) -> sqlite3.Connection:
    """Another connection to a store that `connect` has prepared."""
    with translate_errors(path):
        return _connection(path, PATIENCE)


def _connection(path: Path, patience: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=patience)
    with _closed_on_error(connection):
        connection.execute("pragma cache_size = -1024")
        connection.execute("pragma wal_autocheckpoint = 0")
    return connection


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise
