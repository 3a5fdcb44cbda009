"""Routes for requests to a session, and for its open questions."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ostler.core.questions import OpenQuestion
from ostler.schema.errors import NotFound
from ostler.schema.facts import Fact
from ostler.schema.ids import NewId
from ostler.schema.messages import PlainBlock
from ostler.schema.requests import CONSENT, Answer, AnyRequest, RevokePermission, TakeBack
from ostler.server.operations import FactLine, Operations, json_response
from ostler.server.peers import refuse_agents
from ostler.server.state import ServerState
from ostler.server.submit import (
    ExpandedRequest,
    expand_request,
    fact_of,
    publish_notices,
    require_settlement,
    submit,
)
from ostler.sessions.run_tree import OPEN, load_state, open_questions

operations = Operations("requests")


def _as_asked(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The request type as clients may send it: without an id, without unknown fields, and without empty
    content."""
    fields: list[Any] = [("id", str, "")]
    if any(field.name == "content" for field in msgspec.structs.fields(kind)):
        fields.append(("content", Annotated[tuple[PlainBlock, ...], msgspec.Meta(min_length=1)]))
    return msgspec.defstruct(
        f"New{kind.__name__}",
        fields,
        bases=(kind,),
        namespace={"__doc__": kind.__doc__},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        tag_field="type",
        tag=kind.__struct_config__.tag,
    )


if TYPE_CHECKING:
    AskedRequest = AnyRequest
else:
    AskedRequest = Union[tuple(_as_asked(kind) for kind in get_args(AnyRequest))]  # noqa: UP007


class RequestQuery(msgspec.Struct, frozen=True):
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0
    """Seconds to wait for the result."""


class NewRequestQuery(RequestQuery, frozen=True):
    typed: bool | None = None
    """A person typed it: expand slash commands, templates, skills and mentioned files in a prompt or a steer.
    The default is true with a cookie and false with a token."""


class RequestState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The status of a request."""

    id: str
    state: Literal["waiting", "settled", "refused"]
    """`waiting`: the session has not taken it up yet."""
    seq: int = 0
    """The number of the fact that settled it."""
    fact: FactLine | None = None


@operations.add("POST", "/sessions/{session}/requests", status=202, also=(200,), answers=RequestState)
async def make_request(
    server: ServerState,
    session: str,
    query: NewRequestQuery,
    body: AskedRequest,
    ids: NewId,
    request: Request,
) -> Response:
    """Submit a request to a session

    The same id twice is one request; without an `id`, one is generated. It waits in the session's inbox: 202,
    or is settled within `wait` seconds: 200. Only the server that drives the session takes secret answers."""
    fields = {**msgspec.structs.asdict(body), "id": body.id or ids("req"), "by": body.by or "api"}
    made = await _authenticated(server, cast("Any", type(body).__bases__[0])(**fields), request)
    typed = _is_typed(server, query, request)
    sent = await expand_request(server, session, made) if typed else ExpandedRequest(made)
    await submit(server, session, sent.request)
    publish_notices(server, session, sent)
    state = state_of_request(fields["id"], await fact_of(server, session, fields["id"], query.wait))
    return json_response(state, 202 if state.state == "waiting" else 200)


async def _authenticated(server: ServerState, made: AnyRequest, request: Request) -> AnyRequest:
    """A request that gives consent gets the identity of its sender, whatever the client says. Raises
    `ConsentRefused` if that is an agent."""
    if not isinstance(made, CONSENT):
        return made
    await refuse_agents(server.store, request)
    if not isinstance(made, Answer | RevokePermission):
        return made
    principal = server.auth.principal(request)
    identity = f"token:{server.auth.book.name_of(principal)}" if principal else ""
    return msgspec.structs.replace(made, identity=identity)


def _is_typed(server: ServerState, query: NewRequestQuery, request: Request) -> bool:
    if query.typed is not None:
        return query.typed
    principal = server.auth.principal(request)
    return principal is not None and principal.by_cookie


def state_of_request(request: str, fact: Fact | None) -> RequestState:
    if fact is None:
        return RequestState(request, "waiting")
    state: Literal["settled", "refused"] = "refused" if fact.type == "request_refused" else "settled"
    return RequestState(request, state, fact.seq, msgspec.Raw(fact.line()))


class WaitingRequests(msgspec.Struct, frozen=True):
    requests: list[AnyRequest]


@operations.add("GET", "/sessions/{session}/requests")
async def list_requests(server: ServerState, session: str) -> WaitingRequests:
    """The requests that are still in the inbox, in order"""
    await server.store.summary(session)
    return WaitingRequests(await server.store.pending(session))


@operations.add("GET", "/sessions/{session}/requests/{request_id}")
async def show_request(
    server: ServerState, session: str, request_id: str, query: RequestQuery
) -> RequestState:
    """The status of a request"""
    if await server.store.settlement(session, request_id) is None:
        await _require_waiting(server, session, request_id)
    return state_of_request(request_id, await fact_of(server, session, request_id, query.wait))


async def _require_waiting(server: ServerState, session: str, request: str) -> None:
    await server.store.summary(session)
    if all(one.id != request for one in await server.store.pending(session)):
        raise NotFound(f"this session has no request {request[:100]!r}")


@operations.add("DELETE", "/sessions/{session}/requests/{request_id}", status=204)
async def take_back_request(server: ServerState, session: str, request_id: str, ids: NewId) -> None:
    """Withdraw a queued prompt, or a steer that the model has not got yet"""
    if await server.store.settlement(session, request_id) is None:
        await _require_waiting(server, session, request_id)
    await require_settlement(server, session, TakeBack(id=ids("req"), by="api", request=request_id))


question_operations = Operations("questions")


class OpenQuestions(msgspec.Struct, frozen=True):
    questions: list[OpenQuestion]


@question_operations.add("GET", "/sessions/{session}/questions")
async def list_questions_of_session(server: ServerState, session: str) -> OpenQuestions:
    """The open questions of a session and its children

    Answer with the request `answer`, in the session that the question names."""
    return OpenQuestions(await open_questions(server.store, await load_state(server.store, session)))


@question_operations.add("GET", "/questions")
async def list_questions(server: ServerState) -> OpenQuestions:
    """The open questions of all sessions"""
    questions: dict[tuple[str, str], OpenQuestion] = {}
    for summary in await server.store.sessions():
        if summary.child_of or (summary.status not in OPEN and server.supervisor.get(summary.id) is None):
            continue
        with suppress(NotFound):  # deleted meanwhile
            for one in await open_questions(server.store, await load_state(server.store, summary.id)):
                questions[one.session, one.asked.id] = one
    return OpenQuestions(list(questions.values()))
