"""Full-text search over messages. The index is brought up to date when somebody searches, so that
appending does not pay for it; it can always be rebuilt from the log."""

from __future__ import annotations

import sqlite3

from ostler.kernel.store import Hit
from ostler.vocabulary.events import AssistantMessage, UserMessage
from ostler.vocabulary.facts import decode_event
from ostler.vocabulary.messages import text_of


def update_index(db: sqlite3.Connection) -> None:
    """Adds the messages that came since the last time."""
    stale = db.execute("select key, id, indexed_seq, last_seq from sessions where indexed_seq < last_seq").fetchall()
    for key, session, indexed, last in stale:
        rows = db.execute(
            "select seq, time, body from facts where session = ? and seq > ?"
            " and type in ('user_message', 'assistant_message')",
            (key, indexed),
        )
        for seq, time_ms, body in rows.fetchall():
            event = decode_event(body)
            if isinstance(event, UserMessage | AssistantMessage) and (text := text_of(event.content)):
                db.execute("insert into messages values (?, ?, ?, ?)", (text, session, seq, time_ms))
        db.execute("update sessions set indexed_seq = ? where key = ?", (last, key))


def search(db: sqlite3.Connection, query: str, limit: int) -> list[Hit]:
    """Messages with all the words of the query, best first. Words are data: no operators to trip over."""
    words = " ".join('"' + word.replace('"', '""') + '"*' for word in query.split())
    if not words:
        return []
    rows = db.execute(
        "select session, seq, snippet(messages, 0, '', '', ' … ', 24), time from messages"
        " where messages match ? order by rank limit ?",
        (words, limit),
    )
    return [Hit(*row) for row in rows.fetchall()]
