"""Authenticates requests by token or cookie, and ends open requests when a token is revoked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.schema.errors import ConfigurationError, OstlerError
from ostler.server.middleware import Buckets, address_of
from ostler.server.problems import Forbidden, NotAllowed, ServerBusy, TooMany, error_response
from ostler.server.tokens import COOKIE_SECONDS, Access, Principal, TokenStore

READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

CSRF_HEADER = "x-ostler"
"""A page of another origin cannot set it without a preflight request."""

WRONG_A_MINUTE = 20.0
"""Attempts with a wrong token from one address."""

CHECK_INTERVAL = 1.0
"""Seconds between two checks for revoked tokens."""


class Authenticator:
    def __init__(self, book: TokenStore) -> None:
        self.book = book
        self._wrong = Buckets(WRONG_A_MINUTE / 60, WRONG_A_MINUTE)
        self._visits: set[Visit] = set()

    def require(self, request: Request, access: Access) -> Principal | None:
        """Raises `NotAllowed` or `Forbidden`."""
        if access == "none":
            return None
        principal = self.principal(request)
        if principal is None:
            raise NotAllowed("authenticate with the header `Authorization: Bearer TOKEN`, or log in")
        if principal.by_cookie:
            _require_own_page(request)
        if access == "all" and principal.scope != "all":
            raise Forbidden("this token may only observe")
        return principal

    def principal(self, request: Request) -> Principal | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            if kind.lower() == "bearer":
                return self.checked(request, self.book.of_token(token.strip()))
            cookie = request.cookies.get(self.book.cookie_name)
            return self.book.of_cookie(cookie) if cookie else None
        except ConfigurationError:  # its message names a file of the server
            raise ServerBusy("the server cannot read its tokens: `ostler token` there says why") from None

    def checked(self, request: Request, principal: Principal | None) -> Principal | None:
        """The principal. Raises `TooMany` after too many wrong tokens from one address."""
        if principal is None and not self._wrong.take(address_of(request.scope)):
            raise TooMany("too many wrong tokens: wait a minute")
        return principal

    def set_cookie(self, request: Request, response: Response, principal: Principal) -> None:
        response.set_cookie(
            self.book.cookie_name,
            self.book.cookie(principal),
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

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


def _require_own_page(request: Request) -> None:
    """Browsers send cookies with requests of any page: only our own page may use them."""
    if request.method not in READ_METHODS and not request.headers.get(CSRF_HEADER):
        raise Forbidden("a request with a cookie must have the header `X-Ostler: 1`")
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise Forbidden("pages of another origin must not use the cookie")


CODE = "code"


class TokenMiddleware:
    """Requires a token or a cookie; the link `/?code=…` sets the cookie.

    Paths below `excluded` have their own access control. Reading needs a token with the scope `observe`,
    everything else one with the scope `all`.
    """

    def __init__(self, app: ASGIApp, auth: Authenticator, excluded: str) -> None:
        self._app = app
        self._auth = auth
        self._excluded = excluded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or f"{scope['path']}/".startswith(f"{self._excluded}/"):
            await self._app(scope, receive, send)
            return
        with self._auth.visit() as visit:
            try:
                answer = self._logged_in(request := Request(scope))
                if answer is None and scope["method"] != "OPTIONS":  # a preflight request has no token
                    visit.principal = self._allowed(request)
            except OstlerError as error:
                answer = error_response(error)
            await (answer or self._app)(scope, visit.receiving(receive), send)

    def _logged_in(self, request: Request) -> ASGIApp | None:
        code = request.query_params.get(CODE, "")
        if request.url.path != "/" or request.method != "GET" or not code:
            return None
        principal = self._auth.checked(request, self._auth.book.of_code(code))
        if principal is None:
            raise NotAllowed("the link was used or has expired: the server prints a new one when it starts")
        response = RedirectResponse("./", 303)  # relative, because a proxy may serve this below a path
        self._auth.set_cookie(request, response, principal)
        return response

    def _allowed(self, request: Request) -> Principal:
        principal = self._auth.principal(request)
        if principal is None:
            raise NotAllowed("authenticate with the header `Authorization: Bearer TOKEN`")
        if principal.by_cookie and not _is_own_page(request):
            raise Forbidden("pages of another origin must not use the cookie")
        if request.method not in READ_METHODS and principal.scope != "all":
            raise Forbidden("this token may only observe")
        return principal


def _is_own_page(request: Request) -> bool:
    """Browsers send cookies with requests of any page, but say where a request comes from."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    if request.method in READ_METHODS or request.headers.get(CSRF_HEADER):
        return True
    return urlsplit(request.headers.get("origin", "")).netloc == request.headers.get("host")
