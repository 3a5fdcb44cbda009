"""Allowed hosts and CORS, as agentapi has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.schema.errors import UsageError
from ostler.server.agentapi.bodies import plain

ANY = "*"
_NO_HOST = re.compile(r"[^\w!$%&'()*+,\-.:;=\[\]~]")


def parse_allowed_hosts(items: Sequence[str]) -> list[str]:
    """The names as they are compared. Raises `UsageError`."""
    try:
        return _parsed_hosts(items)
    except ValueError as error:
        raise UsageError(f"failed to parse allowed hosts: {error}") from None


def parse_allowed_origins(items: Sequence[str]) -> list[str]:
    """Each as `scheme://host[:port]`; one may have a `*` in it. Raises `UsageError`."""
    try:
        return _parsed_origins(items)
    except ValueError as error:
        raise UsageError(f"failed to parse allowed origins: {error}") from None


def _parsed_hosts(items: Sequence[str]) -> list[str]:
    _check_list(items)
    if ANY in items:
        return [ANY]
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


def _parsed_origins(items: Sequence[str]) -> list[str]:
    _check_list(items)
    if ANY in items:
        return [ANY]
    origins = []
    for item in items:
        try:
            parts = urlsplit(item)
        except ValueError as error:
            raise ValueError(f"'{item}' is not a valid origin: {error}") from None
        origins.append(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")
    return origins


def _check_list(items: Sequence[str]) -> None:
    if not items:
        raise ValueError("the list must not be empty")
    for item in [] if ANY in items else items:
        if any(character.isspace() for character in item):
            raise ValueError(f"'{item}' contains whitespace characters, which are not allowed")
        if "," in item:
            raise ValueError(f"'{item}' contains comma characters, which are not allowed")


def split_host(text: str) -> tuple[str, str]:
    """A name and a port, if there is one. Raises `ValueError`."""
    if wrong := _NO_HOST.search(text):
        raise ValueError(f"invalid character {wrong[0]!r} in host name")
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise ValueError("missing ']' in host")
    else:
        colon = text.rfind(":")
        name, rest = (text, "") if colon < 0 else (text[:colon], text[colon:])
    if not re.fullmatch("(?::[0-9]*)?", rest):
        raise ValueError(f'invalid port "{rest}" after host')
    return name, rest[1:]


class AllowedHosts:
    """Refuses requests for other names: a page elsewhere could lead its own name here."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._shown = ", ".join(hosts)
        self._allowed = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if ANY not in self._allowed and not self._is_allowed(", ".join(Headers(scope=scope).getlist("host"))):
            app = plain(f"Invalid host header. Allowed hosts: {self._shown}", 400)
        await app(scope, receive, send)

    def _is_allowed(self, host: str) -> bool:
        try:
            return bool(host) and split_host(host)[0].lower() in self._allowed
        except ValueError:
            return False


_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "OPTIONS"})
_REQUEST_HEADERS = frozenset({"Accept", "Authorization", "Content-Type", "X-Csrf-Token", "Origin"})
_SECONDS = b"300"
RawHeaders = list[tuple[bytes, bytes]]


class Cors:
    """An origin is compared without regard to case; one `*` in it stands for anything."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._all = "*" in origins
        self._origins = [
            re.compile(".*".join(re.escape(part) for part in origin.lower().split("*", 1)), re.DOTALL)
            for origin in origins
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        asked = headers.get("access-control-request-method", "")
        if scope["method"] == "OPTIONS" and asked:
            added = self._for_preflight(headers, asked.upper())
            added.append((b"content-length", b"0"))
            await send({"type": "http.response.start", "status": 200, "headers": added})
            await send({"type": "http.response.body", "body": b""})
            return
        added = self._for_request(headers.get("origin", ""), scope["method"])

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self._app(scope, receive, tell)

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
        added.append((b"access-control-allow-credentials", b"true"))
        added.append((b"access-control-max-age", _SECONDS))
        return added

    def _for_request(self, origin: str, method: str) -> RawHeaders:
        added: RawHeaders = [(b"vary", b"Origin")]
        if self._is_allowed(origin) and method in _METHODS:
            added.append(self._allow(origin))
            added.append((b"access-control-expose-headers", b"Link"))
            added.append((b"access-control-allow-credentials", b"true"))
        return added

    def _is_allowed(self, origin: str) -> bool:
        if not origin:
            return False
        return self._all or any(one.fullmatch(origin.lower()) for one in self._origins)

    def _allow(self, origin: str) -> tuple[bytes, bytes]:
        return b"access-control-allow-origin", b"*" if self._all else origin.encode("latin-1")


def _header_names(listed: str) -> list[str]:
    """In the spelling in which they are compared, and given back."""
    names = [re.sub(r"[^A-Za-z0-9._-]", "", name) for name in re.split("[ ,]", listed)]
    return ["-".join(part.capitalize() for part in name.split("-")) for name in names if name]
