"""The extensions in a folder that somebody else has laid out. Nothing of it is run."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from ostler.extensions.loader.finding import MANIFEST

ENTRIES = ("__init__.py", "main.py")

_SKIPPED = ("build", "dist", "docs", "examples", "node_modules", "scripts", "test", "tests", "vendor", "venv")
_NO_EXTENSION = re.compile(r"setup\.py|conftest\.py|noxfile\.py|test_.*|.*_test\.py|[._].*")
_SETUP = re.compile(
    rb"^(?:async +)?def +setup *\(|^setup *="
    rb"|^from +(?!setuptools|distutils)[\w.]+ +import +(?:\([^)]*\bsetup\b|[^(\n]*\bsetup\b)",
    re.MULTILINE,
)
MOST_BYTES = 4 * 1024 * 1024
"""So much of a file is looked at."""


def scan_extensions(folder: Path) -> list[str]:
    """Paths in the folder, `.` for the folder itself: what is an extension by where it lies and what it says.

    That is the folder if it has `setup` in its `__init__.py` or `main.py`, or an `extension.json`. Else it is
    files with `setup` and folders as just described: in the folder itself, in `extensions`, in `ext`, and in
    folders named like `git-ext`.
    """
    if is_extension(folder):
        return ["."]
    found = dict.fromkeys(_in_place(folder))
    for one in _folders(folder):
        if one.name in ("extensions", "ext") or one.name.endswith(("-extensions", "-ext")):
            found |= dict.fromkeys(_in_place(one))
    return [one.relative_to(folder).as_posix() for one in found]


def is_extension(path: Path) -> bool:
    """Whether a file has `setup`; whether a folder has it in its entry, or an `extension.json`."""
    if path.is_file():
        return path.suffix == ".py" and _has_setup(path)
    return (path / MANIFEST).is_file() or any(_has_setup(path / one) for one in ENTRIES)


def _in_place(folder: Path) -> Iterator[Path]:
    for one in sorted(folder.glob("*.py")):
        if not _NO_EXTENSION.fullmatch(one.name) and _has_setup(one):
            yield one
    for one in _folders(folder):
        if is_extension(one):
            yield one


def _folders(folder: Path) -> list[Path]:
    return [
        one
        for one in sorted(folder.iterdir())
        if one.is_dir() and not one.is_symlink() and one.name not in _SKIPPED and one.name[0] not in "._"
    ]


def _has_setup(file: Path) -> bool:
    """Whether it defines `setup` or imports it, but not that of a build."""
    try:
        # Who has laid it out may have put a pipe there, which nobody writes to: opening it must not wait.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return is_file and bool(_SETUP.search(os.read(descriptor, MOST_BYTES)))
    finally:
        os.close(descriptor)
