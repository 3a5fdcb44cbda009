"""Allowed hosts and CORS, as agentapi has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.schema.errors import UsageError
from ostler.server.agentapi.bodies import plain

ANY = "*"
_INVALID_IN_HOST = re.compile(r"[^\w!$%&'()*+,\-.:;=\[\]~]")


def parse_allowed_hosts(items: Sequence[str]) -> list[str]:
    """The names in lists of hosts, or `*`. Raises `UsageError`."""
    return _parse("hosts", items, _parse_hosts)


def parse_allowed_origins(items: Sequence[str]) -> list[str]:
    """Each as `scheme://host[:port]`, which may contain a `*`. Raises `UsageError`."""
    return _parse("origins", items, lambda origins: [_parse_origin(item) for item in origins])


def _parse(what: str, items: Sequence[str], parse: Callable[[Sequence[str]], list[str]]) -> list[str]:
    if ANY in items:
        return [ANY]
    try:
        if not items:
            raise ValueError("the list must not be empty")
        for item in items:
            if any(character.isspace() for character in item):
                raise ValueError(f"'{item}' contains whitespace characters, which are not allowed")
            if "," in item:
                raise ValueError(f"'{item}' contains comma characters, which are not allowed")
        return parse(items)
    except ValueError as error:
        raise UsageError(f"failed to parse allowed {what}: {error}") from None


def _parse_hosts(items: Sequence[str]) -> list[str]:
    for item in items:
        if "http://" in item or "https://" in item:
            raise ValueError(f"'{item}' must not include http:// or https://")
    split = []
    for item in items:
        try:
            split.append((item, *split_host(re.split("[/?#]", item)[0])))
        except ValueError as error:
            raise ValueError(f"'{item}' is not a valid host: {error}") from None
    for item, _, port in split:
        if port:
            raise ValueError(f"'{item}' must not include a port")
    return [name for _, name, _ in split]


def _parse_origin(item: str) -> str:
    try:
        parts = urlsplit(item)
    except ValueError as error:
        raise ValueError(f"'{item}' is not a valid origin: {error}") from None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def split_host(text: str) -> tuple[str, str]:
    """The name, and the port if there is one. Raises `ValueError`."""
    if match := _INVALID_IN_HOST.search(text):
        raise ValueError(f"invalid character {match[0]!r} in host name")
    if text.startswith("["):
        name, bracket, port = text[1:].partition("]")
        if not bracket:
            raise ValueError("missing ']' in host")
    else:
        colon = text.rfind(":")
        name, port = (text, "") if colon < 0 else (text[:colon], text[colon:])
    if not re.fullmatch("(?::[0-9]*)?", port):
        raise ValueError(f'invalid port "{port}" after host')
    return name, port[1:]


class AllowedHosts:
    """Refuses requests for other host names, because of DNS rebinding."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._names = ", ".join(hosts)
        self._allowed = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if ANY not in self._allowed and not self._is_allowed(", ".join(Headers(scope=scope).getlist("host"))):
            app = plain(f"Invalid host header. Allowed hosts: {self._names}", 400)
        await app(scope, receive, send)

    def _is_allowed(self, host: str) -> bool:
        try:
            return bool(host) and split_host(host)[0].lower() in self._allowed
        except ValueError:
            return False


_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "OPTIONS"})
_REQUEST_HEADERS = frozenset({"Accept", "Authorization", "Content-Type", "X-Csrf-Token", "Origin"})
_CREDENTIALS = (b"access-control-allow-credentials", b"true")
RawHeaders = list[tuple[bytes, bytes]]


class Cors:
    """Compares origins without regard to case; one `*` in an origin stands for anything."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._all = "*" in origins
        self._origins = [
            re.compile(".*".join(re.escape(part) for part in origin.lower().split("*", 1)), re.DOTALL)
            for origin in origins
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        method = headers.get("access-control-request-method", "")
        if scope["method"] == "OPTIONS" and method:
            added = [*self._for_preflight(headers, method.upper()), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 200, "headers": added})
            await send({"type": "http.response.body", "body": b""})
            return
        added = self._for_request(headers.get("origin", ""), scope["method"])

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _for_preflight(self, headers: Headers, method: str) -> RawHeaders:
        added: RawHeaders = [
            (b"vary", b"Origin"),
            (b"vary", b"Access-Control-Request-Method"),
            (b"vary", b"Access-Control-Request-Headers"),
        ]
        origin = headers.get("origin", "")
        names = _header_names(headers.get("access-control-request-headers", ""))
        if not self._is_allowed(origin) or method not in _METHODS or not _REQUEST_HEADERS.issuperset(names):
            return added
        added += [self._allow(origin), (b"access-control-allow-methods", method.encode())]
        if names:
            added.append((b"access-control-allow-headers", ", ".join(names).encode()))
        return [*added, _CREDENTIALS, (b"access-control-max-age", b"300")]

    def _for_request(self, origin: str, method: str) -> RawHeaders:
        added: RawHeaders = [(b"vary", b"Origin")]
        if self._is_allowed(origin) and method in _METHODS:
            added += [self._allow(origin), (b"access-control-expose-headers", b"Link"), _CREDENTIALS]
        return added

    def _is_allowed(self, origin: str) -> bool:
        if not origin:
            return False
        return self._all or any(one.fullmatch(origin.lower()) for one in self._origins)

    def _allow(self, origin: str) -> tuple[bytes, bytes]:
        return b"access-control-allow-origin", b"*" if self._all else origin.encode("latin-1")


def _header_names(listed: str) -> list[str]:
    """The names in the canonical spelling, such as `Content-Type`."""
    names = [re.sub(r"[^A-Za-z0-9._-]", "", name) for name in re.split("[ ,]", listed)]
    return ["-".join(part.capitalize() for part in name.split("-")) for name in names if name]
