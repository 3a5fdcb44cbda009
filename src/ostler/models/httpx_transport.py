"""The transport on httpx2: for proxies, and for addresses that the direct one does not support."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import httpx2

from ostler.models import transport
from ostler.models.vendor_errors import proxy_login
from ostler.schema.errors import ConnectionFailed, InvalidRequest, ModelError

_TIMEOUT = httpx2.Timeout(None, connect=transport.CONNECT_SECONDS)
_EXTENSIONS = {"timeout": _TIMEOUT.as_dict()}
_UNSENDABLE = (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol, httpx2.InvalidURL, ValueError)


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
            raise transport.broken_off(self._host, error) from error
        if self._is_closed:
            raise transport.broken_off(self._host, OSError("the client closed it"))
        return b""

    async def aclose(self) -> None:
        self._is_closed = True
        await self._body.aclose()
        await self._response.aclose()


class _ConnectTrace:
    """Follows httpx2's trace events to know whether a request has reached the proxy or the server."""

    def __init__(self, url: httpx2.URL) -> None:
        self.secure = url.scheme == "https"
        self.proxy = ""
        """The proxy's address while the connection is with the proxy."""
        self._server = url.raw_host.decode("ascii"), url.port or (443 if self.secure else 80)
        self._stream: Any = None
        self._in_handshake = False

    async def abort(self) -> None:
        """Closes the connection that httpx2 leaves open if it is cancelled in a TLS handshake."""
        if self._in_handshake:
            await self._stream.aclose()

    async def follow(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith("connect_tcp.complete"):
            self._stream = info["return_value"]
        elif ".start_tls." in event:
            self._in_handshake = not event.endswith("complete")
        if event.endswith("connect_tcp.started"):
            host, port = info["host"], info["port"]
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            self.proxy = "" if (host, port) == self._server else address
        elif event.endswith("start_tls.started") and not event.startswith("connection."):
            self.proxy = ""  # the tunnel is open; a connection's own handshake may still be with the proxy


class HttpxTransport:
    """See `Transport`. Its connections live as long as it does, on the event loop that used it last."""

    def __init__(self) -> None:
        self._clients: dict[bool, httpx2.AsyncClient] = {}
        self._url = httpx2.URL("")
        self._url_text = ""
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpxReply:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                self._clients = {}  # connections of another loop cannot be used or closed on this one
            self._loop = loop
        host = transport.display_host(url)
        try:
            if url != self._url_text:  # parsed once: the requests of a step all go to the same address
                self._url, self._url_text = httpx2.URL(url), url
            trace = _ConnectTrace(self._url)
            extensions = {**_EXTENSIONS, "trace": trace.follow}
            request = httpx2.Request("POST", self._url, headers=headers, content=body, extensions=extensions)
            response = await self._client(url).send(request, stream=True, follow_redirects=False)
        except _UNSENDABLE as error:
            raise transport.unsendable(host) from error
        except (httpx2.HTTPError, OSError) as error:
            raise _failed(host, trace, error) from error
        except asyncio.CancelledError:
            await trace.abort()
            raise
        return HttpxReply(response, host)

    async def aclose(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    def _client(self, url: str) -> httpx2.AsyncClient:
        encrypted = not url.lower().startswith("http://")
        client = self._clients.get(encrypted)
        if client is None:
            client = self._clients[encrypted] = _client(encrypted)
        return client


def _client(encrypted: bool) -> httpx2.AsyncClient:
    # Reading the certificates takes tens of milliseconds, and an http:// address needs none.
    context = transport.ssl_context() if encrypted else False
    limit, seconds = transport.IDLE_LIMIT, transport.IDLE_SECONDS
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=limit, keepalive_expiry=seconds)
    try:
        return httpx2.AsyncClient(verify=context, timeout=_TIMEOUT, limits=limits)
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        variables = transport.proxy_variables("http", "https")
        if isinstance(error, ImportError):
            variables = [name for name in variables if os.environ[name].lower().startswith("socks")]
            problem = "names a SOCKS proxy, which needs one more package: `pip install socksio`, or unset it"
        else:
            problem = "does not name a usable proxy: write http://HOST:PORT, or unset it"
        raise InvalidRequest(f"{_or_system_setting(variables)} {problem}") from error


def _or_system_setting(variables: list[str]) -> str:
    return " or ".join(variables) or "the system's proxy setting"


def _failed(host: str, trace: _ConnectTrace, error: Exception) -> ModelError:
    variable = _or_system_setting(transport.proxy_variables("https" if trace.secure else "http")[:1])
    if isinstance(error, httpx2.ProxyError):
        if str(error).startswith("407"):
            return proxy_login(host, variable)
        return ConnectionFailed(f"cannot reach {host}: the proxy refused ({error}); check {variable}")
    is_unconnected = not isinstance(error, httpx2.HTTPError) or isinstance(
        error, httpx2.ConnectError | httpx2.ConnectTimeout
    )
    # Through a tunnel, nothing is sent before the handshake with the host itself.
    if trace.proxy and (is_unconnected or trace.secure):
        is_timeout = isinstance(error, httpx2.TimeoutException)
        reason = (
            f"no connection within {transport.CONNECT_SECONDS:.0f} s"
            if is_timeout
            else transport.reason_of(error)
        )
        problem = f"the proxy {trace.proxy} cannot be used ({reason})"
        return ConnectionFailed(f"cannot reach {host}: {problem}; correct or unset {variable}")
    if isinstance(error, httpx2.ConnectTimeout):
        return transport.timed_out(host)
    return transport.unreachable(host, error) if is_unconnected else transport.unanswered(host, error)
