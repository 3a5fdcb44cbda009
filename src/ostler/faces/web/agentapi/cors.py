"""What browsers are told about pages of other origins. It keeps nobody out: the browser does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
