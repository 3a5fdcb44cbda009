"""Server-sent events: how facts and live events are written, and a response that streams them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.json import encode as encode_json
from starlette.types import Receive, Scope, Send

from ostler.runs.watching.any_follower import AnyFollower
from ostler.vocabulary.errors import OstlerError
from ostler.vocabulary.events import Event
from ostler.vocabulary.facts import Fact, encode_event

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


class EventStream:
    """Sends what a follower gives, until it ends or whoever listens has left."""

    def __init__(self, follower: AnyFollower) -> None:
        self._follower = follower

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        mark_stream(scope)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            if scope["method"] != "HEAD":
                await self._stream(receive, send)
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._follower.leave()

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
