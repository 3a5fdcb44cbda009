"""What is left of a body that nobody wants."""

from __future__ import annotations

from collections.abc import AsyncIterator

MOST_DISCARDED = 64 * 1024 * 1024
"""Bytes. Who is answered while still sending sees a broken connection, not the answer: so it may send on."""


async def discard(body: AsyncIterator[bytes]) -> None:
    discarded = 0
    async for piece in body:
        discarded += len(piece)
        if discarded > MOST_DISCARDED:
            return
