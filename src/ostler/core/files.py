"""Replaces a file in one step: a reader sees the old or the new content, never a part."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from ostler.schema.errors import ToolFailed
from ostler.schema.ids import new_id


def write_atomically(path: Path, data: bytes, *, private: bool = False) -> None:
    """Writes a temporary file in the same folder and renames it. Keeps the mode and, if permitted, the owner;
    resolve `path` first to follow a symbolic link. With `private`, only their owner can ever read the file
    and the folders made for it."""
    before = path.stat() if path.exists() and not private else None
    if before is not None and not stat.S_ISREG(before.st_mode):
        raise ToolFailed(f"{path} is not a regular file")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
    # Its name is short: one made of the file's own name could be too long.
    temporary = path.with_name(f".{new_id('tmp')}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                _copy_owner_and_mode(before, file.fileno())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _copy_owner_and_mode(before: os.stat_result, descriptor: int) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):  # only root may give a file away; then it is ours, as with any editor
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
