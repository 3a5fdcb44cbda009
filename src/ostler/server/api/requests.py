"""Routes for requests to a session, and for its open questions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ostler.core.questions import OpenQuestion
from ostler.history.call_preview import CallPreview, marks_in, preview_of, visible, with_preview
from ostler.schema.errors import NotFound
from ostler.schema.facts import Fact
from ostler.schema.ids import NewId
from ostler.schema.messages import PlainBlock
from ostler.schema.requests import CONSENT, Answer, AnyRequest, RevokePermission, TakeBack
from ostler.server.operations import FactLine, Operations, json_response
from ostler.server.peers import refuse_agents
from ostler.server.scopes import ANY_REQUEST, request_access, require_scope
from ostler.server.state import ServerState
from ostler.server.submit import (
    ExpandedRequest,
    expand_request,
    fact_of,
    publish_notices,
    require_settlement,
    submit,
)
from ostler.server.tokens import Principal
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
    The default is true for a page that has logged in, and false with a token."""


class RequestState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The status of a request."""

    id: str
    state: Literal["waiting", "settled", "refused"]
    """`waiting`: the session has not taken it up yet."""
    seq: int = 0
    """The number of the fact that settled it."""
    fact: FactLine | None = None


@operations.add(
    "POST",
    "/sessions/{session}/requests",
    status=202,
    access=ANY_REQUEST,
    also=(200,),
    answers=RequestState,
)
async def make_request(
    server: ServerState,
    session: str,
    query: NewRequestQuery,
    body: AskedRequest,
    ids: NewId,
    request: Request,
    principal: Principal,
) -> Response:
    """Submit a request to a session

    The same id twice is one request; without an `id`, one is generated. It waits in the session's inbox: 202,
    or is settled within `wait` seconds: 200. Only the server that drives the session takes secret answers.
    Which scope it needs depends on its type."""
    require_scope(principal, request_access(body))
    fields = {**msgspec.structs.asdict(body), "id": body.id or ids("req"), "by": body.by or "api"}
    made = cast("Any", type(body).__bases__[0])(**fields)
    if isinstance(made, CONSENT):
        made = await _authenticated(server, made, request, principal)
    typed = principal.login is not None if query.typed is None else query.typed
    sent = await expand_request(server, session, made) if typed else ExpandedRequest(made)
    require_scope(principal, request_access(sent.request))  # a typed prompt may run a command
    await submit(server, session, sent.request)
    publish_notices(server, session, sent)
    state = state_of_request(fields["id"], await fact_of(server, session, fields["id"], query.wait))
    return json_response(state, 202 if state.state == "waiting" else 200)


async def _authenticated(
    server: ServerState, made: AnyRequest, request: Request, principal: Principal
) -> AnyRequest:
    """A request that gives consent gets the identity of its sender, whatever the client says. Raises
    `ConsentRefused` if that is an agent."""
    if not isinstance(made, CONSENT):
        return made
    await refuse_agents(server.store, request)
    if not isinstance(made, Answer | RevokePermission):
        return made
    return msgspec.structs.replace(made, identity=f"token:{principal.name}")


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


@operations.add("DELETE", "/sessions/{session}/requests/{request_id}", status=204, access="prompt")
async def take_back_request(server: ServerState, session: str, request_id: str, ids: NewId) -> None:
    """Withdraw a queued prompt, or a steer that the model has not got yet"""
    if await server.store.settlement(session, request_id) is None:
        await _require_waiting(server, session, request_id)
    await require_settlement(server, session, TakeBack(id=ids("req"), by="api", request=request_id))


question_operations = Operations("questions")


class OpenQuestions(msgspec.Struct, frozen=True):
    questions: list[OpenQuestion]


class CallView(CallPreview, frozen=True):
    """What a call would do, from its files as they are now. Hidden and misleading characters are named, such
    as `⟨U+202E⟩`, and long runs of spaces are counted."""

    marks: int = 0
    """How many were named or counted."""


class QuestionView(OpenQuestion, frozen=True):
    preview: CallView | None = None
    """What the call that it is about would do."""


class QuestionViews(msgspec.Struct, frozen=True):
    questions: list[QuestionView]


@question_operations.add("GET", "/sessions/{session}/questions")
async def list_questions_of_session(server: ServerState, session: str) -> QuestionViews:
    """The open questions of a session and its children, with what their calls would do

    Answer with the request `answer`, in the session that the question names. If a call would change a file,
    `details` of its question has the `diff` of the file as it is now. An answer that is `declined` may
    have a reason as its `answer`, which the model gets."""
    questions = await open_questions(server.store, await load_state(server.store, session))
    return QuestionViews([await _view(server, one) for one in questions])


async def _view(server: ServerState, question: OpenQuestion) -> QuestionView:
    fields = {name: getattr(question, name) for name in question.__struct_fields__}
    details = question.asked.question.details
    if not details:
        return QuestionView(**fields)
    cwd = Path((await server.store.summary(question.session)).cwd)
    preview = await asyncio.to_thread(_preview, details, cwd)
    asked = await asyncio.to_thread(with_preview, question.asked.question, cwd)  # for clients that draw it
    fields["asked"] = msgspec.structs.replace(question.asked, question=asked)
    return QuestionView(**fields, preview=preview)


def _preview(details: dict[str, Any], cwd: Path) -> CallView | None:
    """Reads files: not for the event loop."""
    made = preview_of(details, cwd)
    if made.is_empty and not made.note:
        return None
    return CallView(
        tool=made.tool,
        path=visible(made.path),
        target=visible(made.target),
        command=visible(made.command),
        diff="\n".join(visible(line, is_file=True) for line in made.diff.split("\n")),
        hunks=made.hunks,
        content=visible(made.content, is_file=True),
        edits=tuple(_visible_values(edit, is_file=True) for edit in made.edits),
        note=made.note,
        arguments=_visible_values(made.arguments),
        marks=marks_in(made),
    )


def _visible_values(values: dict[str, Any], *, is_file: bool = False) -> dict[str, Any]:
    """Texts inside of lists and objects are spelled as JSON, which a reader sees as one text."""
    return {
        visible(name): visible(
            value if isinstance(value, str) else msgspec.json.encode(value).decode(), is_file=is_file
        )
        for name, value in values.items()
    }


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
