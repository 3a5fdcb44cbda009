"""Routes for the server itself: health, readiness, description, login."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ostler import __version__
from ostler.core.lazy import lazy_module
from ostler.server.auth import cookie_name, set_cookie
from ostler.server.operations import Operations, json_response
from ostler.server.problems import Conflict, NotAllowed, ServerBusy
from ostler.server.state import ServerState
from ostler.server.tokens import Principal, TokenScope

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


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str
    """A token, or the one-time code of a login link."""


class LoggedIn(msgspec.Struct, frozen=True):
    token: str
    """The token of this page: send it as `Authorization: Bearer TOKEN`, with the header `X-Ostler: 1` in
    requests that change something. It counts only at this origin."""
    scope: TokenScope
    expires_ms: int


@login_operations.add("POST", "/login", access="none", answers=LoggedIn, most_body=4096)
async def log_in(server: ServerState, request: Request, body: Credentials) -> Response:
    """Exchange a token, or the code of a login link, for a token of this page

    The new token is bound to the origin of the page, expires after 30 days, and ends with `logout`. Under TLS
    it also needs a cookie that this sets."""
    new = await asyncio.to_thread(server.auth.log_in, request, body.token)
    if new is None:
        raise NotAllowed("the token is invalid; `ostler token new NAME` creates one")
    response = json_response(LoggedIn(new.token, new.login.scope, new.login.expires_ms))
    response.headers["cache-control"] = "no-store"
    set_cookie(response, new)
    return response


@login_operations.add("POST", "/logout", status=204, access="observe", answers=type(None))
async def log_out(server: ServerState, principal: Principal) -> Response:
    """Revoke the token of this page

    A token that `ostler token` created is revoked there."""
    if principal.login is None:
        raise Conflict("this token is no login of a page: `ostler token revoke NAME` revokes it")
    server.auth.log_out(principal.login)
    response = Response(status_code=204)
    response.delete_cookie(cookie_name(principal.login), secure=True, httponly=True, samesite="strict")
    return response


class Me(msgspec.Struct, frozen=True):
    scope: TokenScope
    version: str
    cwd: str
    model: str = ""
    """The model that answers in a new session; empty if none can."""
    notice: str = ""
    """A notice about the model; if none can answer, what to do."""
    permissions: str = ""
    """The permission profile of a new session in the server's directory."""
    max_permissions: str = ""
    """The highest profile that this token can choose."""
    page: bool = False
    """Whether this is the token of a page, which `logout` revokes."""


@login_operations.add("GET", "/me")
async def me(server: ServerState, principal: Principal) -> Me:
    """What the token allows, and the server's working directory"""
    choice = await server.default_model()
    profiles, cwd = server.profiles, server.cwd
    return Me(
        principal.scope,
        __version__,
        str(cwd),
        choice.model,
        choice.notice,
        profiles.usual(cwd),
        profiles.highest(principal, cwd),
        page=principal.login is not None,
    )
