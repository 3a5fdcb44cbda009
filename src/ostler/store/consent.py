"""Consent in the user's files (rules, trust, tokens): an agent of the user's store must not give it.

Those files lie beside the store, whose id and lease holders tell which processes its agents have started.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from urllib.parse import quote

import msgspec

from ostler.core.process_tree import why_inside
from ostler.core.processes import ProcessId
from ostler.core.store import Store
from ostler.schema.errors import ConsentRefused
from ostler.store.paths import store_file


def require_consent(store: Store) -> None:
    """Raises `ConsentRefused` if an agent of this store has started this process."""
    if problem := store.consent_problem():
        raise ConsentRefused(problem)


def require_own_consent() -> None:
    """Raises `ConsentRefused` if an agent of the user's store has started this process."""
    store, holders = _identity()
    if problem := why_inside(store, holders):
        raise ConsentRefused(problem)


def _identity() -> tuple[str, list[ProcessId]]:
    """The id and the lease holders of the user's store. It is neither created nor migrated here."""
    path = store_file()
    if not path.exists():
        return "", []
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as db:
            owners = db.execute("select distinct owner from sessions where owner is not null").fetchall()
            holders = [msgspec.json.decode(owner, type=ProcessId) for (owner,) in owners]
            ids = db.execute("select id from store").fetchall() if _has_id(db) else []
    except (sqlite3.Error, msgspec.MsgspecError) as error:
        raise ConsentRefused(f"{path} cannot be read, which says who may do this: {error}") from None
    return (ids[0][0] if ids else ""), holders


def _has_id(db: sqlite3.Connection) -> bool:
    return bool(db.execute("select 1 from sqlite_master where name = 'store'").fetchone())
