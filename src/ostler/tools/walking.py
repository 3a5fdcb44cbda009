"""Walking a tree as git would see it: what .gitignore names is left out, and so is .git itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING

from ostler.vocabulary.errors import ToolFailed

if TYPE_CHECKING:
    from ostler.tools.threads import Stop


def walk(root: Path, stop: Stop, *, hidden: bool, glob: str = "") -> Iterator[Path]:
    """Everything below `root`, in no order. Symbolic links are named, not followed; what may not be
    entered is skipped. `glob` limits the files, in the way of a .gitignore line."""
    from ignore import Error, WalkBuilder
    from ignore.overrides import OverrideBuilder

    overrides = OverrideBuilder(root)
    try:
        if glob:
            overrides.add(glob)
        overrides.add("!.git")
        chosen = overrides.build()
    except Error as error:
        raise ToolFailed(f"invalid glob: {error}") from None
    builder = WalkBuilder(root).hidden(not hidden).require_git(False).overrides(chosen)
    entries = builder.build()
    while not stop():
        try:
            entry = next(entries)
        except StopIteration:
            return
        except Error:  # a directory that may not be read, or a file that went away
            continue
        if entry.depth() > 0:
            yield entry.path()


def is_folder(path: Path) -> bool:
    """Whether it is a directory itself: not a link to one, which may lead to where nobody may look."""
    try:
        return S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def in_path_order(path: str) -> list[bytes]:
    """A sort key: directory by directory, names by their bytes."""
    return os.fsencode(path).split(b"/")
