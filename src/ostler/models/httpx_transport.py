"""The transport on httpx2: for proxies, and for addresses that the direct one leaves alone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import httpx2

from ostler.models.transport import (
    CONNECT_SECONDS,
    IDLE_LIMIT,
    IDLE_SECONDS,
    broken_off,
    display_host,
    proxy_unreachable,
    proxy_variables,
    reason_of,
    ssl_context,
    timed_out,
    unanswered,
    unreachable,
    unsendable,
)
from ostler.models.vendor_errors import proxy_login
from ostler.schema.errors import ConnectionFailed, InvalidRequest, ModelError

_TIMEOUT = httpx2.Timeout(None, connect=CONNECT_SECONDS)
_EXTENSIONS = {"timeout": _TIMEOUT.as_dict()}


class HttpxReply:
    """See `Reply`."""

    def __init__(self, response: httpx2.Response, host: str) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._response = response
        self._host = host
        self._body = response.aiter_bytes() if "content-encoding" in self.headers else response.aiter_raw()
        self._is_closed = False

    @property
    def is_complete(self) -> bool:
        return False

    async def read(self) -> bytes:
        try:
            async for piece in self._body:
                if piece:
                    return piece
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            raise broken_off(self._host, error) from error
        if self._is_closed:
            raise broken_off(self._host, OSError("it was closed on this side"))
        return b""

    async def aclose(self) -> None:
        self._is_closed = True
        await self._body.aclose()
        await self._response.aclose()


class _Way:
    """Whom a request is about to reach, as httpx2's trace tells it."""

    def __init__(self, url: httpx2.URL) -> None:
        self.secure = url.scheme == "https"
        self.proxy = ""
        """Set as long as it is the proxy."""
        self._end = url.raw_host.decode("ascii"), url.port or (443 if self.secure else 80)
        self._stream: Any = None
        self._shakes_hands = False

    async def leave(self) -> None:
        """Closes what httpx2 leaves open when it is cancelled in a TLS handshake."""
        if self._shakes_hands:
            await self._stream.aclose()

    async def follow(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith("connect_tcp.complete"):
            self._stream = info["return_value"]
        elif ".start_tls." in event:
            self._shakes_hands = not event.endswith("complete")
        if event.endswith("connect_tcp.started"):
            host, port = info["host"], info["port"]
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            self.proxy = "" if (host, port) == self._end else address
        elif event.endswith("start_tls.started") and not event.startswith("connection."):
            self.proxy = ""  # it has opened the tunnel; a connection's own handshake may still be with it


class HttpxTransport:
    """See `Transport`. Its connections live as long as it does, on the event loop that used it last."""

    def __init__(self) -> None:
        self._clients: dict[bool, httpx2.AsyncClient] = {}
        self._url = httpx2.URL("")
        self._url_text = ""
        self._loop: asyncio.AbstractEventLoop | None = None

    def prepare(self, url: str) -> None:
        self._client(url)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpxReply:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                self._clients = {}  # connections of another loop cannot be used, nor closed, on this one
            self._loop = loop
        host = display_host(url)
        try:
            parsed = self._parsed(url)
            way = _Way(parsed)
            extensions = {**_EXTENSIONS, "trace": way.follow}
            request = httpx2.Request("POST", parsed, headers=headers, content=body, extensions=extensions)
            response = await self._client(url).send(request, stream=True, follow_redirects=False)
        except (
            httpx2.LocalProtocolError,
            httpx2.UnsupportedProtocol,
            httpx2.InvalidURL,
            ValueError,
        ) as error:
            raise unsendable(host) from error
        except (httpx2.HTTPError, OSError) as error:
            raise _failed(host, way, error) from error
        except asyncio.CancelledError:
            await way.leave()
            raise
        return HttpxReply(response, host)

    async def aclose(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    def _parsed(self, url: str) -> httpx2.URL:
        """Parsed once: a step's requests all go to the same address."""
        if url != self._url_text:
            self._url, self._url_text = httpx2.URL(url), url
        return self._url

    def _client(self, url: str) -> httpx2.AsyncClient:
        encrypted = not url.lower().startswith("http://")
        client = self._clients.get(encrypted)
        if client is None:
            client = self._clients[encrypted] = _client(encrypted)
        return client


def _client(encrypted: bool) -> httpx2.AsyncClient:
    # Reading the certificates takes tens of milliseconds, which a plain address has no use for.
    trusting = ssl_context() if encrypted else False
    limits = httpx2.Limits(
        max_connections=None, max_keepalive_connections=IDLE_LIMIT, keepalive_expiry=IDLE_SECONDS
    )
    try:
        return httpx2.AsyncClient(verify=trusting, timeout=_TIMEOUT, limits=limits)
    except ImportError as error:
        named = _named([one for one in _all_proxies() if os.environ[one].lower().startswith("socks")])
        raise InvalidRequest(
            f"{named} names a SOCKS proxy, which needs one more package: `pip install socksio`, or unset it"
        ) from error
    except (ValueError, httpx2.InvalidURL) as error:
        raise InvalidRequest(
            f"{_named(_all_proxies())} names no proxy that can be used: write http://HOST:PORT, or unset it"
        ) from error


def _all_proxies() -> list[str]:
    return proxy_variables("http", "https")


def _named(variables: list[str]) -> str:
    return " or ".join(variables) or "the system's proxy setting"


def _failed(host: str, way: _Way, error: Exception) -> ModelError:
    variable = _named(proxy_variables("https" if way.secure else "http")[:1])
    if isinstance(error, httpx2.ProxyError):
        if str(error).startswith("407"):
            return proxy_login(host, variable)
        return ConnectionFailed(f"cannot reach {host}: the proxy refused ({error}); check {variable}")
    is_unconnected = not isinstance(error, httpx2.HTTPError) or isinstance(
        error, httpx2.ConnectError | httpx2.ConnectTimeout
    )
    # Through a tunnel nothing is sent before the handshake with the host itself.
    if way.proxy and (is_unconnected or way.secure):
        late = isinstance(error, httpx2.TimeoutException)
        reason = f"no connection within {CONNECT_SECONDS:.0f} s" if late else reason_of(error)
        return proxy_unreachable(host, way.proxy, variable, reason)
    if isinstance(error, httpx2.ConnectTimeout):
        return timed_out(host)
    return unreachable(host, error) if is_unconnected else unanswered(host, error)
