"""The find and ls tools."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from stat import S_ISDIR
from typing import Annotated

import msgspec

from ostler.core import files
from ostler.core.function_tool import tool
from ostler.core.tool import ToolContext
from ostler.schema.errors import ToolFailed
from ostler.schema.outcomes import Ok, ok
from ostler.tools.files import (
    Stop,
    compile_glob,
    display_path,
    file_errors,
    hidden_below,
    in_path_order,
    is_folder,
    judged_folder_or_file,
    run_cancellable,
    skipped_note,
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
    root, status = judged_folder_or_file(path, context)
    if not S_ISDIR(status.st_mode):
        raise ToolFailed(f"{path} is not a directory")
    with file_errors(path):
        hides = hidden_below(root, context)
        found = await run_cancellable(lambda stop: _matching(root, pattern, limit, hides, stop))
    paths = found.names
    prefix = "" if root == context.cwd.resolve() else display_path(root, context.cwd) + "/"
    rows = first_that_fit(without_surrogates(prefix + name) for name in paths[:limit])
    is_cut = len(rows) < len(paths)
    details = {"path": display_path(root, context.cwd), "found": len(paths), "truncated": is_cut}
    if is_cut:
        rows.append(f"[the first {len(rows)} of {len(paths)}: narrow pattern or path, or raise limit]")
    if found.skipped:
        details["skipped"] = found.skipped
        rows.append(skipped_note(found.skipped))
    return ok("\n".join(rows) or "(nothing found)", details=details, summary=f"{len(paths)} found")


class _Matches(msgspec.Struct, frozen=True):
    names: list[str]
    skipped: int
    """Matching files that are credentials, or that a rule restricts."""


def _matching(root: Path, pattern: str, limit: int, hides: Callable[[Path], bool], stop: Stop) -> _Matches:
    try:
        glob = compile_glob(pattern)
    except re.error as error:
        raise ToolFailed(f"invalid glob {pattern!r}: {error}") from None
    with files.judged_folder(root) as folder:
        found = _walked(root, glob, pattern.endswith("/"), hides, stop)
        shown = [*files.existing_below(folder, root, found.names[:limit])]
    return _Matches(shown + found.names[limit:], found.skipped)


def _walked(
    root: Path, glob: re.Pattern[str], only_directories: bool, hides: Callable[[Path], bool], stop: Stop
) -> _Matches:
    names, skipped = [], 0
    for entry in walk(root, stop, hidden=True):
        name = entry.relative_to(root).as_posix()
        if not glob.fullmatch(name):
            continue
        is_directory = is_folder(entry)
        if only_directories and not is_directory:
            continue
        if hides(entry):
            skipped += 1
        else:
            names.append((in_path_order(name), name + "/" if is_directory else name))
    return _Matches([name for _, name in sorted(names)], skipped)


@tool(source="built-in", kind="read", parallel=True)
async def ls(path: str = ".", limit: Annotated[int, msgspec.Meta(ge=1)] = 500, *, context: ToolContext) -> Ok:
    """Lists a directory, including hidden files. Directories end with /, symbolic links with @; files have
    sizes.

    Args:
        path: the directory; default: the working directory
        limit: the maximum number of entries
    """
    folder, status = judged_folder_or_file(path, context)
    if not S_ISDIR(status.st_mode):
        raise ToolFailed(f"{path} is a file: use read to see it")
    with file_errors(path):
        listed = await run_cancellable(lambda stop: _list(folder, limit, hidden_below(folder, context), stop))
    rows, total = first_that_fit(listed.rows), listed.total
    is_cut = len(rows) < total
    details = {"path": display_path(folder, context.cwd), "entries": total, "truncated": is_cut}
    if is_cut:
        rows.append(f"[the first {len(rows)} of {total} entries: raise limit, or use find with a pattern]")
    if listed.skipped:
        details["skipped"] = listed.skipped
        rows.append(skipped_note(listed.skipped))
    return ok("\n".join(rows) or "(empty directory)", details=details, summary=f"{total} entries")


class _Listed(msgspec.Struct, frozen=True):
    rows: list[str]
    """The first entries."""
    total: int
    """The number of all that may be shown."""
    skipped: int


def _list(folder: Path, limit: int, hides: Callable[[Path], bool], stop: Stop) -> _Listed:
    rows = []
    with files.listed_folder(folder) as descriptor, os.scandir(descriptor) as entries:
        all_entries = list(entries)
        shown = [entry for entry in all_entries if not hides(folder / entry.name)]
        shown.sort(key=lambda entry: (entry.name.casefold(), entry.name))
        for entry in shown[:limit]:
            if stop():
                break
            rows.append(without_surrogates(_row(entry)))
    return _Listed(rows, len(shown), len(all_entries) - len(shown))


def _row(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return f"{entry.name}@"
    if entry.is_dir(follow_symlinks=False):
        return f"{entry.name}/"
    try:
        return f"{entry.name}  {size_text(entry.stat(follow_symlinks=False).st_size)}"
    except OSError:  # it went away meanwhile
        return entry.name
