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
from ostler.server.problems import (
    TooLarge,
    TooSlow,
    WrongMediaType,
    error_response,
    internal_error,
    problem_response,
)
from ostler.server.scopes import Access
from ostler.server.state import ServerState
from ostler.server.tokens import Principal

MOST_BODY = 10 * 1024 * 1024
"""Bytes of a request that is not an upload."""

PATIENCE = 30.0
"""Seconds within which the first bytes of a body must arrive."""

SLOWEST = 4096
"""Bytes a second that must arrive from then on."""


def limited(receive: Receive, headers: Headers, most: int) -> Receive:
    """A `receive` that raises `TooLarge` for more than `most` bytes, and `TooSlow`."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 15 or int(announced) > most):
        raise TooLarge(f"the body may have at most {_size(most)}")
    seen = 0
    is_whole = False
    began: float | None = None

    async def counted() -> Message:
        nonlocal seen, is_whole, began
        if is_whole:  # only a disconnect can follow
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

    Its function can have these parameters: `server`; the parameters of the path; `query`, a struct for the
    query string; `body`, a struct for the body; `ids`, which generates ids of what it creates; `principal`,
    who sends the request; `request`. It returns data, a `Response` or another ASGI application.
    """

    method: str
    path: str
    handler: Handler
    access: tuple[Access, ...]
    """A token needs one of these."""
    tag: str
    status: int
    media_type: str
    answers: Any
    """The type of its response."""
    most_body: int
    """Bytes."""
    consumes: str = ""
    """The media type of a body that it reads itself."""
    also: tuple[int, ...] = ()
    """Other statuses of its response."""
    also_as: tuple[str, ...] = ()
    """Other media types of its response."""

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
        access: Access | tuple[Access, ...] = (),
        media_type: str = "application/json",
        answers: Any = None,
        most_body: int = MOST_BODY,
        consumes: str = "",
        also: tuple[int, ...] = (),
        also_as: tuple[str, ...] = (),
    ) -> Callable[[Handler], Handler]:
        """GET needs a token with the scope `observe`, anything else `all`. `answers` is the type of the data,
        for a function that returns a response."""

        def declare(handler: Handler) -> Handler:
            needs = (access,) if isinstance(access, str) else access
            needs = needs or ("observe" if method == "GET" else "all",)
            kind = answers or get_type_hints(handler, include_extras=True)["return"]
            base = Operation(method, path, handler, needs, self._tag, status, media_type, kind, most_body)
            self.append(msgspec.structs.replace(base, consumes=consumes, also=also, also_as=also_as))
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
        with self._server.auth.visit() as visit:
            answer: ASGIApp
            try:
                async with visit.lasting():
                    answer = await self._answer(scope, receive, visit)
            except OstlerError as error:
                answer = error_response(error)
            except ClientDisconnect:
                return
            except Exception as error:
                _report(error)
                answer = problem_response(internal_error())
            try:
                await safe(answer)(scope, visit.receiving(receive), send)
            except ClientDisconnect:
                return
            except Exception as error:  # too late for an error response: the connection breaks
                _report(error)

    async def _answer(self, scope: Scope, receive: Receive, visit: Visit) -> ASGIApp:
        request = Request(scope)
        principal = visit.principal = self._server.auth.require(request, *self._operation.access)
        counted = limited(receive, request.headers, self._operation.most_body)
        if (key := keyed(request, principal, counted)) is None:
            answer = await self._call(Request(scope, counted), new_id, principal)
            return with_etag(request, answer) if isinstance(answer, Response) else answer

        async def work() -> Response:
            answer = await self._call(Request(scope, key.receive), key.new_id, principal)
            assert isinstance(answer, Response)
            return answer

        return await self._server.answers.once(key, work)

    async def _call(self, request: Request, ids: NewId, principal: Principal | None) -> ASGIApp:
        bound = await self._bound(request, {"ids": ids, "principal": principal})
        result = await self._operation.handler(**bound)
        return result if callable(result) else json_response(result, self._operation.status)

    async def _bound(self, request: Request, given: dict[str, Any]) -> dict[str, Any]:
        bound: dict[str, Any] = {name: request.path_params[name] for name in self._path_parameters}
        if kind := self._types.get("query"):
            bound["query"] = _converted(dict(request.query_params), kind)
        if kind := self._types.get("body"):
            _require_media_type(request, "application/json")
            bound["body"] = _decoded(await request.body(), kind)
        elif self._operation.consumes:
            _require_media_type(request, self._operation.consumes)
        values = {"server": self._server, "request": request, **given}
        return bound | {name: value for name, value in values.items() if name in self._types}


_BOUND = frozenset({"server", "query", "body", "request", "ids", "principal", "return"})


def _report(error: Exception) -> None:
    print(redact_keys("".join(traceback.format_exception(error))), end="", file=sys.stderr)


def safe(answer: ASGIApp) -> ASGIApp:
    """Adds headers that tell a browser to treat the response as data."""
    if isinstance(answer, Response):
        for name, value in SAFE_HEADERS.items():
            answer.headers.setdefault(name, value)
    return answer


def with_etag(request: Request, answer: Response) -> Response:
    """Adds an `ETag`, and answers 304 to a client that has it."""
    if request.method != "GET" or answer.status_code != 200 or isinstance(answer, StreamingResponse):
        return answer
    etag = f'"{hashlib.blake2b(bytes(answer.body), digest_size=12).hexdigest()}"'
    tags = request.headers.get("if-none-match", "").split(",")
    if etag in [tag.strip().removeprefix("W/") for tag in tags]:
        return Response(status_code=304, headers={"etag": etag})
    answer.headers.setdefault("etag", etag)
    answer.headers.setdefault("cache-control", "no-cache")
    return answer


def _require_media_type(request: Request, wanted: str) -> None:
    """A body needs a `Content-Type`; an empty one does not."""
    headers = request.headers
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if wanted in ("*/*", media_type) or (wanted == "application/json" and media_type.endswith("+json")):
        return
    if media_type or headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise WrongMediaType(f"the body must have the `Content-Type` {wanted}, not {media_type[:100]!r}")


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
    """JSON Schema, and some clients, make no difference between 3.0 and 3."""
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
