"""Requests: everything that can be asked of a session."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.requests import AnyRequest

operations = Operations("requests")


class RequestQuery(msgspec.Struct, frozen=True):
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0
    """Seconds to wait for what comes of it."""


class RequestState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a request. `fact` is the one that settled it."""

    id: str
    state: str
    seq: int = 0
    fact: msgspec.Raw = msgspec.Raw(b"null")


@operations.add("POST", "/sessions/{session}/requests", status=202)
async def make_request(
    server: Server, session: str, query: RequestQuery, body: dict[str, Any]
) -> RequestState:
    """Ask something of a session

    One of the requests of the vocabulary; an `id` is made where none is given. The same id twice is one
    request."""
    body.setdefault("id", server.new_id())
    try:
        request = msgspec.convert(body, AnyRequest)
    except msgspec.ValidationError as error:
        raise UsageError(f"that is no request: {error}") from None
    await server.supervisor.submit(session, request)
    seq = await server.settled(session, request.id, query.wait)
    if seq is None:
        return RequestState(request.id, "waiting")
    fact = (await server.store.read(session, seq - 1, 1))[0]
    state = "refused" if fact.type == "request_refused" else "settled"
    return RequestState(request.id, state, seq, msgspec.Raw(fact.line()))
