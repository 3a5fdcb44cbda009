"""Rows of the SQLite store inside a transaction, and its search index.

The index is updated by a search, so that appends stay fast; it can always be rebuilt from the log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ostler.core.store import BlobPart, Hit, Lease, SessionSummary
from ostler.schema.errors import StoreError
from ostler.schema.events import EVENT_TYPES, AssistantMessage, ExtensionState, UserMessage
from ostler.schema.facts import Fact, decode_event
from ostler.schema.messages import text_of
from ostler.schema.visibility import is_opening, opens_with
from ostler.store.rules import excerpt, summary_of, tail_of, updated_summary, words_of

SUMMARY_COLUMNS = "id, cwd, created, updated, last_seq, title, preview, status, driver, forked_from, child_of"
"""In the order of `SessionSummary`'s fields."""

SELECT_FACTS = "select seq, type, parent, run, time, origin, body from facts"
"""Rows for `fact_of`."""

_OPENING: dict[str, bool] = {tag: opens_with(event) for tag, event in EVENT_TYPES.items()}


def insert_session(db: sqlite3.Connection, facts: Sequence[Fact], lease: Lease | None) -> int:
    """Inserts a whole session; returns its key."""
    key = insert_row(db, facts, lease)
    insert_facts(db, key, facts)
    return key


def insert_row(
    db: sqlite3.Connection, facts: Sequence[Fact], lease: Lease | None, key: int | None = None
) -> int:
    """Inserts the row of a session with these facts; returns its key."""
    summary = summary_of(facts)
    if db.execute("select 1 from sessions where id = ?", (summary.id,)).fetchone():
        raise StoreError(f"session {summary.id} exists already")
    row = db.execute(
        f"insert into sessions (key, {SUMMARY_COLUMNS}, tail_seq, generation, owner, expires, indexed_seq)"
        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (
            key,
            *msgspec.structs.astuple(summary),
            tail_of(facts),
            lease.generation if lease else 0,
            msgspec.json.encode(lease.owner) if lease else None,
            lease.expires_ms if lease else 0,
        ),
    ).lastrowid
    assert row is not None
    return row


def insert_facts(db: sqlite3.Connection, key: int, facts: Sequence[Fact]) -> None:
    db.executemany(
        "insert into facts values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                key,
                fact.seq,
                fact.type,
                _OPENING.get(fact.type, True) or (not fact.run and is_opening(fact.type, "")),
                fact.parent,
                fact.run,
                fact.time_ms,
                fact.origin,
                fact.body,
            )
            for fact in facts
        ],
    )


def fact_of(session: str, row: tuple[Any, ...]) -> Fact:
    seq, tag, parent, run, time_ms, origin, body = row
    return Fact(seq, session, run, time_ms, body, tag, parent, origin)


def update_summary(db: sqlite3.Connection, key: int, facts: Sequence[Fact]) -> None:
    row = db.execute(f"select {SUMMARY_COLUMNS} from sessions where key = ?", (key,)).fetchone()
    summary = updated_summary(SessionSummary(*row), facts)
    tail = tail_of(facts, default=0)
    if tail:
        _skip_replaced(db, key, tail)
    db.execute(
        "update sessions set title = ?, preview = ?, status = ?, tail_seq = max(tail_seq, ?) where key = ?",
        (summary.title, summary.preview, summary.status, tail, key),
    )


def _skip_replaced(db: sqlite3.Connection, key: int, tail: int) -> None:
    """Extensions may set a value a thousand times in a run; before the tail, opening needs only the last."""
    rows = db.execute(
        f"{SELECT_FACTS}"
        " where session = :key and type = 'extension_state' and seq < :tail"
        " and seq >= (select tail_seq from sessions where key = :key) order by seq",
        {"key": key, "tail": tail},
    )
    unneeded = [(key, seq) for seq in replaced_values([fact_of("", row) for row in rows])]
    db.executemany("update facts set opening = 0 where session = ? and seq = ?", unneeded)


def replaced_values(facts: Iterable[Fact]) -> set[int]:
    """The numbers of extension states that a later one replaces."""
    newest: dict[tuple[str, str], int] = {}
    replaced: set[int] = set()
    for fact in facts:
        if fact.type == "extension_state" and isinstance(fact.event, ExtensionState):
            key = fact.event.extension, fact.event.key
            if key in newest:
                replaced.add(newest[key])
            newest[key] = fact.seq
    return replaced


def append_blob_part(db: sqlite3.Connection, session: int, part: BlobPart) -> None:
    names = (session, part.blob)
    insert = "insert or ignore into blobs (session, id, media_type, size) values (?, ?, ?, 0)"
    db.execute(insert, (*names, part.media_type))
    insert = "insert into blob_parts select key, size, ? from blobs where session = ? and id = ?"
    db.execute(insert, (part.data, *names))
    db.execute("update blobs set size = size + ? where session = ? and id = ?", (len(part.data), *names))


def delete_session(db: sqlite3.Connection, key: int, session: str) -> None:
    """Deletes the session and everything that belongs to it."""
    db.execute("delete from blob_parts where blob in (select key from blobs where session = ?)", (key,))
    for table in ("facts", "inbox", "processes", "blobs"):
        db.execute(f"delete from {table} where session = ?", (key,))
    db.execute("delete from messages where session = ?", (session,))
    db.execute("delete from sessions where key = ?", (key,))


SEARCHED = ("user_message", "assistant_message")
"""The types of facts in the index."""

PIECE = 500
"""Messages indexed in one transaction, so that other writers need not wait long."""


def is_index_stale(db: sqlite3.Connection) -> bool:
    return db.execute("select 1 from sessions where indexed_seq < last_seq limit 1").fetchone() is not None


def update_index(db: sqlite3.Connection) -> None:
    """Indexes some of the new messages; `is_index_stale` says if there are more."""
    room = PIECE
    stale = db.execute("select key, id, indexed_seq, last_seq from sessions where indexed_seq < last_seq")
    for key, session, indexed, last in stale.fetchall():
        rows = db.execute(
            "select seq, body from facts where session = ? and seq > ?"
            f" and type in {SEARCHED} order by seq limit ?",
            (key, indexed, room),
        ).fetchall()
        for seq, body in rows:
            if (words := words_in(body)) is not None:
                db.execute("insert into messages values (?, ?, ?)", (words, session, seq))
        up_to = rows[-1][0] if len(rows) == room else last
        db.execute("update sessions set indexed_seq = ? where key = ?", (up_to, key))
        room -= len(rows)
        if room <= 0:
            return


def search_messages(db: sqlite3.Connection, query: str, limit: int) -> list[Hit]:
    """Messages with all the words of the query, best first. The query has no operators."""
    words = words_of(query)
    if not words:
        return []
    rows = db.execute(
        "select sessions.id, facts.seq, facts.body, facts.time"
        " from (select session, seq, rank from messages where messages match ? order by rank limit ?) as best"
        " join sessions on sessions.id = best.session"
        " join facts on facts.session = sessions.key and facts.seq = best.seq"
        " order by best.rank, facts.time desc",
        (" ".join(f'"{word}"*' for word in words), limit),
    )
    return [Hit(id, seq, excerpt(_text(body), words), time_ms) for id, seq, body, time_ms in rows.fetchall()]


def words_in(body: bytes) -> str | None:
    """The indexed words of a message; None if it has no text."""
    text = _text(body)
    return " ".join(words_of(text)) if text else None


def _text(body: bytes) -> str:
    try:
        event = decode_event(body)
    except (msgspec.MsgspecError, UnicodeError):
        return ""  # damaged: opening that session reports it, and the others must stay searchable
    return text_of(event.content) if isinstance(event, UserMessage | AssistantMessage) else ""
