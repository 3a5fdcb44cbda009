"""Bytes that people or tools brought, answered so that a browser never runs any of them as a page of ours."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ostler.faces.web.problems import RangeNotThere, problem_of, problem_response

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PIECE = 256 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")

Read = Callable[[int, int], Awaitable[bytes]]
"""Bytes from a position on."""


def content_response(request: Request, name: str, media_type: str, size: int, read: Read) -> Response:
    """All of it, or the range that is asked for."""
    shown_type, is_inline = _shown_as(media_type)
    shown_how = "inline" if is_inline else "attachment"
    headers = {
        "accept-ranges": "bytes",
        "content-disposition": f"{shown_how}; filename*=UTF-8''{quote(name, '')}",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "private, no-cache",
    }
    # Without a validator nobody can know that a condition holds: then all of it is sent.
    asked = "" if "if-range" in request.headers else request.headers.get("range", "")
    found = _range(asked, size)
    if found is None:
        refused = problem_response(problem_of(RangeNotThere(f"there are {size} bytes")))
        refused.headers["content-range"] = f"bytes */{size}"
        return refused
    start, end = found
    is_part = (start, end) != (0, size)
    if is_part:
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    headers["content-length"] = str(end - start)
    pieces = _pieces(read, start, end)
    return StreamingResponse(pieces, 206 if is_part else 200, headers, shown_type)


def _shown_as(media_type: str) -> tuple[str, bool]:
    """The media type to say, and whether a browser may show it instead of keeping it."""
    plain = media_type.partition(";")[0].strip().lower()
    if plain in PICTURES:
        return plain, True
    if plain.startswith("text/") or plain == "application/json":
        return "text/plain; charset=utf-8", True
    return ("application/pdf" if plain == "application/pdf" else "application/octet-stream"), False


def _range(asked: str, size: int) -> tuple[int, int] | None:
    """From where to where; None for what is not there. One that is not understood is passed over."""
    found = _RANGE.fullmatch(asked.strip())
    if found is None or not (found[1] or found[2]):
        return 0, size
    if not found[1]:
        last = int(found[2])
        return (max(0, size - last), size) if last and size else None
    start = int(found[1])
    if found[2] and int(found[2]) < start:
        return 0, size
    end = min(size, int(found[2]) + 1) if found[2] else size
    return (start, end) if start < size else None


async def _pieces(read: Read, start: int, end: int) -> AsyncIterator[bytes]:
    while start < end:
        piece = await read(start, min(PIECE, end - start))
        if not piece:
            return
        start += len(piece)
        yield piece
