"""The application: the API under /api/v1, and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from ostler.faces.web.api import about, events, logging_in, requests, sessions
from ostler.faces.web.guarding import Guard
from ostler.faces.web.operations import Endpoint, Operation
from ostler.faces.web.pages import Pages
from ostler.faces.web.server import Server

PREFIX = "/api/v1"

OPERATIONS: list[Operation] = [
    *about.operations,
    *logging_in.operations,
    *sessions.operations,
    *requests.operations,
    *events.operations,
]


def create_app(server: Server, *, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> ASGIApp:
    """Serves one `Server`; its life is that of the application.

    `hosts` are names by which it may be asked for beside those of this machine, `origins` pages elsewhere
    that may ask.
    """

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        await server.start()
        try:
            yield
        finally:
            await server.close()

    routes = [Route(PREFIX + one.path, Endpoint(server, one), methods=[one.method]) for one in OPERATIONS]
    routes.append(Route("/{path:path}", Pages()))
    return Guard(Starlette(routes=routes, lifespan=life), hosts, origins)
