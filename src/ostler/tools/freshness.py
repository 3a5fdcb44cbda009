"""Whether a file is still as this session last saw it.

The tools that read or write a file put its digest into their result's `details`, under its path from the
working directory: an exported session says nothing of where that was. While the session is open the last
one of each file is kept in the shared memory; after reopening it is read back from the log.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostler.kernel.tool import BeforeCall
from ostler.vocabulary.errors import ToolFailed

if TYPE_CHECKING:
    from ostler.kernel.digest import blake2b

MAX_DIGESTED = 64 * 1024 * 1024
"""Larger files are known by size and time of change: hashing them at each look would take too long."""

_MEMORY_KEY = "ostler.tools.seen_files"


class _SeenFiles:
    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.has_read_log = False


def new_digest() -> blake2b:
    from ostler.kernel.digest import blake2b

    return blake2b(digest_size=16)


def digest_of(content: bytes) -> str:
    digest = new_digest()
    digest.update(content)
    return digest.hexdigest()


def stamp_of(status: os.stat_result) -> str:
    """Stands for the digest of a file larger than `MAX_DIGESTED`."""
    return f"{status.st_size}@{status.st_mtime_ns}"


def file_digest(path: Path) -> str:
    """The digest of a file as it is now."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_size > MAX_DIGESTED:
            return stamp_of(status)
        digest = new_digest()
        while piece := file.read(1 << 20):
            digest.update(piece)
        return digest.hexdigest()


def remember(memory: dict[str, Any], path: Path, digest: str) -> None:
    """`memory` is the harness's, which its tools share."""
    _seen(memory).digests[str(path)] = digest


async def last_seen(context: BeforeCall, path: Path) -> str | None:
    """The digest of the file when this session last read or wrote it; None if it never did."""
    seen = _seen(context.memory)
    if str(path) not in seen.digests and not seen.has_read_log:
        logged: dict[str, str] = {}
        home = context.cwd.resolve()
        async for result in context.results():
            details: dict[str, Any] = result.details or {}
            name, digest = details.get("path"), details.get("digest")
            if isinstance(name, str) and isinstance(digest, str) and not result.failed:
                logged[str(home / name)] = digest
        seen.digests = logged | seen.digests
        seen.has_read_log = True
    return seen.digests.get(str(path))


def refuse_unless_fresh(given: str, seen: str | None, present: str) -> None:
    """Raises `ToolFailed` when the model would change a file that it does not know as it is now."""
    if seen is None:
        raise ToolFailed(f"{given} exists but was not read in this session: read it first, then change it")
    if seen != present:
        raise ToolFailed(
            f"{given} has changed since this session last read it: read it again, then change it"
        )


def _seen(memory: dict[str, Any]) -> _SeenFiles:
    found: _SeenFiles = memory.setdefault(_MEMORY_KEY, _SeenFiles())
    return found
