"""Looking whether a SQLite store is sound: its sessions, and what it keeps of them beside the facts.

Everything is read in one transaction, so what other processes write meanwhile is not seen half.
"""
# MERGED: Putting right what a SQLite store keeps beside the facts. The facts are never touched.
# MERGED: Every change is a transaction of its own that reads the facts it follows from, so other processes
# MERGED: may go on working meanwhile.
# MERGED: Room in the SQLite file: output that no fact names, and what deleted sessions have left.

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ostler.core.journal import World
from ostler.core.processes import ProcessId
from ostler.core.store import Lease, SessionSummary
from ostler.schema import events
from ostler.schema.errors import StoreError
from ostler.schema.facts import Fact
from ostler.schema.messages import BlobRef
from ostler.schema.visibility import is_opening
from ostler.store.invariants import (
    TOLD_OF_TREES,
    broken_invariants,
    broken_tree_invariants,
    facts_can_be_read,
)
from ostler.store.rules import blobs_named_by, living_holder, new_summary, outputs_named_by, updated_summary
from ostler.store.sqlite_connection import SCHEMA, connect, connect_again, copy_store, translate_errors
from ostler.store.sqlite_rows import (
    SEARCHED,
    SUMMARY_COLUMNS,
    fact_of,
    insert_row,
    is_index_stale,
    replaced_values,
    tail_of,
    update_index,
    words_in,
)

STORE_INVARIANTS = {
    "S1": "SQLite finds its own file sound.",
    "S2": "The row of a session in the list says what its facts add up to.",
    "S3": "Opening a session reads the facts that it needs.",
    "S4": "The search index holds the messages of the log, as far as it says it goes.",
    "S5": "The output that a result names is kept, as long as it was.",
    "S6": "Everything that is kept belongs to a session.",
}
"""What must hold for a store beside the invariants of each log. The numbers stay for ever."""


MENDABLE = frozenset({"S1", "S2", "S3", "S4", "S6"})
"""What `repair` sets about: S1 is put right where only an index is damaged."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What contradicts the invariant of that number."""

    number: str
    problem: str
    session: str = ""
    """None, when the whole file is meant."""

    def __str__(self) -> str:
        return f"{self.session or 'the store'}: {self.number}: {self.problem}"


def check(path: Path, sessions: Sequence[str] | None = None) -> list[Problem]:
    """What is wrong with these sessions; without any, with all of them and with the file."""
    with translate_errors(path), closing(connect_again(path)) as db:
        if sessions is None:
            problems = list(_search_problems(db))
            return problems + _checked(db, None, has_index=not problems)
        return _checked(db, sessions, has_index=True)


def _checked(db: sqlite3.Connection, sessions: Sequence[str] | None, *, has_index: bool) -> list[Problem]:
    db.execute("begin")
    index = _index(db) if has_index else None
    if sessions is not None:
        problems = [problem for one in sessions for problem in _found(_session_problems(db, one, index), one)]
        return [*problems, *_found(_tree_problems(db, sessions))]
    known = [id for (id,) in db.execute("select id from sessions order by id")]
    problems = [*_found(_file_problems(db)), *_found(_orphans(db))]
    problems += [problem for one in known for problem in _found(_session_problems(db, one, index), one)]
    problems += _found(_tree_problems(db, known))
    astray = sorted((index or {}).keys() - set(known))
    return problems + [Problem("S4", f"the search index knows {one}, which is gone") for one in astray]


def _found(problems: Iterator[Problem], session: str = "") -> Iterator[Problem]:
    """Those problems, and the damage that kept us from looking for more."""
    try:
        yield from problems
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        yield Problem("S1", f"a part cannot be read: {error}", session)


def _file_problems(db: sqlite3.Connection) -> Iterator[Problem]:
    for (found,) in db.execute("pragma integrity_check(20)").fetchall():
        if found != "ok":
            yield Problem("S1", " ".join(str(found).split()))


def _search_problems(db: sqlite3.Connection) -> Iterator[Problem]:
    try:
        # SQLite asks for the right to write before it looks at its index of words. It writes nothing.
        db.execute("insert into messages (messages) values ('integrity-check')")
        db.execute("select count(*) from messages where session = ''").fetchone()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        yield Problem("S4", f"the search index is damaged: {error}")


def is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def _orphans(db: sqlite3.Connection) -> Iterator[Problem]:
    """Rows whose session, or whose blob, does not exist."""
    for table in ("facts", "inbox", "processes", "blobs"):
        gone = f"select session from {table} where session not in (select key from sessions)"
        (count,) = db.execute(f"select count(*) from ({gone})").fetchone()
        if count:
            yield Problem("S6", f"{count} rows of {table} belong to no session")
    gone = "select blob from blob_parts where blob not in (select key from blobs)"
    (count,) = db.execute(f"select count(*) from ({gone})").fetchone()
    if count:
        yield Problem("S6", f"{count} pieces of output belong to none")


# --- parents and children ---------------------------------------------------------------------------


def _tree_problems(db: sqlite3.Connection, sessions: Sequence[str]) -> Iterator[Problem]:
    """Between these sessions and all below them. Of those above only the parents' logs are looked at."""
    rows = "select id, key, child_of from sessions"
    keys, parents = {}, {}
    for session, key, parent in db.execute(rows).fetchall():
        keys[session], parents[session] = key, parent
    below = set(sessions)
    while added := {one for one, parent in parents.items() if parent in below} - below:
        below |= added
    related = {one for child in below if (parent := parents.get(child)) for one in (child, parent)}
    logs = {one: _tree_facts(db, one, keys[one]) for one in sorted(related & keys.keys())}
    readable = {one: facts for one, facts in logs.items() if not any(facts_can_be_read(facts))}
    for violation in broken_tree_invariants(readable):
        if violation.session in below:
            yield Problem(violation.number, violation.problem, violation.session)


def _tree_facts(db: sqlite3.Connection, session: str, key: int) -> list[Fact]:
    rows = db.execute(
        "select seq, type, parent, run, time, origin, body from facts where session = ?"
        f" and type in ({', '.join('?' * len(TOLD_OF_TREES))}) order by seq",
        (key, *TOLD_OF_TREES),
    )
    return [fact_of(session, row) for row in rows.fetchall()]


# --- one session ------------------------------------------------------------------------------------

Index = dict[str, dict[int, str]]
"""What the search index holds: of each session the words of its messages by their number."""


def _index(db: sqlite3.Connection) -> Index:
    found: Index = {}
    for session, seq, words in db.execute("select session, seq, words from messages"):
        known = found.setdefault(session, {})
        known[seq] = f"{known[seq]}\n{words}" if seq in known else words  # one is one too many
    return found


def _session_problems(db: sqlite3.Connection, session: str, index: Index | None) -> Iterator[Problem]:
    """`index` is None when nothing can be said of it."""
    row = db.execute(
        f"select {SUMMARY_COLUMNS}, key, tail_seq, indexed_seq from sessions where id = ?", (session,)
    ).fetchone()
    if row is None:
        return  # deleted a moment ago
    *columns, key, tail, indexed = row
    summary = SessionSummary(*columns)
    rows = db.execute(
        "select seq, type, parent, run, time, origin, body, opening from facts where session = ?"
        " order by seq",
        (key,),
    ).fetchall()
    facts = [fact_of(session, one[:-1]) for one in rows]
    asked = "select 1 from inbox where session = ? and settled is null limit 1"
    at_rest = not _is_driven(facts) and not _is_asked(facts) and db.execute(asked, (key,)).fetchone() is None
    found = list(broken_invariants(facts, at_rest=at_rest))
    for violation in found:
        yield Problem(violation.number, violation.problem, session)
    if any(violation.number in ("L1", "L2") for violation in found):
        return  # nothing can be made of such facts that the rest could be compared with
    yield from _of_row(summary, facts)
    yield from _of_opening(session, facts, tail, [bool(one[-1]) for one in rows])
    if index is not None:
        yield from _of_index(session, facts, indexed, index.get(session, {}))
    yield from _of_outputs(db, session, key, facts)


def _is_driven(facts: Sequence[Fact]) -> bool:
    """Whether a run is under way, or was cut: whoever drives it on brings it to rest."""
    bounds = ("run_started", "run_waiting", "run_resumed", "run_ended")
    last = next((fact.type for fact in reversed(facts) if fact.type in bounds), "")
    return last in ("run_started", "run_resumed")


def _is_asked(facts: Sequence[Fact]) -> bool:
    """Whether an extension's question is open: whoever asked it answers or withdraws it."""
    asked: set[str] = set()
    for fact in facts:
        if fact.type not in ("question_asked", "question_answered"):
            continue
        match fact.event:
            case events.QuestionAsked(id=question, asked_by="extension"):
                asked.add(question)
            case events.QuestionAnswered(id=question):
                asked.discard(question)
    return bool(asked)


def _of_row(summary: SessionSummary, facts: Sequence[Fact]) -> Iterator[Problem]:
    expected = updated_summary(new_summary(facts[0]), facts[1:])
    for name in SessionSummary.__struct_fields__:
        said, meant = getattr(summary, name), getattr(expected, name)
        if said != meant:
            yield Problem("S2", f"the list has {name} {said!r}, but its facts say {meant!r}", summary.id)


def _of_opening(session: str, facts: Sequence[Fact], tail: int, marks: Sequence[bool]) -> Iterator[Problem]:
    if tail != tail_of(facts, default=1):
        text = f"opening reads all facts from {tail} on, instead of from {tail_of(facts, default=1)}"
        yield Problem("S3", text, session)
    replaced = replaced_values(facts)
    wrong = [
        fact.seq
        for fact, mark in zip(facts, marks, strict=True)
        if mark != is_opening(fact.type, fact.run) and (mark or fact.seq not in replaced)
    ]
    if wrong:
        yield Problem("S3", f"{len(wrong)} facts are marked wrongly for opening, first {wrong[0]}", session)


def _of_index(session: str, facts: Sequence[Fact], indexed: int, found: dict[int, str]) -> Iterator[Problem]:
    messages = [fact for fact in facts if fact.seq <= indexed and fact.type in SEARCHED]
    expected = {fact.seq: words for fact in messages if (words := words_in(fact.body)) is not None}
    if indexed > facts[-1].seq:
        yield Problem("S4", f"the search index goes to {indexed}, but the log to {facts[-1].seq}", session)
    if found != expected:
        differing = {seq for seq, _ in found.items() ^ expected.items()}
        text = f"the search index is wrong about {len(differing)} messages, first {min(differing)}"
        yield Problem("S4", text, session)


def _of_outputs(db: sqlite3.Connection, session: str, key: int, facts: Sequence[Fact]) -> Iterator[Problem]:
    for named in outputs_named_by(facts):
        if problem := _output_problem(db, key, named):
            yield Problem("S5", problem, session)


def _output_problem(db: sqlite3.Connection, key: int, named: BlobRef) -> str:
    row: tuple[Any, ...] | None = db.execute(
        "select key, size from blobs where session = ? and id = ?", (key, named.id)
    ).fetchone()
    if row is None:
        return f"the output {named.id} is lost"
    blob, size = row
    if size < named.size:
        return f"the output {named.id} has {size} of {named.size} bytes"
    end = 0
    parts = "select start, length(data) from blob_parts where blob = ? order by start"
    for start, length in db.execute(parts, (blob,)).fetchall():
        if start != end:
            break
        end += length
    return "" if end == size else f"the output {named.id} has a hole at byte {end} of {size}"


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
    with translate_errors(path):
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
    summary = updated_summary(new_summary(facts[0]), facts[1:])
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
    with translate_errors(path), closing(connect_again(path)) as db:
        return [one for key, _ in _sessions_with_output(db) for _, one in _unnamed_in(db, key, world)]


def collect_output(path: Path, world: World) -> list[Unnamed]:
    """Deletes output that no fact names; returns what it was."""
    collected: list[Unnamed] = []
    with translate_errors(path), closing(connect(path)) as db:
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
    with translate_errors(path), closing(connect(path)) as db:
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
