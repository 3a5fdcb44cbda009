"""What a route of the API is: a typed function. Its annotations bind the request and describe the route."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.faces.web.guarding import MOST_BODY, limited
from ostler.faces.web.problems import problem_of, problem_response, unforeseen
from ostler.faces.web.server import Server
from ostler.faces.web.tokens import Access
from ostler.models.keys import without_keys
from ostler.vocabulary.errors import OstlerError, UsageError

Handler = Callable[..., Awaitable[Any]]

encode = msgspec.json.Encoder().encode


class Operation(msgspec.Struct, frozen=True):
    """A route.

    The parameters of its function say what it takes: `server`; those of the path by their names; `query`, a
    struct of what stands behind the `?`; `body`, what the body must decode to; `request`, for the rest. It
    returns data, a `Response`, or an ASGI application that answers by itself.
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
    ) -> Callable[[Handler], Handler]:
        """Reading needs a token that observes, anything else one that may do all. `answers` is for a function
        that returns a response, and not the data in it."""

        def declare(handler: Handler) -> Handler:
            needed: Access = access or ("observe" if method == "GET" else "all")
            kind = answers or get_type_hints(handler, include_extras=True)["return"]
            self.append(
                Operation(method, path, handler, needed, self._tag, status, media_type, kind, most_body)
            )
            return handler

        return declare


class Endpoint:
    """An operation as an ASGI application."""

    def __init__(self, server: Server, operation: Operation) -> None:
        self._server = server
        self._operation = operation
        self._types = operation.types
        self._path_parameters = frozenset(self._types) - {"server", "query", "body", "request", "return"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp
        try:
            self._server.doorkeeper.require(Request(scope), self._operation.access)
            request = Request(scope, limited(receive, Headers(scope=scope), self._operation.most_body))
            made = await self._operation.handler(**await self._bound(request))
            answer = made if callable(made) else json_response(made, self._operation.status)
        except OstlerError as error:
            answer = problem_response(problem_of(error))
        except Exception as error:
            print(without_keys("".join(traceback.format_exception(error))), end="", file=sys.stderr)
            answer = problem_response(unforeseen())
        await answer(scope, receive, send)

    async def _bound(self, request: Request) -> dict[str, Any]:
        bound: dict[str, Any] = {name: request.path_params[name] for name in self._path_parameters}
        if "server" in self._types:
            bound["server"] = self._server
        if "request" in self._types:
            bound["request"] = request
        if kind := self._types.get("query"):
            bound["query"] = _converted(dict(request.query_params), kind)
        if kind := self._types.get("body"):
            bound["body"] = _decoded(await request.body(), kind)
        return bound


def _converted(values: dict[str, str], kind: Any) -> Any:
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"the query is not what it should be: {error}") from None


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UsageError(f"the body is not what it should be: {error}") from None


def json_response(answer: Any, status: int = 200) -> Response:
    if answer is None:
        return Response(status_code=204)
    return Response(encode(answer), status, media_type="application/json")
