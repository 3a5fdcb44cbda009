"""Other programs, looked up on PATH."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


def find_program(name: str) -> str | None:
    """The path of an executable. (`shutil.which` does the same, but takes 10 ms to import.)"""
    return _on_path(name, os.environ.get("PATH", os.defpath))


@cache
def _on_path(name: str, path: str) -> str | None:
    for folder in path.split(os.pathsep):
        candidate = Path(folder, name)
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return str(candidate)
    return None
