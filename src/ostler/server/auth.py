"""Authenticates requests by token or cookie, and ends open requests when a token is revoked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.schema.errors import ConfigurationError, OstlerError
from ostler.server.middleware import Buckets, address_of
from ostler.server.problems import Forbidden, NotAllowed, ServerBusy, TooMany, problem_of, problem_response
from ostler.server.tokens import COOKIE_SECONDS, Access, Principal, TokenStore

READING = frozenset({"GET", "HEAD", "OPTIONS"})

CSRF_HEADER = "x-ostler"
"""A page of somebody else cannot set it without being asked first whether it may."""

WRONG_A_MINUTE = 20.0
"""Attempts with a wrong token, from one address."""

LOOKING = 1.0
"""Seconds after which it is seen that a token was revoked."""


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
        except ConfigurationError:  # its words are for whoever can see the file
            raise ServerBusy(
                "the server's tokens cannot be read: run `ostler token` there to see why"
            ) from None

    def checked(self, request: Request, found: Principal | None) -> Principal | None:
        """Whoever guesses is slowed down."""
        if found is None and not self._wrong.take(address_of(request.scope)):
            raise TooMany("too many wrong tokens: wait a minute")
        return found

    @contextmanager
    def visit(self) -> Iterator[Visit]:
        """A request that is under way; when the token of its principal is revoked, it ends."""
        visit = Visit()
        self._visits.add(visit)
        try:
            yield visit
        finally:
            self._visits.discard(visit)

    async def watch(self) -> None:
        """Ends the visits of those who are not known any more."""
        while True:
            await asyncio.sleep(LOOKING)
            for visit in [one for one in self._visits if one.principal and not self._knows(one.principal)]:
                visit.end()

    def _knows(self, principal: Principal) -> bool:
        try:
            return self.book.knows(principal)
        except ConfigurationError:
            return False


class Visit:
    """`principal` is there as soon as it is known who asks."""

    def __init__(self) -> None:
        self.principal: Principal | None = None
        self._under_way: set[asyncio.Timeout] = set()

    def end(self) -> None:
        for one in self._under_way:
            one.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def lasting(self) -> AsyncIterator[None]:
        """What is done as long as the token counts. Raises `NotAllowed`."""
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
        """To whoever streams, a revoked token is a connection that has ended."""

        async def received() -> Message:
            try:
                async with self.lasting():
                    return await receive()
            except NotAllowed:
                return {"type": "http.disconnect"}

        return received


def _require_own_page(request: Request) -> None:
    """Cookies go along with whatever a browser is made to ask: only our own page may use them."""
    if request.method not in READING and not request.headers.get(CSRF_HEADER):
        raise Forbidden("a request with a cookie must have the header `X-Ostler: 1`")
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise Forbidden("pages of another origin must not use the cookie")


CODE = "code"


class TokenMiddleware:
    """Whoever has a token passes, and whoever logged in with a link: `/?code=…` becomes a cookie.

    What is under `keeps_itself` has a door of its own. Who looks needs a token that may observe; who sends
    something, one that may do all.
    """

    def __init__(self, app: ASGIApp, doorkeeper: Authenticator, keeps_itself: str) -> None:
        self._app = app
        self._doorkeeper = doorkeeper
        self._keeps_itself = keeps_itself

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or f"{scope['path']}/".startswith(f"{self._keeps_itself}/"):
            await self._app(scope, receive, send)
            return
        with self._doorkeeper.visit() as visit:
            try:
                answer = self._logged_in(request := Request(scope))
                if answer is None and scope["method"] != "OPTIONS":  # a browser asks first, without a token
                    visit.principal = self._allowed(request)
            except OstlerError as error:
                answer = problem_response(problem_of(error))
            await (answer or self._app)(scope, visit.receiving(receive), send)

    def _logged_in(self, request: Request) -> ASGIApp | None:
        code = request.query_params.get(CODE, "")
        if request.url.path != "/" or request.method != "GET" or not code:
            return None
        book = self._doorkeeper.book
        principal = self._doorkeeper.checked(request, book.of_code(code))
        if principal is None:
            raise NotAllowed("this link was used or has expired: the server prints a new one when it starts")
        response = RedirectResponse("./", 303)  # a proxy may have us below a path
        response.set_cookie(
            book.cookie_name,
            book.cookie(principal),
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    def _allowed(self, request: Request) -> Principal:
        principal = self._doorkeeper.principal(request)
        if principal is None:
            raise NotAllowed("authenticate with the header `Authorization: Bearer TOKEN`")
        if principal.by_cookie and not _is_own_page(request):
            raise Forbidden("pages of another origin must not use the cookie")
        if request.method not in READING and principal.scope != "all":
            raise Forbidden("this token may only observe")
        return principal


def _is_own_page(request: Request) -> bool:
    """Cookies go along with whatever a browser is made to ask. It says from where it sends something."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    if request.method in READING or request.headers.get(CSRF_HEADER):
        return True
    return urlsplit(request.headers.get("origin", "")).netloc == request.headers.get("host")
