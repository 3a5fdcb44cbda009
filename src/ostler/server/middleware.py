"""Middleware in front of the routes: allowed hosts and origins, rate limit, capacity."""

from __future__ import annotations

import os
import re
import resource
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.schema.errors import OstlerError, UsageError
from ostler.server.problems import Forbidden, ServerBusy, TooMany, problem_of, problem_response
from ostler.server.streams import asks_for_stream

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
REQUESTS_A_SECOND = 200.0

BURST = 2000.0
"""Of one address, before that is what counts: a thousand followers may come back at once."""

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+?)\.?)(?::[0-9]{1,5})?")

_FOR_ALLOWED_ORIGINS = (
    (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, Range, X-Ostler",
    ),
    (b"access-control-expose-headers", b"ETag, Location, Content-Range, Idempotency-Replayed, Retry-After"),
    (b"access-control-max-age", b"600"),
)


class OriginMiddleware:
    """Wraps the application. Each check has one reason to refuse, and says it.

    - Host: a name that leads here by somebody else's doing (DNS rebinding) is refused.
    - Origin: a page of another origin is refused, unless it was allowed. It needs a token of its own: cookies
      are for the page that is served here.
    - Rate: of one address. Whether `X-Forwarded-For` says which is the business of whoever serves this.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = LOOPBACK | {host_name(host) for host in hosts}
        self._origins = frozenset(allowed_origin(origin) for origin in origins)
        self._rate = Buckets(REQUESTS_A_SECOND, BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = ", ".join(headers.getlist("origin")).lower()
        answer = self._app
        try:
            self._check(scope, headers, origin)
            if origin in self._origins and scope["method"] == "OPTIONS":
                answer = _no_content
        except OstlerError as error:
            answer = problem_response(problem_of(error))
        if origin in self._origins:
            send = _telling(send, origin)
        await answer(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers, origin: str) -> None:
        hosts = headers.getlist("host")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if not self._is_served(host, scope):
            allowed_by = "`--allow-host`, beside an agent `--allowed-hosts`, allows it"
            raise Forbidden(f"the host {host[:100]!r} is not served here; {allowed_by}")
        if origin and origin not in self._origins and _netloc(origin) != host:
            allowed_by = "`--allow-origin`, beside an agent `--allowed-origins`, allows it"
            raise Forbidden(f"pages of {origin[:100]} may not send requests here; {allowed_by}")
        if not self._rate.take(address_of(scope)):
            raise TooMany("too many requests: wait a second")

    def _is_served(self, host: str, scope: Scope) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        # An address is no name that somebody could lead elsewhere: the one that was reached is always right.
        return (name := found[1] or found[2]) in self._hosts or name == _own_address(scope)


def host_name(host: str) -> str:
    """A host as it is compared. Raises `UsageError`."""
    plain = host.lower().strip()
    if plain.count(":") > 1 and not plain.startswith("["):
        plain = f"[{plain}]"
    found = _HOST.fullmatch(plain)
    if found is None:
        raise UsageError(f"{host!r} is not a host name such as ostler.example.com")
    return found[1] or found[2]


def allowed_origin(origin: str) -> str:
    """An origin as browsers write it. Raises `UsageError`."""
    plain = origin.lower().strip().rstrip("/")
    if not re.fullmatch(r"https?://[^/\s@?#]+", plain):
        raise UsageError(f"{origin!r} is not an origin such as https://example.com")
    return plain


def _netloc(origin: str) -> str:
    """The host and port of an origin; empty for `null` and what is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def address_of(scope: Scope) -> str:
    """Whose requests are counted together: of IPv6, whoever has one address has many more."""
    address: str = scope["client"][0] if scope.get("client") else ""
    found = _parsed(address) if ":" in address else None
    return found.exploded[:19] if isinstance(found, IPv6Address) else str(found or address)


def _own_address(scope: Scope) -> str | None:
    """The address of this machine by which the connection came."""
    found = _parsed(scope["server"][0]) if scope.get("server") else None
    return str(found) if found else None


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


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


def _telling(send: Send, origin: str) -> Send:
    """Tells the browser that a page of that origin may read the answer."""

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            allowed = (b"access-control-allow-origin", origin.encode())
            added = (allowed, (b"vary", b"Origin"), *_FOR_ALLOWED_ORIGINS)
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return tell


async def _no_content(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


ENOUGH = 65_536
"""Descriptors. The programs that tools start inherit the limit, and some look through all that it allows."""

MOST_RESERVED = 1024


def raise_descriptor_limit() -> None:
    """To what we may have without asking anybody."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # where the system has a lower limit than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Capacity:
    """Refuses with 503 what would take the descriptors that the work itself needs.

    A stream is refused earlier than other requests, which come and go: while nothing new can be followed, a
    run can still be stopped.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not has_room(for_stream=asks_for_stream(scope)):
            busy = ServerBusy("the server has too many connections: try again in a moment")
            await problem_response(problem_of(busy))(scope, receive, send)
            return
        await self._app(scope, receive, send)


def has_room(*, for_stream: bool) -> bool:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return True
    reserved = min(soft // 4, MOST_RESERVED)
    if for_stream:
        return _taken() < soft - reserved
    return _lowest_free() < soft - reserved // 2


def _taken() -> int:
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208
    except OSError:  # to look takes one, too
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _lowest_free() -> int:
    """The number that the next descriptor gets: at least as many are taken. Less exact, and costs nothing."""
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.close(descriptor)
    return descriptor
