"""Maintenance of a SQLite store: check it, repair what is derived from the facts, and free space.

A check reads everything in one transaction. A repair never changes facts, and each of its changes is a
transaction that reads the facts it depends on, so other processes can go on working.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ostler.core.journal import World
from ostler.core.processes import ProcessId
from ostler.core.store import Lease, SessionSummary
from ostler.schema.errors import StoreError
from ostler.schema.facts import Fact
from ostler.schema.messages import BlobRef
from ostler.schema.visibility import is_opening
from ostler.store.invariants import broken_invariants, broken_tree_invariants, facts_can_be_read, is_at_rest
from ostler.store.rules import blobs_named_by, living_holder, outputs_named_by, summary_of, tail_of
from ostler.store.sqlite_connection import (
    SCHEMA,
    Transaction,
    connect,
    connect_again,
    copy_store,
    translate_errors,
)
from ostler.store.sqlite_rows import (
    SEARCHED,
    SELECT_FACTS,
    SUMMARY_COLUMNS,
    fact_of,
    insert_row,
    is_index_stale,
    replaced_values,
    update_index,
    words_in,
)
from ostler.store.tree_invariants import TREE_FACTS

STORE_INVARIANTS = {
    "S1": "SQLite's integrity check passes.",
    "S2": "The row of a session in the list agrees with its facts.",
    "S3": "Opening a session reads the facts that it needs.",
    "S4": "The search index contains the messages of the log, up to the fact it was built to.",
    "S5": "The output that a result names is stored in full.",
    "S6": "Everything stored belongs to a session.",
}
"""What must hold for a store, in addition to the invariants of each log. The numbers never change."""

MENDABLE = frozenset({"S1", "S2", "S3", "S4", "S6"})
"""What `repair` can fix; S1 only if an index is damaged."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What contradicts the invariant of that number."""

    number: str
    problem: str
    session: str = ""
    """Empty if it is about the whole file."""

    def __str__(self) -> str:
        return f"{self.session or 'the store'}: {self.number}: {self.problem}"


def check(path: Path, sessions: Sequence[str] | None = None) -> list[Problem]:
    """Checks these sessions; without any, all of them and the file."""
    with translate_errors(path), closing(connect_again(path)) as db:
        problems = list(_search_problems(db)) if sessions is None else []
        db.execute("begin")
        index = None if problems else _index(db)
        if sessions is not None:
            return list(_problems_of(db, sessions, index))
        ids = [id for (id,) in db.execute("select id from sessions order by id")]
        problems += [*_readable(_file_problems(db)), *_readable(_orphans(db)), *_problems_of(db, ids, index)]
        deleted = sorted((index or {}).keys() - set(ids))
        return problems + [Problem("S4", f"the search index has {id}, which is deleted") for id in deleted]


def _problems_of(db: sqlite3.Connection, sessions: Sequence[str], index: Index | None) -> Iterator[Problem]:
    for session in sessions:
        yield from _readable(_session_problems(db, session, index), session)
    yield from _readable(_tree_problems(db, sessions))


def _readable(problems: Iterator[Problem], session: str = "") -> Iterator[Problem]:
    """The problems, and the damage that stopped the check."""
    try:
        yield from problems
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        yield Problem("S1", f"a part cannot be read: {error}", session)


def _file_problems(db: sqlite3.Connection) -> Iterator[Problem]:
    for (message,) in db.execute("pragma integrity_check(20)").fetchall():
        if message != "ok":
            yield Problem("S1", " ".join(str(message).split()))


def _search_problems(db: sqlite3.Connection) -> Iterator[Problem]:
    try:
        # SQLite requires write access to check its full-text index, but writes nothing.
        db.execute("insert into messages (messages) values ('integrity-check')")
        db.execute("select count(*) from messages where session = ''").fetchone()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        yield Problem("S4", f"the search index is damaged: {error}")


def is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def _orphans(db: sqlite3.Connection) -> Iterator[Problem]:
    """Rows whose session or blob does not exist."""
    for table in ("facts", "inbox", "processes", "blobs"):
        count = f"select count(*) from {table} where session not in (select key from sessions)"
        if rows := db.execute(count).fetchone()[0]:
            yield Problem("S6", f"{rows} rows of {table} belong to no session")
    count = "select count(*) from blob_parts where blob not in (select key from blobs)"
    if rows := db.execute(count).fetchone()[0]:
        yield Problem("S6", f"{rows} pieces of output belong to none")


# --- parents and children ---------------------------------------------------------------------------


def _tree_problems(db: sqlite3.Connection, sessions: Sequence[str]) -> Iterator[Problem]:
    """Between these sessions and all below them; of those above, only the parents' logs are read."""
    keys, parents = {}, {}
    for session, key, parent in db.execute("select id, key, child_of from sessions").fetchall():
        keys[session], parents[session] = key, parent
    below = set(sessions)
    while added := {session for session, parent in parents.items() if parent in below} - below:
        below |= added
    related = {session for child in below if (parent := parents.get(child)) for session in (child, parent)}
    present = sorted(related & keys.keys())
    logs = {session: _facts_of(db, session, keys[session], *TREE_FACTS) for session in present}
    readable = {session: facts for session, facts in logs.items() if not any(facts_can_be_read(facts))}
    for violation in broken_tree_invariants(readable):
        if violation.session in below:
            yield Problem(violation.number, violation.problem, violation.session)


def _facts_of(db: sqlite3.Connection, session: str, key: int, *types: str) -> list[Fact]:
    """The facts of a session, or those of these types."""
    where = f"session = ? and type in ({', '.join('?' * len(types))})" if types else "session = ?"
    rows = db.execute(f"{SELECT_FACTS} where {where} order by seq", (key, *types))
    return [fact_of(session, row) for row in rows.fetchall()]


# --- one session ------------------------------------------------------------------------------------

Index = dict[str, dict[int, str]]
"""The content of the search index: for each session the words of its messages by their number."""


def _index(db: sqlite3.Connection) -> Index:
    index: Index = {}
    for session, seq, words in db.execute("select session, seq, words from messages"):
        messages = index.setdefault(session, {})
        messages[seq] = f"{messages[seq]}\n{words}" if seq in messages else words  # a duplicate is an error
    return index


def _session_problems(db: sqlite3.Connection, session: str, index: Index | None) -> Iterator[Problem]:
    """`index` is None if it is damaged."""
    row = db.execute(
        f"select {SUMMARY_COLUMNS}, key, tail_seq, indexed_seq from sessions where id = ?", (session,)
    ).fetchone()
    if row is None:
        return  # deleted a moment ago
    *columns, key, tail, indexed = row
    facts = _facts_of(db, session, key)
    opening = db.execute("select opening from facts where session = ? order by seq", (key,)).fetchall()
    pending = "select 1 from inbox where session = ? and settled is null limit 1"
    at_rest = is_at_rest(facts) and db.execute(pending, (key,)).fetchone() is None
    violations = list(broken_invariants(facts, at_rest=at_rest))
    for violation in violations:
        yield Problem(violation.number, violation.problem, session)
    if any(violation.number in ("L1", "L2") for violation in violations):
        return  # there is nothing to compare the other rows with
    for number, problems in (
        ("S2", _row_problems(SessionSummary(*columns), facts)),
        ("S3", _opening_problems(facts, tail, opening)),
        ("S4", () if index is None else _index_problems(facts, indexed, index.get(session, {}))),
        ("S5", _output_problems(db, key, outputs_named_by(facts))),
    ):
        yield from (Problem(number, problem, session) for problem in problems)


def _row_problems(summary: SessionSummary, facts: Sequence[Fact]) -> Iterator[str]:
    expected = summary_of(facts)
    for name in SessionSummary.__struct_fields__:
        value, right = getattr(summary, name), getattr(expected, name)
        if value != right:
            yield f"the list has {name} {value!r}, but its facts say {right!r}"


def _opening_problems(facts: Sequence[Fact], tail: int, marks: Sequence[tuple[int]]) -> Iterator[str]:
    if tail != tail_of(facts):
        yield f"opening reads all facts from {tail} on, instead of from {tail_of(facts)}"
    replaced = replaced_values(facts)
    wrong = [
        fact.seq
        for fact, (mark,) in zip(facts, marks, strict=True)
        if bool(mark) != is_opening(fact.type, fact.run) and (mark or fact.seq not in replaced)
    ]
    if wrong:
        yield f"{len(wrong)} facts are marked wrongly for opening, first {wrong[0]}"


def _index_problems(facts: Sequence[Fact], indexed: int, messages: dict[int, str]) -> Iterator[str]:
    searched = [fact for fact in facts if fact.seq <= indexed and fact.type in SEARCHED]
    expected = {fact.seq: words for fact in searched if (words := words_in(fact.body)) is not None}
    if indexed > facts[-1].seq:
        yield f"the search index goes to {indexed}, but the log to {facts[-1].seq}"
    if messages != expected:
        wrong = {seq for seq, _ in messages.items() ^ expected.items()}
        yield f"the search index is wrong about {len(wrong)} messages, first {min(wrong)}"


def _output_problems(db: sqlite3.Connection, key: int, outputs: Iterator[BlobRef]) -> Iterator[str]:
    query = "select key, size from blobs where session = ? and id = ?"
    parts = "select start, length(data) from blob_parts where blob = ? order by start"
    for output in outputs:
        blob, size = db.execute(query, (key, output.id)).fetchone() or (None, 0)
        end = 0
        for start, length in db.execute(parts, (blob,)).fetchall():
            if start != end:
                break
            end += length
        if blob is None:
            yield f"the output {output.id} is lost"
        elif size < output.size:
            yield f"the output {output.id} has {size} of {output.size} bytes"
        elif end != size:
            yield f"the output {output.id} has a hole at byte {end} of {size}"


class Repair(msgspec.Struct, frozen=True):
    """The result of a repair."""

    mended: tuple[Problem, ...]
    left: tuple[Problem, ...]
    """Problems that cannot be fixed from the facts."""
    copy: Path | None = None
    """The store before the repair; None if nothing was changed."""


def repair(path: Path, world: World) -> Repair:
    """Copies the file, and fixes what can be fixed without losing a fact."""
    before = check(path)
    numbers = {problem.number for problem in before}
    if not numbers & MENDABLE:
        return Repair((), tuple(before))
    moment = datetime.fromtimestamp(world.now_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    copy = path.with_name(f"{path.name}.before-repair-{moment}")
    with translate_errors(path):
        copy_store(path, copy)
        with closing(connect(path)) as db:
            _mend(db, before, numbers, world)
    after = check(path)
    return Repair(tuple(problem for problem in before if problem not in after), tuple(after), copy)


def _mend(db: sqlite3.Connection, problems: list[Problem], numbers: set[str], world: World) -> None:
    if "S1" in numbers:
        with _repair_step(db):
            db.execute("reindex")
    if "S6" in numbers:
        with _repair_step(db):
            _adopt_orphans(db, world)
    for session in {problem.session for problem in problems if problem.number in ("S2", "S3")}:
        with _repair_step(db):
            _rebuild_row(db, session)
    if numbers & {"S4", "S6"}:
        with _repair_step(db):
            db.execute("drop table messages")
            db.execute(SCHEMA[SCHEMA.index("create virtual table messages") :].rstrip(";\n"))
            db.execute("update sessions set indexed_seq = 0")
        while is_index_stale(db):
            with _repair_step(db):
                update_index(db)


@contextmanager
def _repair_step(db: sqlite3.Connection) -> Iterator[None]:
    """A transaction that changes nothing where the file is damaged; the check after the repair reports it."""
    try:
        with Transaction(db):
            yield
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise


def _rebuild_row(db: sqlite3.Connection, session: str) -> None:
    row = db.execute("select key from sessions where id = ?", (session,)).fetchone()
    if row is None:
        return  # deleted meanwhile
    facts = _facts_of(db, session, *row)
    summary = summary_of(facts)
    columns = {"created": summary.created_ms, "updated": summary.updated_ms, "tail_seq": tail_of(facts)}
    for name in SessionSummary.__struct_fields__:
        if not name.endswith("_ms"):
            columns[name] = getattr(summary, name)
    names = ", ".join(f"{name} = ?" for name in columns)
    db.execute(f"update sessions set {names} where key = ?", (*columns.values(), *row))
    db.executemany(
        "update facts set opening = :opening where session = :key and seq = :seq and opening <> :opening",
        [{"opening": is_opening(fact.type, fact.run), "key": row[0], "seq": fact.seq} for fact in facts],
    )


def _adopt_orphans(db: sqlite3.Connection, world: World) -> None:
    """Facts without a session get a new one, under a new id; rows without facts are deleted."""
    lost = "select distinct session from facts where session not in (select key from sessions)"
    for (key,) in db.execute(lost).fetchall():
        try:
            insert_row(db, _facts_of(db, world.new_id("ses"), key), None, key)
        except StoreError:
            continue  # they do not begin with session_started: they stay, and are reported
    for table in ("inbox", "processes", "blobs"):
        db.execute(
            f"delete from {table} where session not in (select key from sessions)"
            " and session not in (select session from facts)"
        )
    db.execute("delete from blob_parts where blob not in (select key from blobs)")


SMALL = 256 * 1024 * 1024
"""Bytes of a file that is rewritten within two seconds: other writers wait that long."""


class Unnamed(msgspec.Struct, frozen=True):
    """Output that no fact names; its run has ended, so none will."""

    session: str
    blob: str
    size: int


def unnamed_output(path: Path, world: World) -> list[Unnamed]:
    with translate_errors(path), closing(connect_again(path)) as db:
        return [output for key in _sessions_with_output(db) for _, output in _unnamed_in(db, key, world)]


def collect_output(path: Path, world: World) -> list[Unnamed]:
    """Deletes output that no fact names, and returns it."""
    collected: list[Unnamed] = []
    with translate_errors(path), closing(connect(path)) as db:
        for key in _sessions_with_output(db):
            with Transaction(db):
                unnamed = _unnamed_in(db, key, world)
                for blob, _ in unnamed:
                    db.execute("delete from blob_parts where blob = ?", (blob,))
                    db.execute("delete from blobs where key = ?", (blob,))
            collected += [output for _, output in unnamed]
    return collected


def _sessions_with_output(db: sqlite3.Connection) -> list[int]:
    rows = db.execute("select key from sessions where key in (select session from blobs)").fetchall()
    return [key for (key,) in rows]


def _unnamed_in(db: sqlite3.Connection, key: int, world: World) -> list[tuple[int, Unnamed]]:
    """Empty for a session that is held or whose run is open, because that run may still name it."""
    query = "select status, id, owner, generation, expires from sessions where key = ?"
    status, *lease = db.execute(query, (key,)).fetchone() or ("running",)
    if status in ("running", "waiting") or _is_held(world, *lease):
        return []
    named = blobs_named_by(_facts_of(db, lease[0], key, "tool_result"))
    blobs = db.execute("select key, id, size from blobs where session = ?", (key,)).fetchall()
    return [(blob, Unnamed(lease[0], name, size)) for blob, name, size in blobs if name not in named]


def _is_held(world: World, session: str, owner: bytes | None, generation: int, expires: int) -> bool:
    if owner is None:
        return False
    lease = Lease(session, generation, msgspec.json.decode(owner, type=ProcessId), expires)
    return living_holder(lease, world.now_ms()) is not None


def shrink(path: Path, world: World) -> int | None:
    """Rewrites the file without unused pages; returns how many bytes that saves.

    Does nothing and returns None if a large file is in use: other processes would wait too long.
    """
    with translate_errors(path), closing(connect(path)) as db:
        if not db.execute("pragma freelist_count").fetchone()[0]:
            return 0
        db.execute("pragma wal_checkpoint(truncate)")
        before = path.stat().st_size
        leases = "select id, owner, generation, expires from sessions where owner is not null"
        if before > SMALL and any(_is_held(world, *row) for row in db.execute(leases).fetchall()):
            return None
        db.execute("vacuum")
        db.execute("pragma wal_checkpoint(truncate)")
        return max(0, before - path.stat().st_size)
