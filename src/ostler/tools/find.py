"""The find tool: files and directories by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import msgspec

from ostler.kernel.tool import ToolContext, tool
from ostler.tools.globs import compile_glob
from ostler.tools.paths import missing, plain_failures, resolve, shown
from ostler.tools.threads import Stop, in_thread
from ostler.tools.truncation import first_that_fit, without_surrogates
from ostler.tools.walking import in_path_order, is_folder, walk
from ostler.vocabulary.errors import ToolFailed
from ostler.vocabulary.outcomes import Ok, ok


@tool(kind="search", parallel=True)
async def find(
    pattern: Annotated[str, msgspec.Meta(min_length=1)],
    path: str = ".",
    limit: Annotated[int, msgspec.Meta(ge=1)] = 1000,
    *,
    context: ToolContext,
) -> Ok:
    """Finds files and directories whose name matches a glob, sorted. Hidden ones are included; those that
    .gitignore names, and .git, are not. Directories end with a slash.

    Args:
        pattern: a glob such as *.py (at any depth), src/**/*.ts (relative to path) or {README,LICENSE}*
        path: the directory to look in; the working directory unless given
        limit: how many to show
    """
    root = resolve(path, context.cwd)
    with plain_failures(path):
        if not root.exists():
            raise missing(root, path)
        if not root.is_dir():
            raise ToolFailed(f"{path} is not a directory")
        found = await in_thread(lambda stop: _matching(root, pattern, stop))
    prefix = "" if root == context.cwd.resolve() else shown(root, context.cwd) + "/"
    rows = first_that_fit(without_surrogates(prefix + name) for name in found[:limit])
    details = {
        "path": shown(root, context.cwd),
        "found": len(found),
        "truncated": len(rows) < len(found),
    }
    if len(rows) < len(found):
        rows.append(f"[the first {len(rows)} of {len(found)}: narrow pattern or path, or raise limit]")
    return ok("\n".join(rows) or "(nothing found)", details=details, summary=f"{len(found)} found")


def _matching(root: Path, pattern: str, stop: Stop) -> list[str]:
    matches = _compiled(pattern)
    only_directories = pattern.endswith("/")
    found = []
    for entry in walk(root, stop, hidden=True):
        name = entry.relative_to(root).as_posix()
        if not matches.fullmatch(name):
            continue
        is_directory = is_folder(entry)
        if is_directory or not only_directories:
            found.append((in_path_order(name), name + "/" if is_directory else name))
    return [name for _, name in sorted(found)]


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return compile_glob(pattern)
    except re.error as error:
        raise ToolFailed(f"invalid glob {pattern!r}: {error}") from None
