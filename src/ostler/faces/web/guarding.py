"""The guard before the routes: from where one may ask, who asks, how much and how often."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.faces.web.problems import Forbidden, NotAllowed, TooLarge, TooMany, problem_of, problem_response
from ostler.faces.web.tokens import Access, Principal, TokenBook
from ostler.vocabulary.errors import OstlerError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
MOST_BODY = 10 * 1024 * 1024
"""Bytes of a request that is not an upload: an uploaded file is named in it, or stands in it as base64."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_HEADER = "x-ostler"
"""A page of somebody else cannot set it without being asked first whether it may."""
REQUESTS_A_SECOND = 50.0
BURST = 200.0
WRONG_A_MINUTE = 20.0
"""Attempts with a wrong token, from one address."""


class Guard:
    """Wraps the application. Each check has one reason to refuse, and says it.

    - Host: a name that leads here by somebody else's doing (DNS rebinding) is refused.
    - Origin: a page of another origin is refused, unless it was allowed.
    - Rate and size: per address, and while the body is read.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = LOOPBACK | {host.lower() for host in hosts}
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self._rate = Buckets(REQUESTS_A_SECOND, BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "").lower()
        try:
            self._check(scope, headers, origin)
        except OstlerError as error:
            await problem_response(problem_of(error))(scope, receive, send)
            return
        if origin in self._origins and origin:
            if scope["method"] == "OPTIONS":
                await _allow_origin(_no_content, origin)(scope, receive, send)
                return
            await _allow_origin(self._app, origin)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers, origin: str) -> None:
        host = headers.get("host", "").lower()
        if "*" not in self._hosts and _without_port(host) not in self._hosts:
            raise Forbidden(f"the host {host[:100]!r} is not served here; `--allow-host` allows it")
        if origin and origin not in self._origins and urlsplit(origin).netloc != host:
            raise Forbidden(f"pages of {origin[:100]} may not ask here; `--allow-origin` allows it")
        if not self._rate.take(address_of(scope)):
            raise TooMany("too many requests: wait a second")


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def address_of(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


class Buckets:
    """So many a second for each of those who come, and a burst before that."""

    MOST = 10_000
    """Of them are remembered."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> bool:
        now = self._now()
        left, then = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        is_allowed = left >= 1
        self._left[who] = (left - 1 if is_allowed else left, now)
        if len(self._left) > self.MOST:
            self._left.popitem(last=False)
        return is_allowed


class Doorkeeper:
    """Knows who asks, from a token or a cookie, and whether that is enough."""

    def __init__(self, book: TokenBook) -> None:
        self.book = book
        self._wrong = Buckets(WRONG_A_MINUTE / 60, WRONG_A_MINUTE)

    def require(self, request: Request, access: Access) -> Principal | None:
        """Raises `NotAllowed` or `Forbidden`."""
        if access == "none":
            return None
        principal = self.principal(request)
        if principal is None:
            raise NotAllowed("say who you are: with the header `Authorization: Bearer TOKEN`, or by a login")
        if principal.by_cookie and request.method not in READING and not request.headers.get(CSRF_HEADER):
            raise Forbidden("a request with a cookie must have the header `X-Ostler: 1`")
        if access == "all" and principal.scope != "all":
            raise Forbidden("this token may only observe")
        return principal

    def principal(self, request: Request) -> Principal | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.checked(request, self.book.of_token(token.strip()))
        cookie = request.cookies.get(self.book.cookie_name)
        return self.book.of_cookie(cookie) if cookie else None

    def checked(self, request: Request, found: Principal | None) -> Principal | None:
        """Whoever guesses is slowed down."""
        if found is None and not self._wrong.take(address_of(request.scope)):
            raise TooMany("too many wrong tokens: wait a minute")
        return found


def limited(receive: Receive, headers: Headers, most: int) -> Receive:
    """Raises `TooLarge` before, or as soon as, more than `most` bytes come."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most:
        raise TooLarge(f"the body may have {most} bytes at most")
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise TooLarge(f"the body may have {most} bytes at most")
        return message

    return counted


def _allow_origin(app: ASGIApp, origin: str) -> ASGIApp:
    """Tells the browser that a page of that origin may read the answer."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"access-control-allow-origin", origin.encode()),
                    (b"vary", b"Origin"),
                    (b"access-control-allow-methods", b"GET, POST, DELETE"),
                    (
                        b"access-control-allow-headers",
                        b"Authorization, Content-Type, Idempotency-Key, Last-Event-ID",
                    ),
                    (b"access-control-max-age", b"600"),
                ]
            await send(message)

        await app(scope, receive, tell)

    return answer


async def _no_content(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})
