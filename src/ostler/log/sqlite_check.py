"""Looking whether a SQLite store is sound: its sessions, and what it keeps of them beside the facts.

Everything is read in one transaction, so what other processes write meanwhile is not seen half.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from ostler.kernel.store import SessionSummary
from ostler.log.invariants import broken
from ostler.log.named_blobs import outputs_named_by
from ostler.log.session_invariants import facts_can_be_read
from ostler.log.sqlite_connection import connect_again
from ostler.log.sqlite_errors import in_our_words
from ostler.log.sqlite_rows import SUMMARY_COLUMNS, fact_of, replaced_values, tail_of
from ostler.log.sqlite_search import SEARCHED, words_in
from ostler.log.summaries import new_summary, summarised
from ostler.log.tree_invariants import TOLD_OF_TREES, broken_tree
from ostler.vocabulary import events
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.governance import is_opening
from ostler.vocabulary.messages import BlobRef

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
    with in_our_words(path), closing(connect_again(path)) as db:
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
    for violation in broken_tree(readable):
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
    found = list(broken(facts, at_rest=at_rest))
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
    expected = summarised(new_summary(facts[0]), facts[1:])
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
