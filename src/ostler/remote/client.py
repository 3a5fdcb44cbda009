"""A client for another server: addresses, requests and event streams."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2
import msgspec

from ostler.models.sse import Frame, SseSplitter
from ostler.models.transport import (
    CONNECT_SECONDS,
    broken_off,
    ssl_context,
    timed_out,
    unreachable,
    unsendable,
)
from ostler.schema.errors import ERRORS, ConnectionFailed, NotFound, OstlerError, StreamBroken, UsageError

_SESSION = re.compile(r"(?P<base>.*?)/(?:api/v1/sessions|s)/(?P<session>[^/]+)(?:/.*)?")
_BELOW_BASE = re.compile(r"/(?:chat(?:/embed)?|api/v1)\Z")

_TOKEN, _CODE = re.compile(r"(?:^|&)token=([^&]+)"), re.compile(r"(?:^|&)code=([^&]+)")
"""In the link to the page, and in the link to an agent."""


class Address(msgspec.Struct, frozen=True):
    base: str
    """The server's URL, without a slash at the end."""
    session: str = ""
    code: str = ""
    """The one-time code of a link."""

    @property
    def host(self) -> str:
        return urlsplit(self.base).netloc


def address_of(text: str) -> Address:
    """Raises `UsageError`."""
    text = text.strip()
    url = text if text.startswith(("http://", "https://")) else f"http://{text}"
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0 and "://" not in parts.netloc + parts.path
    except ValueError:
        is_address = False
    if not is_address or "@" in parts.netloc or any(one.isspace() for one in parts.netloc + parts.path):
        raise UsageError("that is not the address of a server, such as localhost:3284")
    path, session = parts.path.rstrip("/"), ""
    if match := _SESSION.fullmatch(path):
        path, session = match["base"], unquote(match["session"])
    path = _BELOW_BASE.sub("", path)
    code = _TOKEN.search(parts.fragment) or _CODE.search(parts.query)
    return Address(f"{parts.scheme}://{parts.netloc}{path}", session, unquote(code[1]) if code else "")


ANSWER_SECONDS = 75.0
"""For a response that is not a stream: the longest poll takes 60."""

SILENCE = 45.0
"""Seconds without data after which a stream counts as broken: keep-alives come every 15."""

API = "/api/v1"


class Unauthorized(OstlerError):
    """The token is invalid or not sufficient."""

    kind = "not_welcome"
    exit_code = 4


class ServerUnreachable(OstlerError):
    """The server cannot be reached now."""

    kind = "away"


class Remote:
    """A client of one server. Close it with `aclose`."""

    def __init__(self, address: Address, token: str = "") -> None:
        self.address = address
        self.host = address.host
        is_plain = address.base.startswith("http://")
        headers = {"X-Ostler": "1"}  # required after a login
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            self._client = httpx2.AsyncClient(
                base_url=address.base,
                headers=headers,
                verify=False if is_plain else ssl_context(),
                timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
                trust_env=not _is_loopback(address.base),  # no proxy for this machine
            )
        except (httpx2.InvalidURL, ValueError, ImportError) as error:
            raise UsageError(f"{self.host} cannot be reached: {error}") from None

    async def aclose(self) -> None:
        await self._client.aclose()

    async def log_in(self) -> None:
        """Exchanges the code of a link for a token."""
        login = await self.ask("POST", f"{API}/login", {"token": self.address.code})
        self._client.headers["Authorization"] = f"Bearer {login['token']}"

    async def get(self, path: str, **query: Any) -> Any:
        return await self.ask("GET", path, **query)

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The decoded response; bytes if it is not JSON."""
        answer = await self.answer(method, path, body, {}, query)
        is_json = "json" in answer.headers.get("content-type", "")
        return msgspec.json.decode(answer.content) if is_json and answer.content else answer.content

    async def answer(
        self, method: str, path: str, body: Any, headers: dict[str, str], query: dict[str, Any]
    ) -> httpx2.Response:
        """Raises `OstlerError` for an error response, and for a server that cannot be reached."""
        content = None if body is None else msgspec.json.encode(body)
        if content:
            headers = {"Content-Type": "application/json", **headers}
        params = {name: value for name, value in query.items() if value is not None} or None
        async with self._translated_errors():
            answer = await self._client.request(method, path, params=params, headers=headers, content=content)
        if answer.status_code >= 300:
            raise self._error(answer.status_code, answer.content)
        return answer

    async def frames(
        self, path: str, *, silence: float | None = SILENCE, headers: dict[str, str] | None = None
    ) -> AsyncGenerator[list[Frame], None]:
        """A stream of server-sent events, to its end. Raises `ServerUnreachable` when it breaks."""
        timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS, read=silence)
        headers = {"Accept": "text/event-stream", **(headers or {})}
        splitter = SseSplitter()
        async with (
            self._translated_errors(),
            self._client.stream("GET", path, headers=headers, timeout=timeout) as answer,
        ):
            if answer.status_code != 200:
                raise self._error(answer.status_code, await answer.aread())
            if "event-stream" not in answer.headers.get("content-type", ""):
                raise NotFound(f"there is no such stream at {self.host}")
            yield []
            async for piece in answer.aiter_raw():
                if frames := splitter.feed(piece):
                    yield frames

    @asynccontextmanager
    async def _translated_errors(self) -> AsyncIterator[None]:
        try:
            yield
        except (httpx2.LocalProtocolError, httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
            raise UsageError(unsendable(self.host).message) from error
        except (httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise ServerUnreachable(timed_out(self.host).message) from error
        except (httpx2.ConnectError, httpx2.ProxyError) as error:
            raise ServerUnreachable(unreachable(self.host, error).message) from error
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            raise ServerUnreachable(broken_off(self.host, error).message) from error
        except (ConnectionFailed, StreamBroken) as error:
            raise ServerUnreachable(error.message) from error

    def _error(self, status: int, content: bytes) -> OstlerError:
        kind, detail = _problem(content)
        if status == 401:
            return Unauthorized(
                f"{self.host} requires a login: pass a token of that server with OSTLER_TOKEN or --token "
                "(`ostler token new NAME` creates one there), or the link that it has printed"
            )
        if status in (502, 503, 504, 429):
            return ServerUnreachable(f"{self.host} cannot answer now: {detail or HTTPStatus(status).phrase}")
        if status == 403:
            return Unauthorized(f"{self.host} refuses: {detail or 'this is not allowed'}")
        if status == 404:
            return NotFound(detail or f"{self.host} has nothing there")
        error = ERRORS.get(kind, UsageError if status < 500 else OstlerError)
        return error(detail or f"{self.host} answers with {status}: is it an Ostler server?")


class _Item(msgspec.Struct):
    message: str = ""


class _Problem(msgspec.Struct):
    kind: str = ""
    detail: str = ""
    errors: list[_Item] = []


def _problem(content: bytes) -> tuple[str, str]:
    """The kind and the message of an error response, of our own server or of agentapi."""
    try:
        problem = msgspec.json.decode(content, type=_Problem)
    except (msgspec.MsgspecError, UnicodeError):
        return "", ""
    return problem.kind, ": ".join(filter(None, [problem.detail, *(one.message for one in problem.errors)]))


def _is_loopback(base: str) -> bool:
    host = urlsplit(base).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
