"""The read tool: lines of a text file, a picture, a document, or a stored tool output."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ostler.core import files
from ostler.core.function_tool import tool
from ostler.core.lazy import lazy_module
from ostler.core.secrets import MaskedStream
from ostler.core.tool import ToolContext
from ostler.schema.errors import NotFound, ToolFailed
from ostler.schema.messages import File, Image
from ostler.schema.outcomes import Ok, ok
from ostler.tools.files import (
    MAX_DIGESTED,
    Stop,
    digest_of,
    display_path,
    file_errors,
    judged_path,
    new_digest,
    not_found,
    remember,
    run_cancellable,
    stamp_of,
)
from ostler.tools.truncation import MAX_LINES, LineWindow, size_text

if TYPE_CHECKING:
    from ostler.tools import media
    from ostler.tools.media import Scaled
else:
    media = lazy_module("ostler.tools.media")

MAX_IMAGE = 5 * 1024 * 1024 * 3 // 4
"""Vendors accept pictures of up to 5 MiB in base64."""
MAX_SCALED_IMAGE = 64 * 1024 * 1024
"""A picture that is scaled down may have a larger file."""
MAX_DOCUMENT = 15 * 1024 * 1024
BLOB_PREFIX = "blob:"
_PIECE = 256 * 1024


class _Attachment(msgspec.Struct, frozen=True):
    media_type: str
    content: bytes
    digest: str
    """Of the file, also when the content is a smaller copy."""
    scaled: Scaled | None = None


class _Lines(msgspec.Struct, frozen=True):
    window: LineWindow
    digest: str
    complete: bool
    """All of the text was seen, so its number of lines is known."""


@tool(source="built-in", kind="read", parallel=True)
async def read(
    path: str,
    offset: Annotated[int, msgspec.Meta(ge=0)] = 1,
    limit: Annotated[int, msgspec.Meta(ge=1)] = MAX_LINES,
    column: Annotated[int, msgspec.Meta(ge=1)] = 1,
    *,
    context: ToolContext,
) -> Ok:
    """Reads a file. Text is returned as numbered lines (number, tab, line), at most 2000 lines or 50 KiB at a
    time; continue with offset. Pictures (PNG, JPEG, GIF, WebP) and PDF files are attached. For directories,
    use ls.

    Args:
        path: the file, relative to the working directory or absolute; or blob:ID for a stored output
        offset: the first line to read, counted from 1
        limit: the maximum number of lines
        column: the character to start from in the first of these lines, to continue a very long line
    """
    window = LineWindow(offset, limit, column)
    if path.startswith(BLOB_PREFIX):
        return await _read_blob(path, window, context)
    file = judged_path(path, context)
    result = await run_cancellable(lambda stop: read_file(file, path, window, context.cwd, stop))
    remember(context.memory, file, (result.details or {})["digest"])
    return result


def read_file(file: Path, raw_path: str, window: LineWindow, cwd: Path, stop: Stop) -> Ok:
    """The result for a resolved path; its `details` have the file's digest. Blocks."""
    with file_errors(raw_path):
        _refuse_what_cannot_be_read(file, raw_path)
        loaded = _load(file, raw_path, window, stop)
    name = display_path(file, cwd)
    if isinstance(loaded, _Attachment):
        return _as_attachment(loaded, name)
    return _as_text(loaded, {"path": name, "digest": loaded.digest})


def _refuse_what_cannot_be_read(file: Path, raw_path: str) -> None:
    """Also keeps us from opening a pipe or a device, which could block for ever."""
    status = files.judged_status(file)
    if status is None:
        raise not_found(file, raw_path)
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailed(f"{raw_path} is a directory: use ls to list it")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailed(f"{raw_path} is a pipe, socket or device, not a regular file")


def _load(file: Path, raw_path: str, window: LineWindow, stop: Stop) -> _Attachment | _Lines:
    with files.open_judged(file) as source:
        status = os.fstat(source.fileno())
        head = source.read(media.SNIFFED)
        media_type = media.image_type(head) or ("application/pdf" if media.is_pdf(head) else "")
        pieces = _pieces(head, source)
        if media_type:
            return _whole(media_type, pieces, raw_path, status.st_size)
        if media.is_binary(head):
            kind = f"{media.binary_kind(head)}, {size_text(status.st_size)}"
            raise ToolFailed(f"{raw_path} is binary ({kind}): use bash with a program that can read it")
        return _text_lines(pieces, status, window, stop)


def _pieces(head: bytes, source: Any) -> Iterator[bytes]:
    piece = head
    while piece:
        yield piece
        piece = source.read(_PIECE)


def _whole(media_type: str, pieces: Iterator[bytes], raw_path: str, size: int) -> _Attachment:
    is_image = media_type != "application/pdf"
    limit = MAX_IMAGE if is_image else MAX_DOCUMENT
    if size > (MAX_SCALED_IMAGE if is_image and media.can_scale() else limit):
        raise _too_large(media_type, raw_path, size, limit)
    content = b"".join(pieces)
    digest = digest_of(content)
    scaled = media.scaled_down(content, media_type) if is_image else None
    if scaled and len(scaled.content) <= limit:
        return _Attachment(scaled.media_type, scaled.content, digest, scaled)
    if len(content) > limit:
        raise _too_large(media_type, raw_path, len(content), limit)
    return _Attachment(media_type, content, digest)


def _too_large(media_type: str, raw_path: str, size: int, limit: int) -> ToolFailed:
    return ToolFailed(
        f"{raw_path} is too large to show ({media_type}, {size_text(size)}, the limit is "
        f"{size_text(limit)}): make a smaller copy and read that"
    )


def _text_lines(pieces: Iterator[bytes], status: os.stat_result, window: LineWindow, stop: Stop) -> _Lines:
    digest = new_digest()
    is_huge = status.st_size > MAX_DIGESTED
    masked = MaskedStream()  # before lines are cut: a part of a key would not be recognised
    for piece in pieces:
        window.feed(masked.feed(piece))
        if stop() or (is_huge and window.full):
            break
        if not is_huge:
            digest.update(piece)
    else:
        window.feed(masked.end())
        window.finish()
        return _Lines(window, stamp_of(status) if is_huge else digest.hexdigest(), complete=True)
    return _Lines(window, stamp_of(status), complete=False)


def _as_attachment(loaded: _Attachment, name: str) -> Ok:
    from base64 import b64encode

    media_type, data = loaded.media_type, b64encode(loaded.content).decode()
    is_pdf = media_type == "application/pdf"
    block = File(media_type, name=Path(name).name, data=data) if is_pdf else Image(media_type, data=data)
    count = len(loaded.content)
    details = {"path": name, "media_type": media_type, "bytes": count, "digest": loaded.digest}
    about = f"{media_type}, {size_text(count)}"
    if loaded.scaled:
        original, size = loaded.scaled.original_size, loaded.scaled.size
        about += f"; scaled down from {original[0]}×{original[1]} to {size[0]}×{size[1]} pixels"
        details |= {"size": list(size), "original_size": list(original)}
    return ok(f"{name} ({about})", block, details=details, summary=f"{name} ({about})")


def _as_text(loaded: _Lines, details: dict[str, Any]) -> Ok:
    window = loaded.window
    total = window.total if loaded.complete else None
    has_more = total is None or window.end < total
    details |= {
        "start_line": window.start,
        "end_line": window.end,
        "total_lines": total,
        "truncated": (has_more and bool(window.lines)) or window.cut_lines > 0,
    }
    rows = [f"{number}\t{line}" for number, line in enumerate(window.lines, window.start)]
    rows += _notes(window, total, has_more)
    count = len(window.lines)
    return ok("\n".join(rows), details=details, summary=f"{count} line{'' if count == 1 else 's'}")


def _notes(window: LineWindow, total: int | None, has_more: bool) -> list[str]:
    notes = []
    if total == 0:
        notes.append("(empty file)")
    elif not window.lines:
        notes.append(f"[there are only {total} lines: offset {window.start} is past the end]")
    elif has_more:
        of_total = f" of {total}" if total is not None else "; more follow"
        lines = f"{window.start}-{window.end}{of_total}"
        notes.append(f"[lines {lines}; use offset={window.end + 1} to continue]")
    line, length, column = window.start, window.first_line_length, window.column
    if window.lines and column > max(length, 1):
        notes.append(f"[line {line} has only {length} characters: column {column} is past its end]")
    if window.invalid_utf8:
        notes.append("[not valid UTF-8: bytes that could not be decoded are shown as \ufffd]")
    return notes


async def _read_blob(path: str, window: LineWindow, context: ToolContext) -> Ok:
    blob = path.removeprefix(BLOB_PREFIX)
    position = 0
    try:
        while piece := await context.read_blob(blob, position, _PIECE):
            position += len(piece)
            window.feed(piece)
            if window.full and position > MAX_DIGESTED:
                return _as_text(_Lines(window, "", complete=False), {"path": path})
    except NotFound:
        raise ToolFailed(f"{path}: there is no stored output with that id") from None
    window.finish()
    return _as_text(_Lines(window, "", complete=True), {"path": path})
