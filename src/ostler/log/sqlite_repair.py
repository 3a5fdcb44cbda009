"""Putting right what a SQLite store keeps beside the facts. The facts are never touched.

Every change is a transaction of its own that reads the facts it follows from, so other processes may go on
working meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ostler.kernel.journal import World
from ostler.kernel.store import SessionSummary
from ostler.log.sqlite_check import MENDABLE, Problem, check, is_damage
from ostler.log.sqlite_connection import connect
from ostler.log.sqlite_errors import in_our_words
from ostler.log.sqlite_rows import fact_of, insert_row, tail_of
from ostler.log.sqlite_schema import SCHEMA, copy_store
from ostler.log.sqlite_search import is_index_stale, update_index
from ostler.log.summaries import new_summary, summarised
from ostler.vocabulary.errors import StoreError
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.governance import is_opening

_FACTS = "select seq, type, parent, run, time, origin, body from facts where session = ? order by seq"
_SEARCH_TABLE = SCHEMA[SCHEMA.index("create virtual table messages") :].rstrip(";\n")
_BELONGING = ("inbox", "processes", "blobs")


class Repair(msgspec.Struct, frozen=True):
    """What a repair did."""

    mended: tuple[Problem, ...]
    left: tuple[Problem, ...]
    """What is still wrong: it cannot be put right from the facts."""
    copy: Path | None = None
    """The store as it was before; None when nothing was changed."""


def repair(path: Path, world: World) -> Repair:
    """Mends what can be mended without losing a fact, after a copy of the whole file."""
    before = check(path)
    numbers = {problem.number for problem in before}
    if not numbers & MENDABLE:
        return Repair((), tuple(before))
    moment = datetime.fromtimestamp(world.now_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    copy = path.with_name(f"{path.name}.before-repair-{moment}")
    with in_our_words(path):
        copy_store(path, copy)
        with closing(connect(path)) as db:
            _mend(db, before, numbers, world)
    after = check(path)
    left = set(after)
    return Repair(tuple(problem for problem in before if problem not in left), tuple(after), copy)


def _mend(db: sqlite3.Connection, problems: list[Problem], numbers: set[str], world: World) -> None:
    if "S1" in numbers:
        _in_transaction(db, lambda: db.execute("reindex"))
    if "S6" in numbers:
        _in_transaction(db, lambda: _take_in_orphans(db, world))
    for session in {problem.session for problem in problems if problem.number in ("S2", "S3")}:
        _in_transaction(db, lambda session=session: _renew_row(db, session))  # type: ignore[misc]
    if numbers & {"S4", "S6"}:
        _in_transaction(db, lambda: _empty_index(db))
        while is_index_stale(db):
            _in_transaction(db, lambda: update_index(db))


def _in_transaction(db: sqlite3.Connection, work: Callable[[], object]) -> None:
    """What meets damage changes nothing; the check that follows reports the damage."""
    db.execute("begin immediate")
    try:
        work()
        db.execute("commit")
    except BaseException as error:
        if db.in_transaction:
            db.execute("rollback")
        if not (isinstance(error, sqlite3.DatabaseError) and is_damage(error)):
            raise


def _renew_row(db: sqlite3.Connection, session: str) -> None:
    row = db.execute("select key from sessions where id = ?", (session,)).fetchone()
    if row is None:
        return  # deleted meanwhile
    facts = [fact_of(session, one) for one in db.execute(_FACTS, row).fetchall()]
    summary = summarised(new_summary(facts[0]), facts[1:])
    columns = {"created": summary.created_ms, "updated": summary.updated_ms, "tail_seq": tail_of(facts, 1)}
    for name in SessionSummary.__struct_fields__:
        if not name.endswith("_ms"):
            columns[name] = getattr(summary, name)
    names = ", ".join(f"{name} = ?" for name in columns)
    db.execute(f"update sessions set {names} where key = ?", (*columns.values(), *row))
    db.executemany(
        "update facts set opening = :opening where session = :key and seq = :seq and opening <> :opening",
        [{"opening": is_opening(fact.type, fact.run), "key": row[0], "seq": fact.seq} for fact in facts],
    )


def _take_in_orphans(db: sqlite3.Connection, world: World) -> None:
    """Facts whose session has lost its row get a new one, under a new id; what has no facts is deleted."""
    lost = "select distinct session from facts where session not in (select key from sessions)"
    for (key,) in db.execute(lost).fetchall():
        session = world.new_id("ses")
        facts: list[Fact] = [fact_of(session, row) for row in db.execute(_FACTS, (key,)).fetchall()]
        try:
            insert_row(db, facts, None, key)
        except StoreError:
            continue  # without a beginning they are no session: they stay as they are, and are reported
    for table in _BELONGING:
        db.execute(
            f"delete from {table} where session not in (select key from sessions)"
            " and session not in (select session from facts)"
        )
    db.execute("delete from blob_parts where blob not in (select key from blobs)")


def _empty_index(db: sqlite3.Connection) -> None:
    db.execute("drop table messages")
    db.execute(_SEARCH_TABLE)
    db.execute("update sessions set indexed_seq = 0")
