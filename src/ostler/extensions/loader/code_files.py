"""The files of an extension, read once: the reviewed bytes are the ones that run; and trust in them.

A project's extension does not run before the user has trusted the present content of all its files.
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
from ostler.permissions.memory import project_folder
from ostler.permissions.trust import is_trusted, trust, trusts_edits

MOST_FILES = 2_000
MOST_BYTES = 32 * 1024 * 1024


class CodeFiles:
    """One version of an extension's files.

    One's own extension may import whatever lies beside it, and it is read when that happens. Of a project's,
    everything was read before, to be trusted: nothing else can be imported.
    """

    def __init__(self, found: DiscoveredExtension, known: Mapping[Path, bytes] | None = None) -> None:
        self.folder = found.path.parent if found.kind == "file" else found.path
        self._found = found
        self._is_complete = known is not None
        self._known: dict[Path, bytes] = dict(known or {})
        self._read: dict[Path, bytes] = {}

    def has(self, path: Path) -> bool:
        """Whether it can be imported: a file beside the extension, but no other extension."""
        if self._is_complete:
            return path in self._known
        if not path.is_file():
            return False
        return self._found.kind != "file" or path == self._found.path or _is_beside(path, self.folder)

    def has_folder(self, path: Path) -> bool:
        """Whether modules of a package can be imported from there."""
        if self._is_complete:
            return any(path in file.parents for file in self._known)
        return path.is_dir() and (self._found.kind != "file" or _is_beside(path, self.folder))

    def read(self, path: Path) -> bytes:
        if path not in self._read:
            self._read[path] = self._known[path] if self._is_complete else path.read_bytes()
        return self._read[path]

    @property
    def paths(self) -> list[Path]:
        """Those that were read."""
        return list(self._read)

    def read_program(self) -> None:
        """Reads what a program is made of, which nobody imports: all that was looked at, or what is known."""
        for path in self._known if self._is_complete else _program_files(self.folder):
            self.read(path)

    def has_changed(self) -> bool:
        """Whether a file that was read says something else now."""
        return any(_content(path) != content for path, content in self._read.items())

    @property
    def is_as_looked_at(self) -> bool:
        """Whether all files of a project's extension are still those that were looked at."""
        try:
            return not self._is_complete or all_files(self._found) == self._known
        except Unusable:
            return False


def _is_beside(path: Path, folder: Path) -> bool:
    """In a folder of many extensions, only what is none of them is there for all."""
    beside = folder / path.relative_to(folder).parts[0]
    return is_code(beside) and kind_in_folder(beside) is None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def all_files(found: DiscoveredExtension) -> dict[Path, bytes]:
    """Everything that belongs to an extension, hidden files excepted. Raises `Unusable`.

    Nothing in it may be a link that leads out of it: such a file could change without being looked at again.
    """
    files: dict[Path, bytes] = {}
    size = 0
    for path in _paths(found):
        if not path.is_file():
            raise Unusable(f"{path.name} is not a file")
        try:
            files[path] = path.read_bytes()
        except OSError as error:
            raise Unusable(f"{path} cannot be read: {error.strerror}") from None
        size += len(files[path])
        if len(files) > MOST_FILES or size > MOST_BYTES:
            raise Unusable(
                f"it has more than {MOST_FILES:,} files or {MOST_BYTES >> 20} MiB, too many to be looked at"
            )
    return files


def _paths(found: DiscoveredExtension) -> Iterator[Path]:
    if found.kind != "file":
        yield from _walk(found.path, found.path.resolve())
        return
    folder = found.path.parent
    yield found.path
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
    """An extension that came with a project, and every file of it. Raises `Unusable` when that cannot be."""

    def __init__(self, found: DiscoveredExtension) -> None:
        self.found = found
        self.files = all_files(found)
        self.content = listing(self.files, found.path.parent)
        """What is trusted: each file's name and digest."""

    @property
    def code(self) -> CodeFiles:
        return CodeFiles(self.found, self.files)

    @property
    def is_trusted(self) -> bool:
        assert self.found.project is not None
        return trusts_edits(project_folder(self.found.project)) or is_trusted(self.found.path, self.content)

    def trust(self) -> None:
        trust(self.found.path, self.content)

    def lines(self) -> list[str]:
        """What there is to look at, a line for each file."""
        folder = self.found.path.parent
        return [
            f"{printable_path(path.relative_to(folder))}: {line_count(len(content.splitlines()))}"
            for path, content in self.files.items()
        ]


def line_count(lines: int) -> str:
    return f"{lines:,} line{'' if lines == 1 else 's'}"


def listing(files: Mapping[Path, bytes], folder: Path) -> bytes:
    from hashlib import sha256  # which loads OpenSSL; most projects have nothing to trust

    rows = (f"{path.relative_to(folder)}\0{sha256(content).hexdigest()}" for path, content in files.items())
    return "\n".join(sorted(rows)).encode(errors="surrogateescape")


MOST_ENTRIES = 5_000
_SKIPPED = frozenset({"__pycache__", "node_modules"})
Signature = dict[str, tuple[int, int, int]]


def signature(places: Sequence[Path]) -> Signature:
    """What would be different if a file were."""
    seen: Signature = {}
    for place in places:
        for path, status in _below(str(place)):
            seen[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
            if len(seen) > MOST_ENTRIES:
                return seen
    return seen


def _below(path: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        with os.scandir(path) as entries:
            found = [one for one in entries if not one.name.startswith(".") and one.name not in _SKIPPED]
    except NotADirectoryError:
        with suppress(OSError):
            yield path, os.stat(path)  # noqa: PTH116
        return
    except OSError:
        return
    for entry in found:
        with suppress(OSError):  # gone a moment ago
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path)
            else:
                yield entry.path, entry.stat()
