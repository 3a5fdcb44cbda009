"""The directory that a command works in."""

from __future__ import annotations

from pathlib import Path

from ostler.kernel.user_paths import below_home
from ostler.vocabulary.errors import UsageError


def working_directory(named: str | None = None) -> Path:
    """The directory that was named, or the present one, with a path that can be recorded."""
    try:
        cwd = Path(named or ".").resolve()
    except OSError:
        raise UsageError("the present directory does not exist any more: go to another one") from None
    if not cwd.is_dir():
        raise UsageError(f"there is no directory {cwd}")
    try:
        str(cwd).encode()
    except UnicodeEncodeError:
        raise UsageError(
            "the path of the directory is not valid UTF-8: rename it, or work in another"
        ) from None
    return cwd


def short_path(path: Path, cwd: Path) -> str:
    """As a person would say it in that directory."""
    if path.is_relative_to(cwd):
        return str(path.relative_to(cwd))
    return below_home(path) or str(path)
