"""The write tool: replaces a whole file atomically."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.core.function_tool import tool
from ostler.core.lazy import lazy_module
from ostler.core.tool import BeforeCall, ToolContext
from ostler.schema.errors import ToolFailed
from ostler.schema.outcomes import Ok, ok
from ostler.tools.files import (
    digest_of,
    display_path,
    file_digest,
    file_errors,
    judged_path,
    last_seen,
    remember,
    require_unchanged,
    run_cancellable,
    run_to_completion,
)

if TYPE_CHECKING:
    from ostler.core import files
    from ostler.tools import diff as diffs
    from ostler.tools import media
else:
    diffs = lazy_module("ostler.tools.diff")
    files = lazy_module("ostler.core.files")
    media = lazy_module("ostler.tools.media")

_MAX_COMPARED = 2 * 1024 * 1024
"""Larger files are written without a diff: nobody would read it, and it would double the log."""


@tool(source="built-in", kind="edit")
async def write(path: str, content: str, *, context: ToolContext) -> Ok:
    """Writes a whole file, creating parent directories and replacing existing content. You must have read an
    existing file in this session, and it must be unchanged since. To change part of a file, use edit.

    Args:
        path: the file, relative to the working directory or absolute
        content: the complete new content
    """
    file = judged_path(path, context)
    data = _encoded(content)
    seen = await last_seen(context, file)
    name = display_path(file, context.cwd)
    with file_errors(path):
        created, diff = await run_to_completion(lambda: _write(file, path, name, content, data, seen))
    digest = digest_of(data)
    remember(context.memory, file, digest)
    lines = len(diffs.lines_of(content))
    details = {
        "path": name,
        "bytes": len(data),
        "lines": lines,
        "created": created,
        "diff": diff.text,
        "diff_truncated": diff.truncated,
        "digest": digest,
    }
    counted = f"{lines} line{'' if lines == 1 else 's'}"
    summary = counted if created else f"+{diff.added} -{diff.removed}"
    return ok(f"wrote {len(data)} bytes ({lines} lines) to {name}", details=details, summary=summary)


@write.prechecker
async def _unwritable(path: str, content: str, *, context: BeforeCall) -> None:
    file = judged_path(path, context)
    _encoded(content)
    seen = await last_seen(context, file)
    with file_errors(path):
        await run_cancellable(lambda stop: _refuse(file, path, seen))


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        surrogate = f"a lone surrogate {content[error.start]!r} at character {error.start}"
        raise ToolFailed(f"content is not valid text: {surrogate}") from None


def _write(
    file: Path, raw_path: str, name: str, content: str, data: bytes, seen: str | None
) -> tuple[bool, diffs.Diff]:
    """Whether the file is new, and the difference."""
    size = _refuse(file, raw_path, seen)
    diff = diffs.Diff("", 0, 0, 0, truncated=True)
    if max(size or 0, len(data)) <= _MAX_COMPARED:
        old, old_name = (b"", "/dev/null") if size is None else (_content(file), name)
        if not media.is_binary(old):
            diff = diffs.diff_of_texts(old.decode("utf-8", "replace"), content, old_name, name)
    files.write_judged(file, data)
    return size is None, diff


def _content(file: Path) -> bytes:
    with files.open_judged(file) as opened:
        return opened.read()


def _refuse(file: Path, raw_path: str, seen: str | None) -> int | None:
    """The size of the file, or None if it does not exist; raises if it cannot be written."""
    status = files.judged_status(file)
    if status is None:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailed(f"{raw_path} is a directory: name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailed(f"{raw_path} is a pipe, socket or device, not a regular file")
    if status.st_size:
        require_unchanged(raw_path, seen, file_digest(file))
    return status.st_size
