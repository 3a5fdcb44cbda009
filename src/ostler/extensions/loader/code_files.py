"""The files of an extension, read once, so that the reviewed bytes are the ones that run; and trust in them.

An extension of a project runs only while the user trusts the present content of all its files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ostler.context.files import Unusable, printable_path
from ostler.extensions.loader.discovery import (
    MANIFEST,
    DiscoveredExtension,
    is_code,
    kind_in_folder,
    process_fields,
)
from ostler.permissions.trust import is_trusted, trust, trusts_edits
from ostler.store.paths import project_folder

MOST_FILES = 2_000
MOST_BYTES = 32 * 1024 * 1024
MOST_ENTRIES = 5_000
_SKIPPED = frozenset({"__pycache__", "node_modules"})
Signature = dict[str, tuple[int, int, int]]


class CodeFiles:
    """One version of an extension's files. An extension of the user may import what is beside it, which is
    read on import; one of a project only `reviewed` files, which were all read before."""

    def __init__(self, candidate: DiscoveredExtension, reviewed: Mapping[Path, bytes] | None = None) -> None:
        self.folder = candidate.path.parent if candidate.kind == "file" else candidate.path
        self._candidate = candidate
        self._reviewed = reviewed
        self._read: dict[Path, bytes] = {}

    def has(self, path: Path) -> bool:
        """Whether it can be imported: a file beside the extension, but no other extension."""
        if self._reviewed is not None:
            return path in self._reviewed
        return path.is_file() and (path == self._candidate.path or self._is_shared(path))

    def has_folder(self, path: Path) -> bool:
        """Whether modules of a package can be imported from there."""
        if self._reviewed is not None:
            return any(path in file.parents for file in self._reviewed)
        return path.is_dir() and self._is_shared(path)

    def _is_shared(self, path: Path) -> bool:
        """In a folder of many extensions, all of them may import what is no extension."""
        if self._candidate.kind != "file":
            return True
        beside = self.folder / path.relative_to(self.folder).parts[0]
        return is_code(beside) and kind_in_folder(beside) is None

    def read(self, path: Path) -> bytes:
        if path not in self._read:
            self._read[path] = path.read_bytes() if self._reviewed is None else self._reviewed[path]
        return self._read[path]

    @property
    def paths(self) -> list[Path]:
        """The files that were read."""
        return list(self._read)

    def read_program(self) -> None:
        """Reads the files of a program, which are not imported."""
        for path in _program_files(self.folder) if self._reviewed is None else self._reviewed:
            self.read(path)

    def has_changed(self) -> bool:
        """Whether a file that was read has another content now."""
        return any(_content(path) != content for path, content in self._read.items())

    def is_as_reviewed(self) -> bool:
        """Whether all files of a project's extension are still the reviewed ones."""
        try:
            return self._reviewed is None or all_files(self._candidate) == self._reviewed
        except Unusable:
            return False


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def all_files(candidate: DiscoveredExtension) -> dict[Path, bytes]:
    """All files of an extension except hidden ones. Raises `Unusable`, also for a link that leads out of it:
    such a file could change without being reviewed again."""
    files: dict[Path, bytes] = {}
    size = 0
    for path in _paths(candidate):
        if not path.is_file():
            raise Unusable(f"{path.name} is not a file")
        try:
            files[path] = path.read_bytes()
        except OSError as error:
            raise Unusable(f"{path} cannot be read: {error.strerror}") from None
        size += len(files[path])
        if len(files) > MOST_FILES or size > MOST_BYTES:
            limits = f"{MOST_FILES:,} files or {MOST_BYTES >> 20} MiB"
            raise Unusable(f"it has more than {limits}, too many to review")
    return files


def _paths(candidate: DiscoveredExtension) -> Iterator[Path]:
    if candidate.kind != "file":
        yield from _walk(candidate.path, candidate.path.resolve())
        return
    folder = candidate.path.parent
    yield candidate.path
    for path in sorted(folder.iterdir()):
        if not is_code(path) or kind_in_folder(path) is not None:
            continue
        if path.suffix == ".py":
            if not path.resolve().is_relative_to(folder.resolve()):
                raise Unusable(f"{path.name} is a link that leads out of its folder")
            yield path
        elif path.is_dir():
            yield from _walk(path, folder.resolve())


def _walk(folder: Path, inside: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if is_code(Path(name)))
        for name in (*folders, *sorted(files)):
            path = Path(place, name)
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                raise Unusable(f"{path.relative_to(folder.parent)} is a link that leads out of its folder")
            if name in files and not name.startswith("."):
                yield path


def _program_files(folder: Path) -> Iterator[Path]:
    """The manifest, the files that it names, and those of the same language."""
    fields = process_fields(folder)
    named = [path for one in (fields.exec, *fields.args) if one and (path := folder / one).is_file()]
    yield folder / MANIFEST
    yield from named
    endings = {path.suffix for path in named} - {""}
    yield from (path for path in map(Path, signature([folder])) if path.suffix in endings)


class ProjectExtension:
    """An extension of a project with all its files. Raises `Unusable` if they cannot be read."""

    def __init__(self, candidate: DiscoveredExtension) -> None:
        self.candidate = candidate
        self.files = all_files(candidate)
        self.content = _listing(self.files, candidate.path.parent)
        """What is trusted: each file's name and digest."""

    @property
    def code(self) -> CodeFiles:
        return CodeFiles(self.candidate, self.files)

    @property
    def is_trusted(self) -> bool:
        assert self.candidate.project is not None
        folder = project_folder(self.candidate.project)
        return trusts_edits(folder) or is_trusted(self.candidate.path, self.content)

    def trust(self) -> None:
        trust(self.candidate.path, self.content)

    def lines(self) -> list[str]:
        """The files to review, a line each."""
        folder = self.candidate.path.parent
        counts = {path: len(content.splitlines()) for path, content in self.files.items()}
        return [
            f"{printable_path(path.relative_to(folder))}: {count:,} line{'' if count == 1 else 's'}"
            for path, count in counts.items()
        ]


def _listing(files: Mapping[Path, bytes], folder: Path) -> bytes:
    from hashlib import sha256  # which loads OpenSSL; most projects have nothing to trust

    rows = (f"{path.relative_to(folder)}\0{sha256(content).hexdigest()}" for path, content in files.items())
    return "\n".join(sorted(rows)).encode(errors="surrogateescape")


def signature(places: Sequence[Path]) -> Signature:
    """The times, sizes and inodes of all files, to notice a change."""
    files: Signature = {}
    for place in places:
        for path, status in _below(str(place)):
            files[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
            if len(files) > MOST_ENTRIES:
                return files
    return files


def _below(path: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        with os.scandir(path) as scanned:
            entries = [one for one in scanned if not one.name.startswith(".") and one.name not in _SKIPPED]
    except NotADirectoryError:
        with suppress(OSError):
            yield path, os.stat(path)  # noqa: PTH116
        return
    except OSError:
        return
    for entry in entries:
        with suppress(OSError):  # it was deleted meanwhile
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path)
            else:
                yield entry.path, entry.stat()
