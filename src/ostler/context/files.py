"""Reads text files for the model from projects and user folders, safely."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec


class Unusable(Exception):
    """Why a file cannot be used, in one line."""


class FileHead(msgspec.Struct, frozen=True):
    """The first bytes of a file, and the size of the whole."""

    content: bytes
    size: int


def read_head(path: Path, project: Path | None, limit: int) -> FileHead | None:
    """At most `limit` bytes; None where there is no such file.

    A file of a project must be inside it: a link could expose other files to the model.
    """
    try:
        # A pipe or a device is not opened: that could block for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise Unusable("it is not a file")
        if project is not None and not path.resolve().is_relative_to(project):
            raise Unusable("it is a link to a file outside the project")
        with path.open("rb") as file:
            return FileHead(file.read(limit), os.fstat(file.fileno()).st_size)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unusable(f"it cannot be read: {error.strerror}") from None


def entries_in(folder: Path) -> list[Path]:
    """What is in a folder, by name, without what is hidden; nothing where there is none.

    Raises `Unusable` with the system's reason, when it cannot be read.
    """
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Unusable(error.strerror) from None


def printable_path(path: Path) -> str:
    """A path in one storable line, whatever bytes its names have."""
    text = str(path).encode(errors="replace").decode()
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def quoted_path(path: Path) -> str:
    """A path as one word of a shell command in a message."""
    from shlex import quote

    return quote(printable_path(path))


def folders_up_to(root: Path, folder: Path) -> list[Path]:
    """The folder and those above it up to `root`, the nearest first; the folder alone outside of `root`."""
    if not folder.is_relative_to(root):
        return [folder]
    above = (folder, *folder.parents)
    return list(above[: above.index(root) + 1])
