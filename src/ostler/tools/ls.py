"""The ls tool: what is in a directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec

from ostler.kernel.tool import ToolContext, tool
from ostler.tools.paths import missing, plain_failures, resolve, shown
from ostler.tools.threads import Stop, in_thread
from ostler.tools.truncation import first_that_fit, size_text, without_surrogates
from ostler.vocabulary.errors import ToolFailed
from ostler.vocabulary.outcomes import Ok, ok


class _Listing(msgspec.Struct, frozen=True):
    rows: list[str]
    total: int


@tool(kind="read", parallel=True)
async def ls(
    path: str = ".",
    limit: Annotated[int, msgspec.Meta(ge=1)] = 500,
    *,
    context: ToolContext,
) -> Ok:
    """Lists a directory, hidden files too. Directories end with /, symbolic links with @; files have sizes.

    Args:
        path: the directory; the working directory unless given
        limit: how many entries to show
    """
    folder = resolve(path, context.cwd)
    with plain_failures(path):
        if not folder.exists():
            raise missing(folder, path)
        if not folder.is_dir():
            raise ToolFailed(f"{path} is a file: use read to see it")
        listing = await in_thread(lambda stop: _list(folder, limit, stop))
    rows = first_that_fit(listing.rows)
    details = {
        "path": shown(folder, context.cwd),
        "entries": listing.total,
        "truncated": len(rows) < listing.total,
    }
    if len(rows) < listing.total:
        rows.append(
            f"[the first {len(rows)} of {listing.total} entries: raise limit, or use find with a pattern]"
        )
    return ok("\n".join(rows) or "(empty directory)", details=details, summary=f"{listing.total} entries")


def _list(folder: Path, limit: int, stop: Stop) -> _Listing:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: (entry.name.casefold(), entry.name))
    rows = []
    for entry in found[:limit]:
        if stop():
            break
        rows.append(without_surrogates(_row(entry)))
    return _Listing(rows, len(found))


def _row(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return f"{entry.name}@"
    if entry.is_dir(follow_symlinks=False):
        return f"{entry.name}/"
    try:
        return f"{entry.name}  {size_text(entry.stat(follow_symlinks=False).st_size)}"
    except OSError:  # it went away meanwhile
        return entry.name
