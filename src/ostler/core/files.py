"""Replacing a file's content in one step: a reader sees the old or the new, never a part."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from ostler.schema.errors import ToolFailed
from ostler.schema.ids import new_id


def write_atomically(path: Path, content: bytes) -> None:
    """Writes beside the file and renames. `path` must be resolved, so that a symbolic link is followed
    and not replaced. Mode and, where we may, owner are kept."""
    before = path.stat() if path.exists() else None
    if before is not None and not stat.S_ISREG(before.st_mode):
        raise ToolFailed(f"{path} is not a regular file")
    path.parent.mkdir(parents=True, exist_ok=True)
    # A short name of its own: one made of the file's could be too long.
    beside = path.with_name(f".{new_id('tmp')}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if before is not None:
                _keep_owner_and_mode(file.fileno(), before)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _keep_owner_and_mode(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):  # only root may give a file away; it is then ours, as with any editor
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
