"""Uploaded files: stored under generated names, used as blocks of a prompt, and served safely.

Of the original name only a plain suffix becomes part of a path. No upload is served as a page.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import secrets
import shutil
import time
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ostler.models.credentials import write_privately
from ostler.schema.errors import NotFound, StoreError, StoreFull, ToolFailed
from ostler.schema.messages import File, Image, PlainBlock, Text
from ostler.schema.requests import AnyRequest, Prompt, Steer
from ostler.server.problems import RangeNotThere, TooLarge, error_response
from ostler.tools import media
from ostler.tools.read import read_file
from ostler.tools.truncation import LineWindow, size_text

MOST_BYTES = 50 * 1024 * 1024
"""Of one file."""

MOST_OF_ALL = 1024 * 1024 * 1024
"""Bytes of all files."""

MOST_FILES = 2000

KEPT_DAYS = 30
"""Since it was uploaded, or last used in a prompt."""

LONGEST_NAME = 200
_ABOUT = "about.json"
_ID = re.compile(r"upl_[0-9a-f]{32}")
_MEDIA_TYPE = re.compile(r"(?:text|application|audio|video|font|model)/[a-z0-9][a-z0-9.+-]{0,99}")


class Upload(msgspec.Struct, frozen=True):
    """An uploaded file. A block of a prompt refers to it with the URL `upload:ID`."""

    id: str
    name: str
    media_type: str
    size: int
    created_ms: int
    path: str = ""
    """Its path on the server's machine, for the tools of an agent."""


class Uploads:
    """The stored uploads, each in a private folder. An upload is complete when it has an `about.json`."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._now = now
        self._arriving: dict[str, int] = {}
        """Bytes received so far of incomplete uploads."""

    async def receive(self, name: str, media_type: str, pieces: AsyncIterator[bytes]) -> Upload:
        """Stores a file; an incomplete one is deleted."""
        self.sweep()
        uploads = self.all()
        if len(uploads) >= MOST_FILES:
            raise TooLarge(f"there are already {len(uploads)} uploads: delete some first")
        used = sum(one.size for one in uploads)
        id, name = f"upl_{secrets.token_hex(16)}", safe_name(name)
        path = self.folder / id / _file_name(name)
        size, head = 0, b""
        with self._new_file(id, path) as file:
            async for piece in pieces:
                size += len(piece)
                self._arriving[id] = size
                if used + sum(self._arriving.values()) > MOST_OF_ALL:
                    raise TooLarge(f"there are {size_text(used)} of uploads already: delete some first")
                head += piece[: media.SNIFFED - len(head)]
                file.write(piece)
            file.flush()
            about = Upload(id, name, _media_type(head, media_type), size, int(self._now() * 1000))
            write_privately(path.with_name(_ABOUT), msgspec.json.encode(about))
        return msgspec.structs.replace(about, path=str(path))

    @contextmanager
    def _new_file(self, id: str, path: Path) -> Iterator[IO[bytes]]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700)
            with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                yield file
        except BaseException as error:
            shutil.rmtree(path.parent, ignore_errors=True)
            if isinstance(error, OSError):
                kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreError
                raise kind(f"the upload cannot be stored: {error.strerror}") from None
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
        uploads = []
        for id in self._ids():
            with suppress(NotFound):  # it is incomplete, or was just removed
                uploads.append(self.find(id))
        return sorted(uploads, key=lambda one: one.created_ms, reverse=True)

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
        """Removes uploads that were not used for long, and incomplete ones of earlier processes."""
        oldest = self._now() - KEPT_DAYS * 86400
        for id in self._ids():
            folder = self.folder / id
            about = folder / _ABOUT
            try:
                used = (about if about.exists() else folder).stat().st_mtime
            except OSError:  # another process removes it
                continue
            if used < oldest:
                shutil.rmtree(folder, ignore_errors=True)

    def _ids(self) -> list[str]:
        try:
            return [one.name for one in self.folder.iterdir() if _ID.fullmatch(one.name)]
        except OSError:  # nothing was uploaded yet
            return []


def safe_name(name: str) -> str:
    """The last part of a name, without characters that are special in a terminal, a header or a path."""
    printable = "".join("/" if _is_slash(one) else one for one in name if one.isprintable())
    last = printable.rpartition("/")[2].lstrip(" ").rstrip(" .")
    while len(last.encode()) > LONGEST_NAME:
        stem, dot, ending = last.rpartition(".")
        last = f"{stem[:-1]}.{ending}" if dot and stem and len(ending) < 20 else last[:-1]
    return last.rstrip(" .") or "file"


def _is_slash(character: str) -> bool:
    """Also for characters that become a slash when a name is normalised."""
    folded = unicodedata.normalize("NFKC", character)
    return "/" in folded or "\\" in folded or character in "\u2215\u29f5\u29f8\u2044\ufe68"


def _file_name(name: str) -> str:
    ending = name.rpartition(".")[2]
    return f"file.{ending.lower()}" if re.fullmatch(r"[A-Za-z0-9]{1,10}", ending) and "." in name else "file"


def _media_type(head: bytes, declared: str) -> str:
    """The type that its first bytes show; else the declared one, if that would not show in the bytes."""
    if image_type := media.image_type(head):
        return image_type
    if media.is_pdf(head):
        return "application/pdf"
    declared = declared.partition(";")[0].strip().lower()
    if _MEDIA_TYPE.fullmatch(declared) and declared != "application/pdf":
        return declared
    return "application/octet-stream" if media.is_binary(head) else "text/plain"


SCHEME = "upload:"

MOST_TEXT = 200 * 1024
"""Bytes of a text that becomes part of the prompt; a longer one is only named by its path."""

MOST_ATTACHED = 20 * 1024 * 1024
"""Characters of images and documents in one prompt, in base64."""


async def with_uploads(uploads: Uploads, request: AnyRequest, driver: str = "agent") -> AnyRequest:
    """The request with its uploads as blocks. An agent of another vendor takes only text: it gets the path.
    Raises `NotFound`."""
    if not isinstance(request, Prompt | Steer):
        return request
    make_block = block_of if driver == "agent" else _path_of
    return msgspec.structs.replace(request, content=await filled(uploads, request.content, make_block))


async def filled(
    uploads: Uploads, content: Sequence[PlainBlock], make_block: Callable[[Uploads, Upload], PlainBlock]
) -> tuple[PlainBlock, ...]:
    """The content with its uploads as blocks. Raises `NotFound`."""
    blocks: list[PlainBlock] = []
    for block in content:
        if isinstance(block, Text) or not block.url.startswith(SCHEME):
            blocks.append(block)
            continue
        upload = uploads.find(block.url.removeprefix(SCHEME))
        uploads.keep_longer(upload)
        blocks.append(await asyncio.to_thread(make_block, uploads, upload))
    if sum(len(one.data) for one in blocks if not isinstance(one, Text)) > MOST_ATTACHED:
        raise TooLarge(f"a prompt may have at most {size_text(MOST_ATTACHED)} of images and documents")
    return tuple(blocks)


def block_of(uploads: Uploads, upload: Upload) -> PlainBlock:
    """An image or a document, a text with its name, or the path of anything else. Reads the file: not for the
    event loop."""
    if upload.media_type.startswith("image/") or upload.media_type == "application/pdf":
        return _attached(upload) or _path_of(uploads, upload)
    if upload.size > MOST_TEXT:
        return _path_of(uploads, upload)
    content = uploads.read(upload, 0, MOST_TEXT)
    if media.is_binary(content):
        return _path_of(uploads, upload)
    text = content.decode("utf-8-sig", "replace")
    return Text(f"--- {upload.name}, uploaded ---\n{text}")


def _attached(upload: Upload) -> Image | File | None:
    """None if it is too large for vendors."""
    path = Path(upload.path).resolve()
    try:
        file = read_file(path, upload.name, LineWindow(1, 1), path.parent, lambda: False)
    except ToolFailed:
        return None
    block = file.content[-1]
    if isinstance(block, File):
        return msgspec.structs.replace(block, name=upload.name)
    return block if isinstance(block, Image) else None


def _path_of(uploads: Uploads, upload: Upload) -> Text:
    about = f"{upload.media_type}, {size_text(upload.size)}"
    return Text(f"the file {upload.name} ({about}) was uploaded; it is at {upload.path}")


INLINE_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PIECE = 256 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")

Read = Callable[[int, int], Awaitable[bytes]]
"""Bytes from a position on."""


def content_response(request: Request, name: str, media_type: str, size: int, read: Read) -> Response:
    """The whole content, or the requested range."""
    response_type, disposition = _response_type(media_type)
    headers = {
        "accept-ranges": "bytes",
        "content-disposition": f"{disposition}; filename*=UTF-8''{quote(name, '')}",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "private, no-cache",
    }
    # There is no validator, so the condition of `If-Range` never holds.
    header = "" if "if-range" in request.headers else request.headers.get("range", "")
    if (byte_range := _range(header, size)) is None:
        error = error_response(RangeNotThere(f"there are {size} bytes"))
        error.headers["content-range"] = f"bytes */{size}"
        return error
    start, end = byte_range
    is_part = (start, end) != (0, size)
    if is_part:
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    headers["content-length"] = str(end - start)
    return StreamingResponse(_pieces(read, start, end), 206 if is_part else 200, headers, response_type)


def _response_type(media_type: str) -> tuple[str, Literal["inline", "attachment"]]:
    """The media type of the response, and whether a browser shows or saves it."""
    plain = media_type.partition(";")[0].strip().lower()
    if plain in INLINE_IMAGES:
        return plain, "inline"
    if plain.startswith("text/") or plain == "application/json":
        return "text/plain; charset=utf-8", "inline"
    return ("application/pdf" if plain == "application/pdf" else "application/octet-stream"), "attachment"


def _range(header: str, size: int) -> tuple[int, int] | None:
    """The start and the end of the requested range; None if there is no such part. Ignores an invalid one."""
    match = _RANGE.fullmatch(header.strip())
    if match is None or not (match[1] or match[2]):
        return 0, size
    if not match[1]:
        last = int(match[2])
        return (max(0, size - last), size) if last and size else None
    start = int(match[1])
    if match[2] and int(match[2]) < start:
        return 0, size
    end = min(size, int(match[2]) + 1) if match[2] else size
    return (start, end) if start < size else None


async def _pieces(read: Read, start: int, end: int) -> AsyncIterator[bytes]:
    while start < end:
        piece = await read(start, min(PIECE, end - start))
        if not piece:
            return
        start += len(piece)
        yield piece
