"""Which repository git would find, and what of it can make git run something."""

from __future__ import annotations

from pathlib import Path


def is_in_repository_of(cwd: Path, folder: Path | None) -> bool:
    """Whether git finds the same repository in both folders, and not one that was put together there."""
    if folder is None:
        return False
    found = _repository(folder.resolve())
    return found is not None and found == _repository(cwd.resolve())


def _repository(folder: Path) -> Path | None:
    for one in (folder, *folder.parents):
        if (one / ".git").exists():
            return one
        if (one / "HEAD").exists():  # git takes such a folder for a repository without files
            return None
    return None


def lies_in_git_folder(path: Path) -> bool:
    """Its settings and hooks name programs that git runs."""
    return any(part.lower() == ".git" for part in path.parts)
