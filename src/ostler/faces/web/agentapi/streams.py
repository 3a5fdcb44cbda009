"""A subscription as an answer that does not end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from starlette.types import Receive, Scope, Send

from ostler.faces.web.agentapi.emitter import Emitter, Subscription
from ostler.faces.web.connections import abort
from ostler.faces.web.sse import SIGN_OF_LIFE, mark_stream

KEEP_ALIVE = 15.0
"""Seconds without an event until a comment is sent: proxies cut what is silent."""
LONGEST_WRITE = 5.0
"""Seconds that a subscriber may take until it reads on."""
WRITTEN_AT_ONCE = 64 * 1024
AGENTAPI_STREAM_HEADERS = [
    (b"cache-control", b"no-cache, no-store, must-revalidate"),
    (b"connection", b"keep-alive"),
    (b"content-type", b"text/event-stream"),
    (b"expires", b"0"),
    (b"pragma", b"no-cache"),
    (b"x-accel-buffering", b"no"),
    (b"x-proxy-buffering", b"no"),
]


class SubscriptionStream:
    """Sends the state, then what comes, until the subscription ends or its reader leaves or stops reading."""

    def __init__(self, emitter: Emitter, subscription: Subscription) -> None:
        self._emitter = emitter
        self._subscription = subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        mark_stream(scope)
        leaving = asyncio.ensure_future(self._notice_leaving(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": AGENTAPI_STREAM_HEADERS})
            for pieces in _joined(self._subscription.state):
                await _write(send, pieces)
            while (piece := await self._next()) is not None:
                await _write(send, piece)
            await _write(send, b"", more=False)
        except TimeoutError:
            abort(scope)
            await asyncio.wait({leaving}, timeout=1)
        finally:
            leaving.cancel()
            self._emitter.unsubscribe(self._subscription.id)

    async def _next(self) -> bytes | None:
        try:
            async with asyncio.timeout(KEEP_ALIVE):
                return await self._subscription.next()
        except TimeoutError:
            return SIGN_OF_LIFE

    async def _notice_leaving(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        self._emitter.unsubscribe(self._subscription.id)


async def _write(send: Send, piece: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(LONGEST_WRITE):
        await send({"type": "http.response.body", "body": piece, "more_body": more})


def _joined(frames: Iterable[bytes]) -> Iterable[bytes]:
    piece = b""
    for frame in frames:
        piece += frame
        if len(piece) >= WRITTEN_AT_ONCE:
            yield piece
            piece = b""
    if piece:
        yield piece
