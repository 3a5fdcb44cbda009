"""Server-sent events: how facts and live events are written, and a response that streams them."""
# MERGED: The live bytes of a terminal, as server-sent events.
# MERGED: event: size data: {"columns":80,"rows":1000}
# MERGED: event: bytes data: G1tIaGVsbG8=
# MERGED: event: end data: {"exit_status":0}
# MERGED: `size` comes first and after each resize. `bytes` are base64, for a terminal of that size; the
# MERGED: first ones draw the screen as it is, those that begin with `ESC c` draw it anew. `end` says that
# MERGED: the agent has ended: a stream that ends without it can be opened again. A line with `:` is a sign
# MERGED: of life.
# MERGED: A subscription as an answer that does not end.

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.json import encode as encode_json
from starlette.types import Receive, Scope, Send

from ostler.schema.errors import OstlerError
from ostler.schema.events import Event
from ostler.schema.facts import Fact, encode_event
from ostler.server.agentapi.events import Emitter, Subscription
from ostler.sessions.streams import Subscriber

if TYPE_CHECKING:
    from ostler.drivers.session import AgentSession


SIGN_OF_LIFE = b":\n\n"


HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),  # nginx would collect what should be seen at once
]


_STREAMED = "ostler.stream"


def asks_for_stream(scope: Scope) -> bool:
    return any(name == b"accept" and b"text/event-stream" in value for name, value in scope["headers"])


def mark_stream(scope: Scope) -> None:
    scope[_STREAMED] = True


def is_stream(scope: Scope) -> bool:
    """The answer to this request is a stream."""
    return _STREAMED in scope


def as_frames(batch: Sequence[Fact | Event]) -> bytes:
    """Each event is a frame; only facts have an id, which is their number."""
    return b"".join(
        [
            b"id: %d\ndata: %b\n\n" % (one.seq, one.line())
            if isinstance(one, Fact)
            else b"data: %b\n\n" % encode_event(one)
            for one in batch
        ]
    )


def as_frame_of_all(fact: Fact, cursor: str) -> bytes:
    """In the stream of all sessions the id is that stream's own cursor."""
    return b"id: %b\ndata: %b\n\n" % (cursor.encode(), fact.line())


def as_live_frames_of_all(session: str, events: Sequence[Event]) -> bytes:
    """A live event has no envelope: the session is put in behind its type."""
    named = b',"session":%b' % encode_json(session)
    return b"".join([b"data: %b\n\n" % _with(encode_event(event), named) for event in events])


def _with(body: bytes, named: bytes) -> bytes:
    end = body.index(b'"', len(b'{"type":"')) + 1
    return body[:end] + named + body[end:]


def as_caught_up_of_all(cursor: str) -> bytes:
    """With an id: whoever is cut off before the first fact goes on behind it, too."""
    return b'id: %b\ndata: {"type":"caught_up","after":"%b"}\n\n' % (cursor.encode(), cursor.encode())


class EventStreamResponse:
    """Sends what a follower gives, until it ends or whoever listens has left."""

    def __init__(self, follower: Subscriber) -> None:
        self._follower = follower

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        mark_stream(scope)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            if scope["method"] != "HEAD":
                await self._stream(receive, send)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._follower.close_now()

    async def _stream(self, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(self._notice_leaving(receive))
        try:
            while (data := await self._follower.next()) is not None:
                await send({"type": "http.response.body", "body": data or SIGN_OF_LIFE, "more_body": True})
        except OstlerError:
            return  # the session is gone, or the log cannot be read: whoever comes again is told
        finally:
            leaving.cancel()

    async def _notice_leaving(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        self._follower.close()


class TerminalStreams:
    """All that are open in this process: they are kept alive, and end, together."""

    def __init__(self) -> None:
        self._open: set[ScreenFollower] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    def follow(self, session: AgentSession) -> ScreenFollower:
        follower = ScreenFollower(session, self._open.discard)
        self._open.add(follower)
        if self._is_closed:
            follower.close()
        return follower

    def keep_alive(self) -> None:
        for follower in self._open:
            follower.keep_alive()

    def close(self) -> None:
        """All of them end at once, and no new one begins."""
        self._is_closed = True
        for follower in self._open:
            follower.close()


def terminal_stream(session: AgentSession, streams: TerminalStreams) -> EventStreamResponse:
    """The answer to whoever wants to watch. `streams` are those of the server: `server.terminal_streams`.

    It ends with the agent, and with the server. It is an ASGI application, and can be returned by a function
    that Starlette calls for a route.
    """
    return EventStreamResponse(streams.follow(session))


class ScreenFollower(Subscriber):
    """One who watches. Whoever reads slowly gets the screen anew."""

    def __init__(self, session: AgentSession, leave: Callable[[ScreenFollower], None]) -> None:
        super().__init__()
        self._session = session
        assert session.driver.screen is not None
        self._screen = session.driver.screen
        self._viewer = session.view()
        self._size = (0, 0)
        self._has_ended = False
        self._leave = leave

    async def next(self) -> bytes | None:
        if self._is_closed or self._has_ended:
            return None
        seen = await self._viewer.next()
        if self._is_closed:
            return None
        if seen is None:
            self._has_ended = True
            return b'event: end\ndata: {"exit_status":%d}\n\n' % self._exit_status()
        frame = b"event: bytes\ndata: %b\n\n" % b64encode(seen) if seen else b""
        if self._size == (size := (self._screen.columns, self._screen.rows)):
            return frame
        self._size = size
        return b'event: size\ndata: {"columns":%d,"rows":%d}\n\n' % size + frame

    def _exit_status(self) -> int:
        return self._session.driver.process.ended.result()

    def keep_alive(self) -> None:
        self._viewer.put(b"")

    def close(self) -> None:
        super().close()
        self._viewer.close()

    def close_now(self) -> None:
        self._viewer.close_now()
        self._leave(self)


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


_ABORT = "ostler.abort"


def abort(scope: Scope) -> None:
    """Ends the connection of a request whose sender does not read: an orderly end would wait for that."""
    if _ABORT in scope:
        scope[_ABORT]()
