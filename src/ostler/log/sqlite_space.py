"""Room in the SQLite file: output that no fact names, and what deleted sessions have left."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from ostler.kernel.journal import World
from ostler.kernel.processes import ProcessId
from ostler.kernel.store import Lease
from ostler.log.leasing import living_holder
from ostler.log.named_blobs import blobs_named_by
from ostler.log.sqlite_connection import connect, connect_again
from ostler.log.sqlite_errors import in_our_words
from ostler.log.sqlite_rows import fact_of

SMALL = 256 * 1024 * 1024
"""A file that is written anew within a second or two: those who want to write meanwhile are patient."""

_RESULTS = (
    "select seq, type, parent, run, time, origin, body from facts"
    " where session = ? and type = 'tool_result' order by seq"
)


class Unnamed(msgspec.Struct, frozen=True):
    """Output that no fact names, and that none will: its run has ended."""

    session: str
    blob: str
    size: int


def unnamed_output(path: Path, world: World) -> list[Unnamed]:
    with in_our_words(path), closing(connect_again(path)) as db:
        return [one for key, _ in _sessions_with_output(db) for _, one in _unnamed_in(db, key, world)]


def collect_output(path: Path, world: World) -> list[Unnamed]:
    """Deletes output that no fact names; returns what it was."""
    collected: list[Unnamed] = []
    with in_our_words(path), closing(connect(path)) as db:
        for key, _ in _sessions_with_output(db):
            db.execute("begin immediate")
            try:
                found = _unnamed_in(db, key, world)
                for blob, _ in found:
                    db.execute("delete from blob_parts where blob = ?", (blob,))
                    db.execute("delete from blobs where key = ?", (blob,))
                db.execute("commit")
            except BaseException:
                if db.in_transaction:
                    db.execute("rollback")
                raise
            collected += [one for _, one in found]
    return collected


def _sessions_with_output(db: sqlite3.Connection) -> list[tuple[int, str]]:
    return db.execute("select key, id from sessions where key in (select session from blobs)").fetchall()


def _unnamed_in(db: sqlite3.Connection, key: int, world: World) -> list[tuple[int, Unnamed]]:
    """None of a session that is held, or whose run is open: that one may still name it."""
    row = db.execute(
        "select id, status, owner, generation, expires from sessions where key = ?", (key,)
    ).fetchone()
    if row is None or row[1] in ("running", "waiting") or _is_held(world, row[0], *row[2:]):
        return []
    named = blobs_named_by(fact_of(row[0], one) for one in db.execute(_RESULTS, (key,)).fetchall())
    blobs = db.execute("select key, id, size from blobs where session = ?", (key,)).fetchall()
    return [(blob, Unnamed(row[0], name, size)) for blob, name, size in blobs if name not in named]


def _is_held(world: World, session: str, owner: bytes | None, generation: int, expires: int) -> bool:
    if owner is None:
        return False
    held = Lease(session, generation, msgspec.json.decode(owner, type=ProcessId), expires)
    return living_holder(held, world.now_ms()) is not None


def shrink(path: Path, world: World) -> int | None:
    """Writes the file anew without the room that nobody uses; returns how much smaller it is.

    None, and nothing done, when a large file is in use: whoever works there would have to wait too long.
    """
    with in_our_words(path), closing(connect(path)) as db:
        if not db.execute("pragma freelist_count").fetchone()[0]:
            return 0
        db.execute("pragma wal_checkpoint(truncate)")
        before = path.stat().st_size
        if before > SMALL and _is_in_use(db, world):
            return None
        db.execute("vacuum")
        db.execute("pragma wal_checkpoint(truncate)")
        return max(0, before - path.stat().st_size)


def _is_in_use(db: sqlite3.Connection, world: World) -> bool:
    held = db.execute(
        "select id, owner, generation, expires from sessions where owner is not null"
    ).fetchall()
    return any(_is_held(world, *row) for row in held)
