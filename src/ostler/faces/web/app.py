"""The application: the API under /api/v1, and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.faces.web.api import (
    about,
    agents,
    blobs,
    commands,
    context,
    copies,
    events,
    live,
    logging_in,
    models,
    questions,
    rendered,
    requests,
    sessions,
    tools,
    tree,
    uploads,
    usage,
)
from ostler.faces.web.capacity import Capacity
from ostler.faces.web.guarding import Guard
from ostler.faces.web.operations import Operation
from ostler.faces.web.pages import Pages
from ostler.faces.web.routing import routes_of
from ostler.faces.web.server import Server

PREFIX = "/api/v1"

OPERATIONS: list[Operation] = [
    *about.operations,
    *logging_in.login_operations,
    *sessions.operations,
    *agents.operations,
    *requests.operations,
    *questions.question_operations,
    *tree.tree_operations,
    *copies.copy_operations,
    *events.operations,
    *live.live_operations,
    *rendered.operations,
    *models.model_operations,
    *tools.tool_operations,
    *commands.command_operations,
    *usage.usage_operations,
    *context.context_operations,
    *blobs.blob_operations,
    *uploads.upload_operations,
]


def create_app(server: Server, *, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> ASGIApp:
    """Serves one `Server`; its life is that of the application, or, mounted in another, begins with the first
    request: then whoever mounts it closes the server.

    `hosts` are names by which it may be asked for beside those of this machine, `origins` pages elsewhere
    that may ask.
    """

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        async with server:
            yield

    routes = routes_of(server, OPERATIONS, PREFIX)
    routes.append(Route("/{path:path}", Pages()))
    app = Guard(Starlette(routes=routes, lifespan=life), hosts, origins)

    async def begin(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            server.start()
        await app(scope, receive, send)

    return Capacity(begin)
