"""API routes as typed functions: annotations bind the request and describe the route."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, get_type_hints

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.models.credentials import redact_keys
from ostler.schema.errors import OstlerError, UsageError
from ostler.schema.ids import NewId, new_id
from ostler.server.auth import Visit
from ostler.server.idempotency import keyed
from ostler.server.problems import TooLarge, TooSlow, WrongMediaType, problem_of, problem_response, unforeseen
from ostler.server.state import ServerState
from ostler.server.tokens import Access

MOST_BODY = 10 * 1024 * 1024
"""Bytes of a request that is not an upload: an uploaded file is named in it, or stands in it as base64."""

PATIENCE = 30.0
"""Seconds that the first bytes of a body may take."""

SLOWEST = 4096
"""Bytes a second that it must bring from then on."""


def limited(receive: Receive, headers: Headers, most: int) -> Receive:
    """Raises `TooLarge` before, or as soon as, more than `most` bytes come, and `TooSlow`."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 15 or int(announced) > most):
        raise TooLarge(f"the body may have at most {_size(most)}")
    seen = 0
    is_whole = False
    began: float | None = None

    async def counted() -> Message:
        nonlocal seen, is_whole, began
        if is_whole:  # only the end of the connection can come
            return await receive()
        began = began or asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(began + PATIENCE + seen / SLOWEST):
                message = await receive()
        except TimeoutError:
            raise TooSlow(f"the body came too slowly: {seen} bytes so far") from None
        seen += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if seen > most:
            raise TooLarge(f"the body may have at most {_size(most)}")
        return message

    return counted


def _size(number: int) -> str:
    return f"{number >> 20} MiB" if number >= 1 << 20 else f"{number} bytes"


FactLine = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/Fact"})]
"""A stored fact with its envelope."""

Handler = Callable[..., Awaitable[Any]]

SAFE_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
}

encode = msgspec.json.Encoder().encode


class Operation(msgspec.Struct, frozen=True):
    """A route.

    The parameters of its function say what it takes: `server`; those of the path by their names; `query`, a
    struct of what stands behind the `?`; `body`, what the body must decode to; `ids`, which makes the ids of
    what it makes; `request`, for the rest. It returns data, a `Response`, or an ASGI application that answers
    by itself.
    """

    method: str
    path: str
    handler: Handler
    access: Access
    tag: str
    status: int
    media_type: str
    answers: Any
    """The type of what it answers with."""
    most_body: int
    """Bytes."""
    consumes: str = ""
    """The media type of a body that it reads by itself."""
    also: tuple[int, ...] = ()
    """Other statuses that it answers with, in the same way."""
    also_as: tuple[str, ...] = ()
    """Other media types that it can answer in."""

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def types(self) -> dict[str, Any]:
        return get_type_hints(self.handler, include_extras=True)


class Operations(list[Operation]):
    """The routes of one part of the API, in the order they were declared."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag

    def add(
        self,
        method: str,
        path: str,
        *,
        status: int = 200,
        access: Access | None = None,
        media_type: str = "application/json",
        answers: Any = None,
        most_body: int = MOST_BODY,
        consumes: str = "",
        also: tuple[int, ...] = (),
        also_as: tuple[str, ...] = (),
    ) -> Callable[[Handler], Handler]:
        """Reading needs a token that observes, anything else one that may do all. `answers` is for a function
        that returns a response, and not the data in it."""

        def declare(handler: Handler) -> Handler:
            needed: Access = access or ("observe" if method == "GET" else "all")
            kind = answers or get_type_hints(handler, include_extras=True)["return"]
            made = Operation(method, path, handler, needed, self._tag, status, media_type, kind, most_body)
            self.append(msgspec.structs.replace(made, consumes=consumes, also=also, also_as=also_as))
            return handler

        return declare


class Endpoint:
    """An operation as an ASGI application."""

    def __init__(self, server: ServerState, operation: Operation) -> None:
        self._server = server
        self._operation = operation
        self._types = operation.types
        self._path_parameters = frozenset(self._types) - _BOUND

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._server.doorkeeper.visit() as visit:
            answer: ASGIApp
            try:
                async with visit.lasting():
                    answer = await self._answer(scope, receive, visit)
            except OstlerError as error:
                answer = problem_response(problem_of(error))
            except ClientDisconnect:
                return
            except Exception as error:
                _report(error)
                answer = problem_response(unforeseen())
            try:
                await safe(answer)(scope, visit.receiving(receive), send)
            except ClientDisconnect:
                return
            except Exception as error:  # too late for an answer: whoever asked sees that it breaks off
                _report(error)

    async def _answer(self, scope: Scope, receive: Receive, visit: Visit) -> ASGIApp:
        asked = Request(scope)
        principal = visit.principal = self._server.doorkeeper.require(asked, self._operation.access)
        counted = limited(receive, asked.headers, self._operation.most_body)
        if (key := keyed(asked, principal, counted)) is None:
            answer = await self._carry_out(Request(scope, counted), new_id)
            return with_etag(asked, answer) if isinstance(answer, Response) else answer

        async def work() -> Response:
            answer = await self._carry_out(Request(scope, key.receive), key.new_id)
            assert isinstance(answer, Response)
            return answer

        return await self._server.answers.once(key, work)

    async def _carry_out(self, request: Request, ids: NewId) -> ASGIApp:
        made = await self._operation.handler(**await self._bound(request, ids))
        return made if callable(made) else json_response(made, self._operation.status)

    async def _bound(self, request: Request, ids: NewId) -> dict[str, Any]:
        bound: dict[str, Any] = {name: request.path_params[name] for name in self._path_parameters}
        if kind := self._types.get("query"):
            bound["query"] = _converted(dict(request.query_params), kind)
        if kind := self._types.get("body"):
            _require_media_type(request, "application/json")
            bound["body"] = _decoded(await request.body(), kind)
        elif self._operation.consumes:
            _require_media_type(request, self._operation.consumes)
        given = {"server": self._server, "request": request, "ids": ids}
        return bound | {name: value for name, value in given.items() if name in self._types}


_BOUND = frozenset({"server", "query", "body", "request", "ids", "return"})


def _report(error: Exception) -> None:
    print(redact_keys("".join(traceback.format_exception(error))), end="", file=sys.stderr)


def safe(answer: ASGIApp) -> ASGIApp:
    """Tells a browser that what is answered is data: neither guessed at, nor run, nor kept by others."""
    if isinstance(answer, Response):
        for name, value in SAFE_HEADERS.items():
            answer.headers.setdefault(name, value)
    return answer


def with_etag(request: Request, answer: Response) -> Response:
    """What was read is marked with a digest, and not sent again to whoever has it."""
    if request.method != "GET" or answer.status_code != 200 or isinstance(answer, StreamingResponse):
        return answer
    etag = f'"{hashlib.blake2b(bytes(answer.body), digest_size=12).hexdigest()}"'
    known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if etag in known:
        return Response(status_code=304, headers={"etag": etag})
    answer.headers.setdefault("etag", etag)
    answer.headers.setdefault("cache-control", "no-cache")
    return answer


def _require_media_type(request: Request, wanted: str) -> None:
    """A body must say what it is; one that is not there need not."""
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if wanted in ("*/*", said) or (wanted == "application/json" and said.endswith("+json")):
        return
    if not said and request.headers.get("content-length", "0") == "0" and not _is_chunked(request):
        return
    raise WrongMediaType(f"the body must have the `Content-Type` {wanted}, not {said[:100]!r}")


def _is_chunked(request: Request) -> bool:
    return "transfer-encoding" in request.headers


def _converted(values: dict[str, str], kind: Any) -> Any:
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"invalid query: {error}") from None


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        try:
            return msgspec.json.decode(body or b"{}", type=kind)
        except msgspec.ValidationError:
            return msgspec.convert(_with_whole_numbers(msgspec.json.decode(body)), kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UsageError(f"invalid body: {error}") from None


def _with_whole_numbers(value: Any) -> Any:
    """JSON Schema, and some who write JSON, make no difference between 3.0 and 3."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_with_whole_numbers(one) for one in value]
        case dict():
            return {name: _with_whole_numbers(one) for name, one in value.items()}
    return value


def json_response(answer: Any, status: int = 200) -> Response:
    if answer is None:
        return Response(status_code=204)
    return Response(encode(answer), status, media_type="application/json")
