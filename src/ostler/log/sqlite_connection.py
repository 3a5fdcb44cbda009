"""Opening the one SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ostler.log.location import refuse_network_disk
from ostler.log.sqlite_errors import in_our_words
from ostler.log.sqlite_schema import MIGRATIONS, Migration, prepare

PATIENCE = 10.0
"""Seconds to wait for another process's transaction."""

Durability = Literal["process", "power"]
"""What a committed fact survives: the end of the process, or the loss of power too, for an fsync each."""


def connect(
    path: Path,
    durability: Durability = "process",
    *,
    patience: float = PATIENCE,
    migrations: Sequence[Migration] = MIGRATIONS,
) -> sqlite3.Connection:
    """A connection in autocommit mode, to a store of our version; made, or brought forward, if need be."""
    refuse_network_disk(path)
    with in_our_words(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            path.touch(mode=0o600)
        connection = _connection(path, patience)
        try:
            _prepare_patiently(connection, path, migrations, time.monotonic() + patience)
            connection.execute(f"pragma synchronous = {'full' if durability == 'power' else 'normal'}")
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare_patiently(
    connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration], deadline: float
) -> None:
    """Of several processes that make a store at the same moment, SQLite turns all but one away at once."""
    while True:
        try:
            prepare(connection, path, migrations)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def connect_again(path: Path) -> sqlite3.Connection:
    """A further connection to a store that `connect` has prepared."""
    with in_our_words(path):
        return _connection(path, PATIENCE)


def _connection(path: Path, patience: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=patience)
    try:
        connection.execute("pragma cache_size = -1024")
        connection.execute("pragma wal_autocheckpoint = 0")
    except BaseException:
        connection.close()
        raise
    return connection
