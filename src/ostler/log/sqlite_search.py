"""Full-text search over messages. The index is brought up to date when somebody searches, so that
appending does not pay for it; it can always be rebuilt from the log."""

from __future__ import annotations

import sqlite3

import msgspec

from ostler.kernel.store import Hit
from ostler.log.words import excerpt, words_of
from ostler.vocabulary.events import AssistantMessage, UserMessage
from ostler.vocabulary.facts import decode_event
from ostler.vocabulary.messages import text_of

SEARCHED = ("user_message", "assistant_message")
"""The types of facts that are found."""

PIECE = 500
"""Messages indexed in one transaction: others want to write, too."""


def is_index_stale(db: sqlite3.Connection) -> bool:
    return db.execute("select 1 from sessions where indexed_seq < last_seq limit 1").fetchone() is not None


def update_index(db: sqlite3.Connection) -> None:
    """Adds some of the messages that came since the last time; `is_index_stale` says if there are more."""
    room = PIECE
    stale = db.execute("select key, id, indexed_seq, last_seq from sessions where indexed_seq < last_seq")
    for key, session, indexed, last in stale.fetchall():
        rows = db.execute(
            "select seq, body from facts where session = ? and seq > ?"
            f" and type in {SEARCHED} order by seq limit ?",
            (key, indexed, room),
        ).fetchall()
        for seq, body in rows:
            words = words_in(body)
            if words is not None:
                db.execute("insert into messages values (?, ?, ?)", (words, session, seq))
        up_to = rows[-1][0] if len(rows) == room else last
        db.execute("update sessions set indexed_seq = ? where key = ?", (up_to, key))
        room -= len(rows)
        if room <= 0:
            return


def search(db: sqlite3.Connection, query: str, limit: int) -> list[Hit]:
    """Messages with all the words of the query, best first. Words are data: no operators to trip over."""
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
    """What the index holds of a message; None for one without text."""
    text = _text(body)
    return " ".join(words_of(text)) if text else None


def _text(body: bytes) -> str:
    try:
        event = decode_event(body)
    except (msgspec.MsgspecError, UnicodeError):
        return ""  # damaged: whoever opens that session is told; the others must stay searchable
    return text_of(event.content) if isinstance(event, UserMessage | AssistantMessage) else ""
