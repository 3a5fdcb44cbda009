"""The ASGI application: the API under /api/v1, and the web page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.server.api import about, agents, events, extensions, history, requests, resources, sessions
from ostler.server.middleware import Capacity, OriginMiddleware
from ostler.server.operations import Endpoint, Operation
from ostler.server.pages import Pages
from ostler.server.problems import MethodNotAllowed, error_response
from ostler.server.state import ServerState


class Methods:
    """The operations of one path, by their methods."""

    def __init__(self, endpoints: dict[str, Endpoint]) -> None:
        self._endpoints = endpoints
        also = {"OPTIONS", "HEAD"} if "GET" in endpoints else {"OPTIONS"}
        self._allowed = ", ".join(sorted(endpoints.keys() | also))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        if method == "HEAD" and "GET" in self._endpoints:  # without a body there is nothing to stream
            headers = [one for one in scope["headers"] if one[0] != b"accept"]
            scope = {**scope, "method": "GET", "headers": headers}
        elif method not in self._endpoints:
            await self._other(method)(scope, receive, send)
            return
        await self._endpoints[scope["method"]](scope, receive, send)

    def _other(self, method: str) -> Response:
        if method == "OPTIONS":
            return Response(status_code=204, headers={"allow": self._allowed})
        error = MethodNotAllowed(f"{method[:20]} is not allowed here; allowed: {self._allowed}")
        answer = error_response(error)
        answer.headers["allow"] = self._allowed
        return answer


def routes_of(server: ServerState, operations: Iterable[Operation], prefix: str) -> list[Route]:
    """Paths without parameters come first: `sessions/search` is not a session id."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for one in operations:
        paths.setdefault(prefix + one.path, {})[one.method] = Endpoint(server, one)
    ordered = sorted(paths.items(), key=lambda item: "{" in item[0])
    return [Route(path, Methods(endpoints)) for path, endpoints in ordered]


PREFIX = "/api/v1"

OPERATIONS: list[Operation] = [
    *about.operations,
    *about.login_operations,
    *sessions.operations,
    *agents.operations,
    *requests.operations,
    *requests.question_operations,
    *sessions.tree_operations,
    *sessions.copy_operations,
    *events.operations,
    *events.live_operations,
    *extensions.operations,
    *resources.model_operations,
    *resources.tool_operations,
    *resources.command_operations,
    *history.usage_operations,
    *history.context_operations,
    *events.blob_operations,
    *events.upload_operations,
]


def create_app(server: ServerState, *, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> ASGIApp:
    """The ASGI application that serves one `ServerState`. The server starts and stops with the application;
    mounted in another one, it starts with the first request, and the outer application closes it.

    `hosts` are accepted host names besides those of this machine, `origins` other pages whose requests are
    accepted.
    """

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        async with server:
            yield

    routes = routes_of(server, OPERATIONS, PREFIX)
    routes.append(Route("/{path:path}", Pages()))
    app = OriginMiddleware(Starlette(routes=routes, lifespan=life), hosts, origins)

    async def begin(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            server.start()
        await app(scope, receive, send)

    return Capacity(begin)
