"""Routes for the facts, event streams, live values, blobs and uploads of a session."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from ostler.schema.errors import NotFound, UsageError
from ostler.schema.events import Event, LiveValue
from ostler.server.operations import FactLine, Operations, json_response
from ostler.server.state import ServerState
from ostler.server.streams import EventStreamResponse, asks_for_stream
from ostler.server.uploads import MOST_BYTES, Upload, content_response
from ostler.sessions.live_socket import LiveConnection, listen
from ostler.sessions.streams import no_such_fact

operations = Operations("events")
STREAM = "text/event-stream"


class EventsQuery(msgspec.Struct, frozen=True):
    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    """Only facts with a higher number. A stream that reconnects sends it as `Last-Event-ID`."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=5000)] = 1000
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0
    """Seconds to wait for a fact if there is none yet."""


class FactPage(msgspec.Struct, frozen=True):
    facts: list[FactLine]
    last_seq: int
    has_more: bool


@operations.add("GET", "/sessions/{session}/events", answers=FactPage, also_as=(STREAM,))
async def read_events(server: ServerState, session: str, query: EventsQuery, request: Request) -> ASGIApp:
    """Facts after a number, or a live stream

    With `Accept: text/event-stream`: the facts, what is open, and then everything as it happens. Only facts
    have an `id`, their number: reconnect with `Last-Event-ID`. A number that the session does not have yet is
    refused."""
    if asks_for_stream(request.scope):
        after = _last_id(request) or query.after
        return EventStreamResponse(await server.streams.subscribe(session, after))
    facts = await server.store.read(session, query.after, query.limit)
    last = await server.store.last_seq(session)
    if query.after > last:
        raise no_such_fact(query.after, last)
    if not facts and query.wait:
        facts = await server.next_facts(session, query.after, query.wait)
        last = await server.store.last_seq(session)
    last_sent = facts[-1].seq if facts else query.after
    return json_response(FactPage([msgspec.Raw(fact.line()) for fact in facts], last, last_sent < last))


def _last_id(request: Request) -> int:
    value = request.headers.get("last-event-id", "")
    if value and not (value.isdecimal() and len(value) < 16):
        raise UsageError(f"Last-Event-ID must be the number of a fact, not {value!r}")
    return int(value or 0)


class EverythingQuery(msgspec.Struct, frozen=True):
    after: str = ""
    """The cursor of the last fact received; by default, only new facts."""
    deltas: bool = False
    """In a stream: include the live events of sessions that this server drives."""
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0
    """Seconds to wait for a fact if there is none yet."""


class EverythingPage(msgspec.Struct, frozen=True):
    facts: list[FactLine]
    after: str
    """The cursor after the last of them."""


@operations.add("GET", "/events", answers=EverythingPage, also_as=(STREAM,))
async def read_all_events(server: ServerState, query: EverythingQuery, request: Request) -> ASGIApp:
    """Facts of all sessions after a cursor, or a live stream of them

    With `Accept: text/event-stream`. The `id` of a fact is the stream's own cursor, for `Last-Event-ID` or
    `after`; the number of a fact in its session is its `seq`."""
    if asks_for_stream(request.scope):
        after = request.headers.get("last-event-id", "") or query.after
        return EventStreamResponse(await server.all_events.subscribe(after, live=query.deltas))
    facts, cursor = await server.all_events.page(query.after, query.wait)
    return json_response(EverythingPage([msgspec.Raw(fact.line()) for fact in facts], cursor))


live_operations = Operations("live")


class LiveValues(msgspec.Struct, frozen=True):
    values: dict[str, Any]
    """By name: widgets, header, footer and status texts that extensions have set."""
    open: bool
    """Whether a process has the session open."""


@live_operations.add("GET", "/sessions/{session}/live")
async def show_live(server: ServerState, session: str) -> LiveValues:
    """The live values of a session; a stream starts with them and sends their changes"""
    owner = await server.store.holder(session)
    is_open = owner is not None or server.supervisor.get(session) is not None
    for stream in server.streams.streams():
        if stream.session == session:
            return LiveValues(_values(stream.tail.events()), is_open)
    connection = await listen(session, server.store.socket_folder, owner) if owner else ""
    if not isinstance(connection, LiveConnection):
        return LiveValues({}, is_open)
    connection.close()
    return LiveValues(_values(connection.tail), is_open)


def _values(tail: list[Event]) -> dict[str, Any]:
    return {one.name: one.value for one in tail if isinstance(one, LiveValue)}


blob_operations = Operations("blobs")


@blob_operations.add(
    "GET", "/sessions/{session}/blobs/{blob}", media_type="application/octet-stream", answers=bytes
)
async def read_blob(server: ServerState, request: Request, session: str, blob: str) -> Response:
    """The content of a blob of a session; supports `Range`"""
    await server.store.summary(session)
    about = await server.store.blob(session, blob)
    if about is None:
        raise NotFound(f"the session has no blob {blob[:100]!r}")

    async def read(start: int, size: int) -> bytes:
        return await server.store.read_blob(session, blob, start, size)

    return content_response(request, blob, about.media_type, about.size, read)


upload_operations = Operations("uploads")


class UploadQuery(msgspec.Struct, frozen=True):
    name: str = ""
    """The file name."""


@upload_operations.add("POST", "/uploads", status=201, access="prompt", most_body=MOST_BYTES, consumes="*/*")
async def upload_file(server: ServerState, request: Request, query: UploadQuery) -> Upload:
    """Upload a file: its bytes are the body

    A prompt refers to it with a block: `{"type": "file", "media_type": "…", "url": "upload:ID"}`, or
    `image`. The model gets an image, a PDF or a text; of any other file it gets the path."""
    media_type = request.headers.get("content-type", "")
    return await server.uploads.receive(query.name, media_type, request.stream())


class UploadList(msgspec.Struct, frozen=True):
    uploads: list[Upload]


@upload_operations.add("GET", "/uploads")
async def list_uploads(server: ServerState) -> UploadList:
    """The uploaded files, newest first"""
    return UploadList(server.uploads.all())


@upload_operations.add("GET", "/uploads/{upload}", media_type="application/octet-stream", answers=bytes)
async def read_upload(server: ServerState, request: Request, upload: str) -> Response:
    """The content of an uploaded file; supports `Range`"""
    file = server.uploads.find(upload)

    async def read(start: int, size: int) -> bytes:
        return await asyncio.to_thread(server.uploads.read, file, start, size)

    return content_response(request, file.name, file.media_type, file.size, read)


@upload_operations.add("DELETE", "/uploads/{upload}", status=204)
async def remove_upload(server: ServerState, upload: str) -> None:
    """Delete an uploaded file"""
    server.uploads.remove(upload)
