"""Routes for the server itself: health, readiness, description, login."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ostler import __version__
from ostler.core.lazy import lazy_module
from ostler.server.operations import Operations
from ostler.server.problems import NotAllowed, ServerBusy
from ostler.server.state import ServerState
from ostler.server.tokens import TokenScope

if TYPE_CHECKING:
    from ostler.server import app as server_app
    from ostler.server import openapi as openapi_document
else:
    openapi_document = lazy_module("ostler.server.openapi")
    server_app = lazy_module("ostler.server.app")

operations = Operations("server")


class Health(msgspec.Struct, frozen=True):
    status: str
    version: str


@operations.add("GET", "/health", access="none")
async def health() -> Health:
    """The process is alive"""
    return Health("ok", __version__)


@operations.add("GET", "/ready", access="none")
async def ready(server: ServerState) -> Health:
    """The server accepts work: its store answers, and it is not shutting down"""
    if server.is_draining:
        raise ServerBusy("the server is shutting down")
    await server.store.sessions(limit=1)
    return Health("ready", __version__)


@operations.add("GET", "/openapi.json")
async def describe() -> dict[str, Any]:
    """This document"""
    return openapi_document.openapi(server_app.OPERATIONS, server_app.PREFIX)


login_operations = Operations("login")


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str


@login_operations.add("POST", "/login", status=204, access="none", answers=type(None), most_body=4096)
async def log_in(server: ServerState, request: Request, body: Login) -> Response:
    """Exchange a token for a cookie

    Also accepts the one-time code of the link that the server prints."""
    book = server.auth.book
    principal = server.auth.checked(request, book.of_token(body.token) or book.of_code(body.token))
    if principal is None:
        raise NotAllowed("the token is invalid; `ostler token new NAME` creates one")
    response = Response(status_code=204)
    server.auth.set_cookie(request, response, principal)
    return response


@login_operations.add("POST", "/logout", status=204, access="none", answers=type(None))
async def log_out(server: ServerState) -> Response:
    """Delete the cookie"""
    response = Response(status_code=204)
    response.delete_cookie(server.auth.book.cookie_name, httponly=True, samesite="strict")
    return response


class Me(msgspec.Struct, frozen=True):
    scope: TokenScope
    version: str
    cwd: str
    model: str = ""
    """The model that answers in a new session; empty if none can."""
    notice: str = ""
    """A notice about the model; if none can answer, what to do."""


@login_operations.add("GET", "/me")
async def me(server: ServerState, request: Request) -> Me:
    """What the token allows, and the server's working directory"""
    principal = server.auth.principal(request)
    assert principal is not None
    choice = await server.default_model()
    return Me(principal.scope, __version__, str(server.cwd), choice.model, choice.notice)
