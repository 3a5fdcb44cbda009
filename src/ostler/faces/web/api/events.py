"""What happens in a session: pages of facts, and streams."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp

from ostler.faces.web.operations import FactLine, Operations, json_response
from ostler.faces.web.server import Server
from ostler.faces.web.sse import EventStream, asks_for_stream
from ostler.runs.watching.watch import no_such_fact
from ostler.vocabulary.errors import UsageError

operations = Operations("events")

STREAM = "text/event-stream"


class EventsQuery(msgspec.Struct, frozen=True):
    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    """Only facts with a higher number. A stream that goes on says it with `Last-Event-ID`."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=5000)] = 1000
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0
    """Seconds to wait for a fact, if there is none yet."""


class FactPage(msgspec.Struct, frozen=True):
    facts: list[FactLine]
    last_seq: int
    has_more: bool


@operations.add("GET", "/sessions/{session}/events", answers=FactPage, also_as=(STREAM,))
async def read_events(server: Server, session: str, query: EventsQuery, request: Request) -> ASGIApp:
    """Facts after a number, or a live stream

    With `Accept: text/event-stream`: the facts, what is open, and then everything as it happens. Only facts
    have an `id`, which is their number: whoever was cut off goes on with `Last-Event-ID`. A number that the
    session does not have yet is refused."""
    if asks_for_stream(request.scope):
        after = _last_id(request) or query.after
        return EventStream(await server.watch.follow(session, after))
    facts = await server.store.read(session, query.after, query.limit)
    last = await server.store.last_seq(session)
    if query.after > last:
        raise no_such_fact(query.after, last)
    if not facts and query.wait:
        facts = await server.next_facts(session, query.after, query.wait)
        last = await server.store.last_seq(session)
    shown = facts[-1].seq if facts else query.after
    return json_response(FactPage([msgspec.Raw(fact.line()) for fact in facts], last, shown < last))


def _last_id(request: Request) -> int:
    given = request.headers.get("last-event-id", "")
    if given and not (given.isdecimal() and len(given) < 16):
        raise UsageError(f"Last-Event-ID must be the number of a fact, not {given!r}")
    return int(given or 0)


class EverythingQuery(msgspec.Struct, frozen=True):
    after: str = ""
    """The cursor of the last fact that was seen; from now on, if it is left out."""
    deltas: bool = False
    """In a stream: also the live events of sessions that this server drives."""
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0
    """Seconds to wait for a fact, if there is none yet."""


class EverythingPage(msgspec.Struct, frozen=True):
    facts: list[FactLine]
    after: str
    """The cursor behind them."""


@operations.add("GET", "/events", answers=EverythingPage, also_as=(STREAM,))
async def read_all_events(server: Server, query: EverythingQuery, request: Request) -> ASGIApp:
    """Facts of all sessions after a cursor, or a live stream of them

    With `Accept: text/event-stream`. The `id` of a fact is the stream's own cursor, for `Last-Event-ID` or
    `after`; the number of a fact in its session is its `seq`."""
    if asks_for_stream(request.scope):
        after = request.headers.get("last-event-id", "") or query.after
        return EventStream(await server.everything.follow(after, live=query.deltas))
    facts, cursor = await server.everything.page(query.after, query.wait)
    return json_response(EverythingPage([msgspec.Raw(fact.line()) for fact in facts], cursor))
