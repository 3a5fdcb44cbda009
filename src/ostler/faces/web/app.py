"""The application: the API under /api/v1, and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Route

from ostler.faces.web.api import about, events, requests, sessions
from ostler.faces.web.operations import Endpoint, Operation
from ostler.faces.web.server import Server

PREFIX = "/api/v1"

OPERATIONS: list[Operation] = [
    *about.operations,
    *sessions.operations,
    *requests.operations,
    *events.operations,
]


def create_app(server: Server) -> Starlette:
    """Serves one `Server`; its life is that of the application."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        await server.start()
        try:
            yield
        finally:
            await server.close()

    routes = [Route(PREFIX + one.path, Endpoint(server, one), methods=[one.method]) for one in OPERATIONS]
    app = Starlette(routes=routes, lifespan=life)
    app.state.server = server
    return app
