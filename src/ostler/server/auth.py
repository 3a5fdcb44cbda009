"""Authenticates requests by token, and ends open requests when a token is revoked.

A page has a token of its own, bound to its origin and kept in the storage of that origin. Cookies are sent to
every port of a host, so a cookie alone authorises nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeVar
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.schema.errors import ConfigurationError, NotFound, OstlerError
from ostler.server.middleware import Buckets, address_of
from ostler.server.problems import Forbidden, NotAllowed, ServerBusy, TooMany, error_response
from ostler.server.scopes import Access, require_scope
from ostler.server.tokens import Login, NewLogin, Principal, TokenStore, is_cookie_of

READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

CSRF_HEADER = "x-ostler"
"""A page of another origin cannot set it without a preflight request."""

Found = TypeVar("Found", Principal, NewLogin)

WRONG_A_MINUTE = 20.0
"""Attempts with a wrong token from one address."""

CHECK_INTERVAL = 1.0
"""Seconds between two checks for revoked tokens."""


class Authenticator:
    def __init__(self, book: TokenStore) -> None:
        self.book = book
        self._wrong = Buckets(WRONG_A_MINUTE / 60, WRONG_A_MINUTE)
        self._visits: set[Visit] = set()

    def require(self, request: Request, *accesses: Access) -> Principal | None:
        """The principal, who may have one of these. Raises `NotAllowed` or `Forbidden`."""
        if "none" in accesses:
            return None
        principal = self.principal(request)
        if principal is None:
            raise NotAllowed("authenticate with the header `Authorization: Bearer TOKEN`, or log in")
        require_scope(principal, *accesses)
        return principal

    def principal(self, request: Request) -> Principal | None:
        """Raises `Forbidden` for the token of a page that did not come from that page."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return None
        try:
            principal = self.checked(request, self.book.of_token(token.strip()))
        except ConfigurationError:  # its message names a file of the server
            raise ServerBusy("the server cannot read its tokens: `ostler token` there says why") from None
        if principal is not None and principal.login is not None:
            _require_own_page(request, principal.login)
        return principal

    def checked(self, request: Request, found: Found | None) -> Found | None:
        """What was found. Raises `TooMany` after too many wrong tokens from one address."""
        if found is None and not self._wrong.take(address_of(request.scope)):
            raise TooMany("too many wrong tokens: wait a minute")
        return found

    def log_in(self, request: Request, secret: str) -> NewLogin | None:
        """A login for the page that sends the request; None for a wrong token or code."""
        is_secure = request.url.scheme == "https"
        new = self.book.log_in(secret, origin_of(request), with_cookie=is_secure)
        return self.checked(request, new)

    def log_out(self, login: Login) -> None:
        """Revokes a login; its streams end with the next check."""
        with suppress(NotFound):  # another tab was first
            self.book.revoke(login.id)

    @contextmanager
    def visit(self) -> Iterator[Visit]:
        """A request that is under way; it ends when its token is revoked."""
        visit = Visit()
        self._visits.add(visit)
        try:
            yield visit
        finally:
            self._visits.discard(visit)

    async def end_revoked(self) -> None:
        """Ends the requests of revoked tokens, until it is cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            await asyncio.to_thread(self.book.save_uses)
            for visit in [one for one in self._visits if one.principal and not self._knows(one.principal)]:
                visit.end()

    def _knows(self, principal: Principal) -> bool:
        try:
            return self.book.knows(principal)
        except ConfigurationError:
            return False


class Visit:
    """One request; `principal` is set once it is authenticated."""

    def __init__(self) -> None:
        self.principal: Principal | None = None
        self._under_way: set[asyncio.Timeout] = set()

    def end(self) -> None:
        for one in self._under_way:
            one.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def lasting(self) -> AsyncIterator[None]:
        """The work of the request. Raises `NotAllowed` when the token is revoked."""
        try:
            async with asyncio.timeout(None) as ending:
                self._under_way.add(ending)
                try:
                    yield
                finally:
                    self._under_way.discard(ending)
        except TimeoutError:
            if not ending.expired():
                raise
            raise NotAllowed("the token was revoked") from None

    def receiving(self, receive: Receive) -> Receive:
        """For streams, a revoked token looks like a disconnect."""

        async def received() -> Message:
            try:
                async with self.lasting():
                    return await receive()
            except NotAllowed:
                return {"type": "http.disconnect"}

        return received


def origin_of(request: Request) -> str:
    """The origin of the page that sends a request. Browsers omit the header where it is the server's own."""
    host = request.headers.get("host", "")
    return request.headers.get("origin", "").lower() or f"{request.url.scheme}://{host}".lower()


def cookie_name(login: Login) -> str:
    """With the prefix, browsers accept the cookie only from its host, and only over TLS."""
    return f"__Host-{login.id}"


def set_cookie(response: Response, new: NewLogin) -> None:
    """Under TLS: the token of the page counts only together with this cookie, which no script can read."""
    if new.cookie:
        seconds = (new.login.expires_ms - new.login.created_ms) // 1000
        response.set_cookie(
            cookie_name(new.login), new.cookie, seconds, secure=True, httponly=True, samesite="strict"
        )


def _require_own_page(request: Request, login: Login) -> None:
    """The token of a page counts only in requests of that page."""
    if request.method not in READ_METHODS and not request.headers.get(CSRF_HEADER):
        raise Forbidden("a request with the token of a page must have the header `X-Ostler: 1`")
    is_own = request.headers.get("sec-fetch-site", "none") in ("same-origin", "none")
    if not _is_origin_of(request, login) or not (is_own or "origin" in request.headers):
        raise Forbidden(f"this login is for {login.origin} only: log in here")
    if not is_cookie_of(login, request.cookies.get(cookie_name(login), "")):
        raise NotAllowed("the cookie of this login is missing: log in again")


def _is_origin_of(request: Request, login: Login) -> bool:
    if origin := request.headers.get("origin", "").lower():
        return origin == login.origin
    return request.headers.get("host", "").lower() == urlsplit(login.origin).netloc


class TokenMiddleware:
    """Requires a token. Paths below `excluded` have their own access control, and `pages` are files of the
    page, which asks for a token itself. Reading needs the scope `observe`, everything else `all`."""

    def __init__(self, app: ASGIApp, auth: Authenticator, excluded: str, pages: str) -> None:
        self._app = app
        self._auth = auth
        self._open = (f"{excluded}/", f"{pages}/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] != "http" or f"{scope['path']}/".startswith(self._open) or _is_start(scope)
        if is_open or scope["method"] == "OPTIONS":  # a preflight request has no token
            await self._app(scope, receive, send)
            return
        with self._auth.visit() as visit:
            answer: ASGIApp = self._app
            try:
                needed: Access = "observe" if scope["method"] in READ_METHODS else "all"
                visit.principal = self._auth.require(Request(scope), needed)
            except OstlerError as error:
                answer = error_response(error)
            await answer(scope, visit.receiving(receive), send)


def _is_start(scope: Scope) -> bool:
    """The address that leads to the page."""
    return scope["path"] == "/" and scope["method"] in ("GET", "HEAD")
