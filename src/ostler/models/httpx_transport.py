"""The transport on httpx2: for proxies, and for addresses that the direct one leaves alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import httpx2

from ostler.models.certificates import trusting_context
from ostler.models.transport import CONNECT_SECONDS, IDLE_LIMIT, IDLE_SECONDS
from ostler.models.unreachable import broken_off, shown_host, timed_out, unanswered, unreachable, unsendable
from ostler.vocabulary.errors import ConnectionFailed, ModelError

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
            raise broken_off(self._host, error) from error

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
        host = shown_host(url)
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
            raise unsendable(host) from error
        except (httpx2.HTTPError, OSError) as error:
            raise _failed(host, error) from error
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
                verify=trusting_context() if encrypted else False,
                timeout=_TIMEOUT,
                limits=httpx2.Limits(
                    max_connections=None, max_keepalive_connections=IDLE_LIMIT, keepalive_expiry=IDLE_SECONDS
                ),
            )
        return client


def _failed(host: str, error: Exception) -> ModelError:
    if isinstance(error, httpx2.ProxyError):
        return ConnectionFailed(f"cannot reach {host}: the proxy refused ({error}); check HTTPS_PROXY")
    if isinstance(error, httpx2.ConnectTimeout):
        return timed_out(host)
    if isinstance(error, httpx2.HTTPError) and not isinstance(error, httpx2.ConnectError):
        return unanswered(host, error)
    return unreachable(host, error)
