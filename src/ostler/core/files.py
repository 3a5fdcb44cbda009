"""Replaces a file in one step: a reader sees the old or the new content, never a part. And opens files that
permission has judged: a link that appeared since then is an error, and never leads elsewhere."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ostler.schema.errors import ToolFailed
from ostler.schema.ids import new_id

_MOST_OPEN = 64
_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
# A folder on the way need not be readable: its entries are only looked up by name.
_STEP = getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY)) | os.O_DIRECTORY | _NO_LINK


def write_atomically(path: Path, data: bytes, *, private: bool = False) -> None:
    """Writes a temporary file in the same folder and renames it. Keeps the mode and, if permitted, the owner;
    resolve `path` first to follow a symbolic link. With `private`, only their owner can ever read the file
    and the folders made for it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
    folder = os.open(path.parent, _STEP & ~os.O_NOFOLLOW)
    try:
        _replace(folder, path, data, private=private)
    finally:
        os.close(folder)


def write_judged(path: Path, data: bytes) -> None:
    """Like `write_atomically`, for a resolved path: no part of it may be a symbolic link by now."""
    with judged_folder(path.parent, create=True) as folder:
        _replace(folder, path, data, private=False)


def _replace(folder: int, path: Path, data: bytes, *, private: bool) -> None:
    before = None if private else _entry(folder, path)
    if before is not None and not stat.S_ISREG(before.st_mode):
        raise ToolFailed(f"{path} is not a regular file")
    # Its name is short: one made of the file's own name could be too long.
    temporary = f".{new_id('tmp')}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
    descriptor = os.open(temporary, flags, 0o600 if private else 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                _copy_owner_and_mode(before, file.fileno())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _copy_owner_and_mode(before: os.stat_result, descriptor: int) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):  # only root may give a file away; then it is ours, as with any editor
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _entry(folder: int, path: Path) -> os.stat_result | None:
    """The status of an entry of the folder, itself and not what a link leads to; None if it is not there."""
    try:
        return os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


@contextmanager
def judged_folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of a folder for `dir_fd`, opened part by part from the root. The path must be resolved:
    `ToolFailed` says so if a part of it is a symbolic link by now. `create` makes missing folders."""
    if not path.is_absolute() or ".." in path.parts:
        raise ToolFailed(f"{path} is not a resolved path")
    folder = os.open(path.anchor, _STEP)
    try:
        for count, name in enumerate(path.parts[1:], 2):
            try:
                below = os.open(name, _STEP, dir_fd=folder)
            except FileNotFoundError:
                if not create:
                    raise
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
                below = _step(folder, Path(*path.parts[:count]))
            except OSError:
                below = _step(folder, Path(*path.parts[:count]))
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _step(folder: int, path: Path) -> int:
    """Opens a folder in a folder; an error that a link causes names the link."""
    try:
        return os.open(path.name, _STEP, dir_fd=folder)
    except OSError:
        _refuse_link(_entry(folder, path), path)
        raise


def _refuse_link(status: os.stat_result | None, path: Path) -> None:
    if status is not None and stat.S_ISLNK(status.st_mode):
        raise ToolFailed(f"{path} has become a symbolic link since the call was checked: try again")


def judged_status(path: Path) -> os.stat_result | None:
    """The status of what is at a resolved path; None if nothing is."""
    try:
        with judged_folder(path.parent) as folder:
            status = _entry(folder, path)
    except FileNotFoundError:
        return None
    _refuse_link(status, path)
    return status


@contextmanager
def open_judged(path: Path) -> Iterator[BinaryIO]:
    """Opens the regular file at a resolved path for reading, unbuffered. Neither a link that appeared there,
    nor a pipe or device, is opened."""
    with judged_folder(path.parent) as folder:
        status = _entry(folder, path)
        if status is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        _refuse_link(status, path)
        if not stat.S_ISREG(status.st_mode):
            raise ToolFailed(f"{path} is not a regular file")
        # If it became a pipe meanwhile, opening it must not block.
        descriptor = os.open(path.name, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK, dir_fd=folder)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ToolFailed(f"{path} is not a regular file")
        yield file


def existing_below(folder: int, path: Path, names: Iterable[str]) -> Iterator[str]:
    """Those of these relative paths that are below the open folder, with no link between: a search that walks
    by name may have been led elsewhere. `path` is the folder's."""
    inside: dict[Path, int] = {Path(): folder}
    try:
        for name in names:
            relative = Path(name)
            with suppress(OSError, ToolFailed):
                if _entry(_opened_below(inside, relative.parent, path), relative) is not None:
                    yield name
    finally:
        for descriptor in [one for one in inside.values() if one != folder]:
            os.close(descriptor)


def _opened_below(inside: dict[Path, int], relative: Path, path: Path) -> int:
    """The descriptor of a folder below; each folder is opened once, in the one above it."""
    if relative not in inside:
        above = _opened_below(inside, relative.parent, path)
        if len(inside) > _MOST_OPEN:
            for one in [one for one in inside if one != Path() and one not in relative.parents]:
                os.close(inside.pop(one))
        inside[relative] = _step(above, path / relative)
    return inside[relative]


@contextmanager
def listed_folder(path: Path) -> Iterator[int]:
    """A descriptor for listing the folder at a resolved path, as `os.scandir` takes it."""
    with judged_folder(path) as folder:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | _NO_LINK, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
