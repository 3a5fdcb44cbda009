"""Reading a body: how much of it, and how slowly it may come."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from ostler.faces.web.problems import TooLarge, TooSlow

MOST_BODY = 10 * 1024 * 1024
"""Bytes of a request that is not an upload: an uploaded file is named in it, or stands in it as base64."""
PATIENCE = 30.0
"""Seconds that the first bytes of a body may take."""
SLOWEST = 4096
"""Bytes a second that it must bring from then on."""


def limited(receive: Receive, headers: Headers, most: int) -> Receive:
    """Raises `TooLarge` before, or as soon as, more than `most` bytes come, and `TooSlow`."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 15 or int(announced) > most):
        raise TooLarge(f"this may have {_size(most)} at most")
    seen = 0
    is_whole = False
    began: float | None = None

    async def counted() -> Message:
        nonlocal seen, is_whole, began
        if is_whole:  # only the end of the connection can come
            return await receive()
        began = began or asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(began + PATIENCE + seen / SLOWEST):
                message = await receive()
        except TimeoutError:
            raise TooSlow(f"the body came too slowly: {seen} bytes so far") from None
        seen += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if seen > most:
            raise TooLarge(f"this may have {_size(most)} at most")
        return message

    return counted


def _size(number: int) -> str:
    return f"{number >> 20} MiB" if number >= 1 << 20 else f"{number} bytes"
