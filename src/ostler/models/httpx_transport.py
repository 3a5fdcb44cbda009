"""The transport on httpx2: proxies, TLS and connection reuse."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from urllib.parse import urlsplit

import httpx2

from ostler.vocabulary.errors import ConnectionFailed, InvalidRequest, ModelError, StreamBroken

CONNECT_SECONDS = 15.0
# Tools often run longer than the library's default of 5 s between two requests to the same vendor.
IDLE_SECONDS = 30.0

_TIMEOUT = httpx2.Timeout(None, connect=CONNECT_SECONDS)
_EXTENSIONS = {"timeout": _TIMEOUT.as_dict()}


class HttpxReply:
    """See `Reply`."""

    def __init__(self, response: httpx2.Response, host: str) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._response = response
        self._host = host

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        response = self._response
        body = response.aiter_bytes() if "content-encoding" in response.headers else response.aiter_raw()
        try:
            async with aclosing(body):
                async for chunk in body:
                    yield chunk
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            raise StreamBroken(
                f"{self._host} broke off its answer ({_reason(error)}); try again", stream_opened=True
            ) from error

    async def aclose(self) -> None:
        await self._response.aclose()


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
        host = _host(url)
        try:
            request = httpx2.Request(
                "POST", self._parsed(url), headers=headers, content=body, extensions=_EXTENSIONS
            )
            response = await self._client(url).send(request, stream=True, follow_redirects=False)
        except (
            httpx2.LocalProtocolError,
            httpx2.UnsupportedProtocol,
            httpx2.InvalidURL,
            ValueError,
        ) as error:
            raise InvalidRequest(
                f"the request to {host} cannot be sent: check the base URL, the key and the extra headers"
            ) from error
        except (httpx2.HTTPError, OSError) as error:
            raise _unreachable(host, error) from error
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
            # Reading the certificates takes tens of milliseconds, which a plain address has no use for.
            client = self._clients[encrypted] = httpx2.AsyncClient(
                verify=encrypted,
                timeout=_TIMEOUT,
                limits=httpx2.Limits(
                    max_connections=None, max_keepalive_connections=64, keepalive_expiry=IDLE_SECONDS
                ),
            )
        return client


def _host(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or "the given address"


def _unreachable(host: str, error: Exception) -> ModelError:
    if isinstance(error, httpx2.ProxyError):
        return ConnectionFailed(f"cannot reach {host}: the proxy refused ({error}); check HTTPS_PROXY")
    if isinstance(error, httpx2.ConnectTimeout):
        return ConnectionFailed(
            f"cannot reach {host}: no connection within {CONNECT_SECONDS:.0f} s; check the network"
        )
    if isinstance(error, httpx2.HTTPError) and not isinstance(error, httpx2.ConnectError):
        # The request may have been taken: a second one could be paid, or done, twice.
        return StreamBroken(
            f"{host} closed the connection without an answer ({_reason(error)}); try again",
            stream_opened=True,
        )
    cause = _origin(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ConnectionFailed(
            f"cannot trust {host}: {cause.verify_message}; name your own authority's file in SSL_CERT_FILE"
        )
    if isinstance(cause, ssl.SSLError):
        return ConnectionFailed(f"cannot speak TLS with {host} ({cause.reason}); is it an http:// address?")
    if isinstance(cause, socket.gaierror):
        return ConnectionFailed(f"cannot find {host}: its name is unknown; check the address and the network")
    if isinstance(cause, ConnectionRefusedError):
        return ConnectionFailed(f"cannot reach {host}: connection refused; is the server running?")
    return ConnectionFailed(f"cannot reach {host}: {_reason(error)}; check the network")


def _origin(error: BaseException) -> BaseException:
    """The operating system's own error at the bottom of a chain, or the last of the chain."""
    seen = error
    while not (isinstance(seen, OSError) and seen.errno is not None):
        if isinstance(seen, BaseExceptionGroup):
            seen = seen.exceptions[0]
            continue
        below = seen.__cause__ or seen.__context__
        if below is None:
            break
        seen = below
    return seen


def _reason(error: Exception) -> str:
    cause = _origin(error)
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    return str(error).rstrip(".") or type(error).__name__
