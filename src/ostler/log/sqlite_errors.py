"""SQLite's errors, and the disk's, in our words: each of the tree, on one line, with what to do."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ostler.vocabulary.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly

_TIGHT = 1024 * 1024
"""An I/O error with less room than this on the disk is taken for a full disk."""
_ELSEWHERE = "check that place, or set OSTLER_HOME to another"


@contextmanager
def in_our_words(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(error, path) from error
    except OSError as error:
        raise _explained_by_disk(error, path) from error


def _explained(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"{path} is locked by another process; try again when it has finished")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return StoreReadOnly(f"{path} cannot be opened for writing; check its owner and its folder's")
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _free(path) < _TIGHT):
        return _full(path)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreCorrupt(
            f"{path} is damaged ({error}); move it away to start afresh, or try `sqlite3 FILE .recover`"
        )
    return StoreError(f"{path} cannot be used: {error}; {_ELSEWHERE}")


def _explained_by_disk(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreReadOnly(f"{path} cannot be written ({error.strerror}); check who owns it and its folder")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path)
    return StoreError(f"{path} cannot be used: {error.strerror or error}; {_ELSEWHERE}")


def _full(path: Path) -> StoreFull:
    return StoreFull(
        f"{path} cannot grow ({_free(path) // 2**20} MiB free on its disk); make room and try again"
    )


def _free(path: Path) -> int:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return 0
    return disk.f_bavail * disk.f_frsize
