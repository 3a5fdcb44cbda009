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
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.schema.errors import OstlerError, UsageError
from ostler.server.problems import Forbidden, ServerBusy, TooMany, error_response
from ostler.server.streams import asks_for_stream

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
REQUESTS_A_SECOND = 200.0

BURST = 2000.0
"""Requests of one address before the rate counts: a thousand streams may reconnect at once."""

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
    """Checks the host (against DNS rebinding), the origin, and the rate of requests from one address.

    A page of an allowed origin needs a token: cookies are for the page that is served here. Whether
    `X-Forwarded-For` counts is decided by the HTTP server.
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
                answer = Response(status_code=204)
        except OstlerError as error:
            answer = error_response(error)
        if origin in self._origins:
            send = _with_cors_headers(send, origin)
        await answer(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers, origin: str) -> None:
        hosts = headers.getlist("host")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if not self._is_served(host, scope):
            allowed_by = "`--allow-host`, or `--allowed-hosts` with an agent, allows it"
            raise Forbidden(f"the host {host[:100]!r} is not served here; {allowed_by}")
        if origin and origin not in self._origins and _netloc(origin) != host:
            allowed_by = "`--allow-origin`, or `--allowed-origins` with an agent, allows it"
            raise Forbidden(f"pages of {origin[:100]} may not send requests here; {allowed_by}")
        if not self._rate.take(address_of(scope)):
            raise TooMany("too many requests: wait a second")

    def _is_served(self, host: str, scope: Scope) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        # The address of the connection itself is always right: DNS cannot redirect it.
        return (name := match[1] or match[2]) in self._hosts or name == _own_address(scope)


def host_name(host: str) -> str:
    """The name of a host in lower case, without its port. Raises `UsageError`."""
    plain = host.lower().strip()
    if plain.count(":") > 1 and not plain.startswith("["):
        plain = f"[{plain}]"
    match = _HOST.fullmatch(plain)
    if match is None:
        raise UsageError(f"{host!r} is not a host name such as ostler.example.com")
    return match[1] or match[2]


def allowed_origin(origin: str) -> str:
    """An origin as browsers write it. Raises `UsageError`."""
    plain = origin.lower().strip().rstrip("/")
    if not re.fullmatch(r"https?://[^/\s@?#]+", plain):
        raise UsageError(f"{origin!r} is not an origin such as https://example.com")
    return plain


def _netloc(origin: str) -> str:
    """The host and port of an origin; empty for `null` and invalid ones."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def address_of(scope: Scope) -> str:
    """The client's address; of an IPv6 address only the network, because clients have many addresses."""
    text: str = scope["client"][0] if scope.get("client") else ""
    address = _parsed(text) if ":" in text else None
    return address.exploded[:19] if isinstance(address, IPv6Address) else str(address or text)


def _own_address(scope: Scope) -> str | None:
    """The address of this machine that the client has connected to."""
    address = _parsed(scope["server"][0]) if scope.get("server") else None
    return str(address) if address else None


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


class Buckets:
    """A rate limit per client: so many requests a second, after a burst."""

    MOST = 10_000
    """Clients that are remembered."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> bool:
        now = self._now()
        left, then = self._left.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        is_allowed = left >= 1
        self._left[client] = (left - 1 if is_allowed else left, now)
        if len(self._left) > self.MOST:
            self._left.popitem(last=False)
        return is_allowed


def _with_cors_headers(send: Send, origin: str) -> Send:
    """Allows pages of that origin to read the response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            allowed = (b"access-control-allow-origin", origin.encode())
            added = (allowed, (b"vary", b"Origin"), *_FOR_ALLOWED_ORIGINS)
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return send_with_headers


ENOUGH = 65_536
"""Descriptors. Programs that tools start inherit the limit, and some loop over all possible numbers."""

MOST_RESERVED = 1024


def raise_descriptor_limit() -> None:
    """Raises the soft limit as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # where the system has a lower limit than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Capacity:
    """Refuses requests with 503 while descriptors are scarce.

    Streams are refused earlier than other requests, so that a run can still be stopped.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not has_room(for_stream=asks_for_stream(scope)):
            busy = ServerBusy("the server has too many connections: try again in a moment")
            await error_response(busy)(scope, receive, send)
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
    except OSError:  # listing takes a descriptor, too
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _lowest_free() -> int:
    """The number of the next descriptor: at least as many are taken. Cheaper than `_taken`."""
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.close(descriptor)
    return descriptor
