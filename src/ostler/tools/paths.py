"""Paths as models give them, and the failures of the file system in one plain line."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ostler.vocabulary.errors import ToolFailed

_REASONS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOTDIR: "a part of the path is a file, not a directory",
    errno.EEXIST: "a part of the path is a file, not a directory",
    errno.EISDIR: "is a directory",
    errno.ELOOP: "the symbolic links lead in a circle",
    errno.ENOSPC: "no space left on the device",
    errno.EROFS: "the file system is read-only",
}


def resolve(path: str, cwd: Path) -> Path:
    """An absolute path without symbolic links. Relative ones start at `cwd`; `~` is the home directory."""
    if not path.strip():
        raise ToolFailed("path is empty: name a file or directory")
    if "\0" in path:
        raise ToolFailed(f"the path {path!r} contains a NUL character, which no file name can")
    try:
        return (cwd / Path(path).expanduser()).resolve()
    except (RuntimeError, UnicodeError) as error:  # no such home; links in a circle; a lone surrogate
        raise ToolFailed(f"{path}: {str(error).rstrip('.')}") from None
    except OSError as error:
        raise ToolFailed(explain(error, path)) from None


def shown(path: Path, cwd: Path) -> str:
    """Relative to `cwd` where it lies below it: shorter, and as good for the next call."""
    home = cwd.resolve()
    return str(path.relative_to(home)) if path.is_relative_to(home) else str(path)


def explain(error: OSError, path: str) -> str:
    """What the operating system said, in one line that names the path as it was given."""
    reason = _REASONS.get(error.errno or 0) or error.strerror or str(error)
    return f"{path if len(path) <= 300 else path[:300] + '…'}: {reason}"


@contextmanager
def plain_failures(path: str) -> Iterator[None]:
    """Turns errors of the file system into `ToolFailed` with one line about `path`."""
    try:
        yield
    except OSError as error:
        raise ToolFailed(explain(error, path)) from None


def missing(path: Path, given: str) -> ToolFailed:
    """The failure for a path that does not exist, with names that look like it."""
    from difflib import get_close_matches

    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        names = []
    near = get_close_matches(path.name, names, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return ToolFailed(f"{given}: no such file or directory{hint}")
