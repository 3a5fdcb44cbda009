"""Reads the files that users write for the model, and searches the folders they are in."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec


class Unusable(Exception):
    """Why a file cannot be used, in one line."""


class FileHead(msgspec.Struct, frozen=True):
    """The first bytes of a file, and the size of the whole."""

    content: bytes
    size: int


def read_head(path: Path, project: Path | None, limit: int) -> FileHead | None:
    """At most `limit` bytes; None if there is no such file.

    A file of a project must be inside it: a link could show the model other files of the user.
    """
    try:
        # Opening a pipe or a device could block forever.
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


def read_bytes(path: Path, project: Path | None, limit: int) -> bytes | None:
    """The whole file, as `read_head` reads it. Raises `Unusable` if it is larger than `limit`."""
    head = read_head(path, project, limit)
    if head is not None and head.size > limit:
        raise Unusable(f"it is larger than {limit // 1024} KiB")
    return None if head is None else head.content


def entries_in(folder: Path) -> list[Path]:
    """The entries of a folder sorted by name, without hidden ones; empty if there is no such folder.

    Raises `Unusable` with the system's reason if it cannot be read.
    """
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Unusable(error.strerror) from None


def printable_path(path: Path) -> str:
    """The path as one line that can be stored, whatever bytes its names contain."""
    text = str(path).encode(errors="replace").decode()
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def quoted_path(path: Path) -> str:
    """The path as one word of a shell command."""
    from shlex import quote

    return quote(printable_path(path))


def folders_up_to(root: Path, folder: Path) -> list[Path]:
    """The folder and its parents up to `root`, the nearest first; only the folder if it is outside `root`."""
    if not folder.is_relative_to(root):
        return [folder]
    above = (folder, *folder.parents)
    return list(above[: above.index(root) + 1])


class FileSearch(ABC):
    """Reads the files of one kind: a project's, from the nearest folder up to its root, then the user's."""

    def __init__(self, kind: str, folders: Sequence[str]) -> None:
        """`folders` are relative to each folder of a project; the first one comes first."""
        self._kind = kind
        self._folders = folders
        self.problems: list[str] = []
        """A line for each, which begins with the file's path."""

    def search(self, cwd: Path, root: Path, own: Collection[Path]) -> None:
        skipped = {*own, *(folder.resolve() for folder in own)}
        for folder in folders_up_to(root, cwd):
            for name in self._folders:
                if folder / name not in skipped:
                    self.read_folder(folder / name, root)
        for folder in own:
            self.read_folder(folder, None)

    def read_folder(self, folder: Path, project: Path | None) -> None:
        try:
            entries = entries_in(folder)
        except Unusable as error:
            self.problems.append(f"{printable_path(folder)}: it cannot be read: {error}")
            return
        for entry in entries:
            if (path := self.file_of(entry)) is not None:
                self.read(path, project)

    def read(self, path: Path, project: Path | None) -> None:
        problems: list[str] = []
        try:
            self.add(path, project, problems)
        except Unusable as error:
            problems = self.reject(path, error, problems)
        self.problems += [f"{printable_path(path)}: {problem}" for problem in problems]

    def file_of(self, entry: Path) -> Path | None:
        """The file that an entry of a folder stands for; None if it is of another kind."""
        return entry if entry.suffix == ".md" else None

    @abstractmethod
    def add(self, path: Path, project: Path | None, problems: list[str]) -> None:
        """Reads one file. Raises `Unusable`, or adds to `problems` what does not prevent its use."""

    def reject(self, path: Path, error: Unusable, problems: list[str]) -> list[str]:
        """All problems of a file that cannot be used."""
        return [*problems, f"{error}; the {self._kind} is left out"]
