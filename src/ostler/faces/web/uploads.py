"""Files that were sent to the server, kept under names of our own.

What a file was called is only text: no path is made of it but its ending, and only if that is plain.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import time
import unicodedata
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ostler.faces.web.problems import TooLarge
from ostler.models.key_file import write_privately
from ostler.tools import file_kinds
from ostler.tools.truncation import size_text
from ostler.vocabulary.errors import NotFound, StoreError, StoreFull

MOST_BYTES = 50 * 1024 * 1024
"""Of one file."""
MOST_OF_ALL = 1024 * 1024 * 1024
"""Bytes of all of them."""
MOST_FILES = 2000
KEPT_DAYS = 30
"""Since it came, or was last named in a prompt."""
LONGEST_NAME = 200
_ABOUT = "about.json"
_ID = re.compile(r"upl_[0-9a-f]{32}")
_MEDIA_TYPE = re.compile(r"(?:text|application|audio|video|font|model)/[a-z0-9][a-z0-9.+-]{0,99}")


class Upload(msgspec.Struct, frozen=True):
    """A file that was sent here. A prompt names it with the address `upload:ID` of a block."""

    id: str
    name: str
    media_type: str
    size: int
    created_ms: int
    path: str = ""
    """Where it is on the server's machine, for the tools of an agent."""


class Uploads:
    """Each has a folder that only its owner can look into. It counts when `about.json` is there."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._now = now
        self._arriving: dict[str, int] = {}
        """Bytes of those that are on their way."""

    async def take(self, name: str, said_type: str, pieces: AsyncIterator[bytes]) -> Upload:
        """Keeps what comes. One that breaks off leaves nothing."""
        self.sweep()
        there = self.all()
        if len(there) >= MOST_FILES:
            raise TooLarge(f"there are {len(there)} uploads already: delete some first")
        used = sum(one.size for one in there)
        id, name = f"upl_{secrets.token_hex(16)}", safe_name(name)
        path = self.folder / id / _file_name(name)
        size, head = 0, b""
        with self._writing(id, path) as descriptor:
            async for piece in pieces:
                size += len(piece)
                self._arriving[id] = size
                if used + sum(self._arriving.values()) > MOST_OF_ALL:
                    raise TooLarge(f"there are {size_text(used)} of uploads already: delete some first")
                head += piece[: file_kinds.SNIFFED - len(head)]
                _write(descriptor, piece)
            about = Upload(id, name, _media_type(head, said_type), size, int(self._now() * 1000))
            write_privately(path.with_name(_ABOUT), msgspec.json.encode(about))
        return msgspec.structs.replace(about, path=str(path))

    @contextmanager
    def _writing(self, id: str, path: Path) -> Iterator[int]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700)
            descriptor = os.open(path, flags, 0o600)
            try:
                yield descriptor
            finally:
                os.close(descriptor)
        except BaseException as error:
            shutil.rmtree(path.parent, ignore_errors=True)
            if isinstance(error, OSError):
                kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreError
                raise kind(f"the upload cannot be kept: {error.strerror}") from None
            raise
        finally:
            self._arriving.pop(id, None)

    def find(self, id: str) -> Upload:
        """Raises `NotFound`."""
        missing = NotFound(f"there is no upload {id[:100]!r}; they are kept for {KEPT_DAYS} days")
        if not _ID.fullmatch(id):
            raise missing
        folder = self.folder / id
        try:
            about = msgspec.json.decode((folder / _ABOUT).read_bytes(), type=Upload)
        except (OSError, msgspec.DecodeError):
            raise missing from None
        path = folder / _file_name(about.name)
        if folder.is_symlink() or path.is_symlink() or not path.is_file():
            raise missing
        return msgspec.structs.replace(about, id=id, path=str(path))

    def all(self) -> list[Upload]:
        """The newest first."""
        found = []
        for id in self._ids():
            try:
                found.append(self.find(id))
            except NotFound:  # it is on its way, or was just removed
                continue
        return sorted(found, key=lambda one: one.created_ms, reverse=True)

    def read(self, upload: Upload, start: int, size: int) -> bytes:
        try:
            descriptor = os.open(upload.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            raise NotFound(f"there is no upload {upload.id!r}") from None
        try:
            return os.pread(descriptor, size, start)
        finally:
            os.close(descriptor)

    def remove(self, id: str) -> None:
        """Raises `NotFound`."""
        self.find(id)
        shutil.rmtree(self.folder / id, ignore_errors=True)

    def keep_longer(self, upload: Upload) -> None:
        now = self._now()
        os.utime(self.folder / upload.id / _ABOUT, (now, now))

    def sweep(self) -> None:
        """Removes those that nobody has used for long, and what was left when a process ended."""
        oldest = self._now() - KEPT_DAYS * 86400
        for id in self._ids():
            folder = self.folder / id
            about = folder / _ABOUT
            try:
                used = (about if about.exists() else folder).stat().st_mtime
            except OSError:  # somebody else removes it
                continue
            if used < oldest:
                shutil.rmtree(folder, ignore_errors=True)

    def _ids(self) -> list[str]:
        try:
            return [one.name for one in self.folder.iterdir() if _ID.fullmatch(one.name)]
        except OSError:  # nothing was sent yet
            return []


def _write(descriptor: int, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(descriptor, left) :]


def safe_name(name: str) -> str:
    """The last part of a name, without what a terminal, a header or a path would obey."""
    shown = "".join("/" if _is_slash(one) else one for one in name if one.isprintable())
    last = shown.rpartition("/")[2].lstrip(" ").rstrip(" .")
    while len(last.encode()) > LONGEST_NAME:
        stem, dot, ending = last.rpartition(".")
        last = f"{stem[:-1]}.{ending}" if dot and stem and len(ending) < 20 else last[:-1]
    return last.rstrip(" .") or "file"


def _is_slash(character: str) -> bool:
    """Also what becomes one when a name is normalised."""
    folded = unicodedata.normalize("NFKC", character)
    return "/" in folded or "\\" in folded or character in "\u2215\u29f5\u29f8\u2044\ufe68"


def _file_name(name: str) -> str:
    ending = name.rpartition(".")[2]
    return f"file.{ending.lower()}" if re.fullmatch(r"[A-Za-z0-9]{1,10}", ending) and "." in name else "file"


def _media_type(head: bytes, said: str) -> str:
    """What its bytes say; else what was said of it, where that claims nothing that bytes would show."""
    if picture := file_kinds.image_type(head):
        return picture
    if file_kinds.is_pdf(head):
        return "application/pdf"
    said = said.partition(";")[0].strip().lower()
    if _MEDIA_TYPE.fullmatch(said) and said != "application/pdf":
        return said
    return "application/octet-stream" if file_kinds.is_binary(head) else "text/plain"
