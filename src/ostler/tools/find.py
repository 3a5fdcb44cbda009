"""The find and ls tools."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import msgspec

from ostler.core.function_tool import tool
from ostler.core.tool import ToolContext
from ostler.schema.errors import ToolFailed
from ostler.schema.outcomes import Ok, ok
from ostler.tools.files import (
    Stop,
    compile_glob,
    display_path,
    file_errors,
    in_path_order,
    is_folder,
    resolve_existing,
    run_cancellable,
    walk,
)
from ostler.tools.truncation import first_that_fit, size_text, without_surrogates


@tool(source="built-in", kind="search", parallel=True)
async def find(
    pattern: Annotated[str, msgspec.Meta(min_length=1)],
    path: str = ".",
    limit: Annotated[int, msgspec.Meta(ge=1)] = 1000,
    *,
    context: ToolContext,
) -> Ok:
    """Finds files and directories by glob, sorted. Includes hidden ones, except .git and what .gitignore
    excludes. Directories end with a slash.

    Args:
        pattern: a glob such as *.py (at any depth), src/**/*.ts (relative to path) or {README,LICENSE}*
        path: the directory to search; default: the working directory
        limit: the maximum number of results
    """
    root = resolve_existing(path, context.cwd)
    with file_errors(path):
        if not root.is_dir():
            raise ToolFailed(f"{path} is not a directory")
        paths = await run_cancellable(lambda stop: _matching(root, pattern, stop))
    prefix = "" if root == context.cwd.resolve() else display_path(root, context.cwd) + "/"
    rows = first_that_fit(without_surrogates(prefix + name) for name in paths[:limit])
    is_cut = len(rows) < len(paths)
    details = {"path": display_path(root, context.cwd), "found": len(paths), "truncated": is_cut}
    if is_cut:
        rows.append(f"[the first {len(rows)} of {len(paths)}: narrow pattern or path, or raise limit]")
    return ok("\n".join(rows) or "(nothing found)", details=details, summary=f"{len(paths)} found")


def _matching(root: Path, pattern: str, stop: Stop) -> list[str]:
    try:
        glob = compile_glob(pattern)
    except re.error as error:
        raise ToolFailed(f"invalid glob {pattern!r}: {error}") from None
    only_directories = pattern.endswith("/")
    names = []
    for entry in walk(root, stop, hidden=True):
        name = entry.relative_to(root).as_posix()
        if not glob.fullmatch(name):
            continue
        is_directory = is_folder(entry)
        if is_directory or not only_directories:
            names.append((in_path_order(name), name + "/" if is_directory else name))
    return [name for _, name in sorted(names)]


@tool(source="built-in", kind="read", parallel=True)
async def ls(path: str = ".", limit: Annotated[int, msgspec.Meta(ge=1)] = 500, *, context: ToolContext) -> Ok:
    """Lists a directory, including hidden files. Directories end with /, symbolic links with @; files have
    sizes.

    Args:
        path: the directory; default: the working directory
        limit: the maximum number of entries
    """
    folder = resolve_existing(path, context.cwd)
    with file_errors(path):
        if not folder.is_dir():
            raise ToolFailed(f"{path} is a file: use read to see it")
        listing, total = await run_cancellable(lambda stop: _list(folder, limit, stop))
    rows = first_that_fit(listing)
    is_cut = len(rows) < total
    details = {"path": display_path(folder, context.cwd), "entries": total, "truncated": is_cut}
    if is_cut:
        rows.append(f"[the first {len(rows)} of {total} entries: raise limit, or use find with a pattern]")
    return ok("\n".join(rows) or "(empty directory)", details=details, summary=f"{total} entries")


def _list(folder: Path, limit: int, stop: Stop) -> tuple[list[str], int]:
    """The first rows, and the number of all entries."""
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: (entry.name.casefold(), entry.name))
    rows = []
    for entry in listed[:limit]:
        if stop():
            break
        rows.append(without_surrogates(_row(entry)))
    return rows, len(listed)


def _row(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return f"{entry.name}@"
    if entry.is_dir(follow_symlinks=False):
        return f"{entry.name}/"
    try:
        return f"{entry.name}  {size_text(entry.stat(follow_symlinks=False).st_size)}"
    except OSError:  # it went away meanwhile
        return entry.name
