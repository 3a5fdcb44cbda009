"""Server-sent events: frames of facts, live events and terminal bytes, and the response that streams them."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.json import encode as encode_json
from starlette.types import Receive, Scope, Send

from ostler.drivers.screen_stream import ScreenSubscription
from ostler.schema.errors import OstlerError
from ostler.schema.events import Event
from ostler.schema.facts import Fact, encode_event
from ostler.sessions.streams import Subscriber

if TYPE_CHECKING:
    from ostler.drivers.session import AgentSession

KEEP_ALIVE_COMMENT = b":\n\n"

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),  # or nginx would buffer the events
]

_IS_STREAM = "ostler.stream"


def asks_for_stream(scope: Scope) -> bool:
    return any(name == b"accept" and b"text/event-stream" in value for name, value in scope["headers"])


def mark_stream(scope: Scope) -> None:
    scope[_IS_STREAM] = True


def is_stream(scope: Scope) -> bool:
    """Whether the response to this request is a stream."""
    return _IS_STREAM in scope


def as_frames(batch: Sequence[Fact | Event]) -> bytes:
    """A frame for each event; only facts have an id, which is their number."""
    return b"".join(
        [
            b"id: %d\ndata: %b\n\n" % (one.seq, one.line())
            if isinstance(one, Fact)
            else b"data: %b\n\n" % encode_event(one)
            for one in batch
        ]
    )


def as_frame_of_all(fact: Fact, cursor: str) -> bytes:
    """In the stream of all sessions the id is the stream's cursor."""
    return b"id: %b\ndata: %b\n\n" % (cursor.encode(), fact.line())


def as_live_frames_of_all(session: str, events: Sequence[Event]) -> bytes:
    """A live event has no envelope, so the session is inserted after its type."""
    field = b',"session":%b' % encode_json(session)
    frames = []
    for body in map(encode_event, events):
        end = body.index(b'"', len(b'{"type":"')) + 1
        frames.append(b"data: %b%b%b\n\n" % (body[:end], field, body[end:]))
    return b"".join(frames)


def as_caught_up_of_all(cursor: str) -> bytes:
    """With an id, so that a client can reconnect before the first fact."""
    return b'id: %b\ndata: {"type":"caught_up","after":"%b"}\n\n' % (cursor.encode(), cursor.encode())


class EventStreamResponse:
    """Sends what a subscriber gives until it ends, the client disconnects, or a write takes too long."""

    def __init__(
        self,
        subscriber: Subscriber[Any],
        headers: Sequence[tuple[bytes, bytes]] = HEADERS,
        keep_alive: float | None = None,
        write_timeout: float | None = None,
    ) -> None:
        """`keep_alive` is in seconds; without it, the owner of the streams calls `Subscriber.keep_alive`."""
        self._subscriber = subscriber
        self._headers = headers
        self._keep_alive = keep_alive
        self._write_timeout = write_timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        mark_stream(scope)
        disconnect = asyncio.ensure_future(self._close_on_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            if scope["method"] != "HEAD":
                await self._stream(send)
            await self._write(send, b"", more=False)
        except TimeoutError:
            abort(scope)
            await asyncio.wait({disconnect}, timeout=1)
        finally:
            disconnect.cancel()
            self._subscriber.unsubscribe()

    async def _stream(self, send: Send) -> None:
        with suppress(OstlerError):  # the session is deleted or the log unreadable: the next request says so
            while (data := await self._next()) is not None:
                await self._write(send, data or KEEP_ALIVE_COMMENT)

    async def _next(self) -> bytes | None:
        if self._keep_alive is None:
            return await self._subscriber.next()
        timer = asyncio.get_running_loop().call_later(self._keep_alive, self._subscriber.keep_alive)
        try:
            return await self._subscriber.next()
        finally:
            timer.cancel()

    async def _write(self, send: Send, data: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(self._write_timeout):
            await send({"type": "http.response.body", "body": data, "more_body": more})

    async def _close_on_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        self._subscriber.close()


_ABORT = "ostler.abort"


def abort(scope: Scope) -> None:
    """Drops the connection of a client that does not read: an orderly end would wait for it."""
    if _ABORT in scope:
        scope[_ABORT]()


class ScreenFollower(ScreenSubscription):
    """The live bytes of a terminal as server-sent events:

        event: size    data: {"columns":80,"rows":1000}
        event: bytes   data: G1tIaGVsbG8=
        event: end     data: {"exit_status":0}

    `size` comes first and after each resize. `bytes` are base64, for a terminal of that size: the first ones
    draw the screen, and those that begin with `ESC c` draw it again. `end` means that the agent has ended; a
    stream that ends without it can be opened again.
    """

    def __init__(self, session: AgentSession, snapshot: Callable[[], bytes]) -> None:
        super().__init__(snapshot)
        assert session.driver.screen is not None
        self._process, self._screen = session.driver.process, session.driver.screen
        self._dimensions = (0, 0)

    def _take(self) -> bytes:
        return self._frames(super()._take())

    async def _catch_up(self) -> bytes:
        return self._frames(await super()._catch_up())

    def _last(self) -> bytes:
        return b'event: end\ndata: {"exit_status":%d}\n\n' % self._process.ended.result()

    def _frames(self, data: bytes) -> bytes:
        frame = b"event: bytes\ndata: %b\n\n" % b64encode(data) if data else b""
        dimensions = (self._screen.columns, self._screen.rows)
        if self._dimensions == dimensions:
            return frame
        self._dimensions = dimensions
        return b'event: size\ndata: {"columns":%d,"rows":%d}\n\n' % dimensions + frame


class TerminalStreams:
    """All open streams of terminals in this process, to keep them alive and to end them together."""

    def __init__(self) -> None:
        self._open: set[ScreenFollower] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    def subscribe(self, session: AgentSession) -> ScreenFollower:
        follower = session.driver.view(partial(ScreenFollower, session))
        follower.on_unsubscribe.append(self._open.discard)
        self._open.add(follower)
        if self._is_closed:
            follower.close()
        return follower

    def keep_alive(self) -> None:
        for follower in self._open:
            follower.keep_alive()

    def close(self) -> None:
        """Ends all streams; a later subscriber gets nothing."""
        self._is_closed = True
        for follower in self._open:
            follower.close()


def terminal_stream(session: AgentSession, streams: TerminalStreams) -> EventStreamResponse:
    """The response for a client that watches the terminal; `streams` are the server's `terminal_streams`."""
    return EventStreamResponse(streams.subscribe(session))
