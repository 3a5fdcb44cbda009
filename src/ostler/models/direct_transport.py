"""The transport without a library's client: plain http and https, straight to the server."""

from __future__ import annotations

import asyncio
import re
import ssl
import zlib
from binascii import b2a_base64
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from ostler.models.certificates import trusting_context
from ostler.models.connection import Connection, ConnectionBroken
from ostler.models.dialling import connected_socket
from ostler.models.transport import CONNECT_SECONDS, IDLE_LIMIT, IDLE_SECONDS
from ostler.models.unreachable import broken_off, shown_host, timed_out, unanswered, unreachable, unsendable
from ostler.vocabulary.errors import StreamBroken

RACE_SECONDS = 2.0
"""A connection closed while idle shows it within a round trip; a request that is lost later may be taken."""

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_IN_PATH = "/%:@!$&'()*+,;=~"

Place = tuple[str, int, bool]
"""The host, the port, and whether it speaks TLS."""


class Target(NamedTuple):
    """What an address says."""

    host: str
    port: int
    secure: bool
    path: str
    host_header: str
    authorization: str
    shown: str


_NOWHERE = Target("", 0, False, "", "", "", "")


class DirectReply:
    """See `Reply`."""

    def __init__(self, connection: Connection, host: str, release: Callable[[Connection], None]) -> None:
        self.status = connection.status
        self.headers = connection.headers
        self._connection: Connection | None = connection
        self._host = host
        self._release = release
        self._unpack: Callable[[bytes], bytes] | None = None

    @property
    def is_complete(self) -> bool:
        return self._connection is not None and self._connection.is_complete

    async def read(self) -> bytes:
        try:
            if self._unpack is None:
                self._unpack = _unpacker(self.headers.get("content-encoding", ""))
            if self._connection is None:
                raise ConnectionBroken("it was closed on this side")
            while data := await self._connection.read():
                if piece := self._unpack(data):
                    return piece
            return b""
        except (ConnectionBroken, OSError, zlib.error) as error:
            raise broken_off(self._host, error) from error

    async def aclose(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._release(connection)


class DirectTransport:
    """See `Transport`. Its connections live as long as it does, on the event loop that used it last."""

    def __init__(self) -> None:
        self._idle: dict[Place, deque[Connection]] = {}
        self._busy: set[Connection] = set()
        self._context: ssl.SSLContext | None = None
        self._latest: tuple[str, Mapping[str, str], Target, bytes] = ("", {}, _NOWHERE, b"")
        self._loop: asyncio.AbstractEventLoop | None = None

    def prepare(self, url: str) -> None:
        if url.lower().startswith("https:"):
            self._trust()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> DirectReply:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections of another loop cannot be used, nor closed, on this one.
            self._idle, self._busy, self._loop = {}, set(), loop
        target, head = self._prepared(url, headers)
        request = b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body)
        reused = self._reusable(target)
        if reused is not None:
            begun = loop.time()
            try:
                return await self._ask(reused, target, request)
            except StreamBroken:
                # A server that limits idle time now and then closes a connection while a request is on its
                # way to it. That cannot be told for certain from one that took the request and fell over
                # at once, but it is by far the likelier, and a run must not end by it.
                if reused.answered or loop.time() - begun > RACE_SECONDS:
                    raise
        return await self._ask(await self._connect(target), target, request)

    async def aclose(self) -> None:
        idle, self._idle = self._idle, {}
        busy, self._busy = self._busy, set()
        for connection in [*busy, *(connection for waiting in idle.values() for connection in waiting)]:
            connection.abort()

    async def _ask(self, connection: Connection, target: Target, request: bytes) -> DirectReply:
        self._busy.add(connection)
        try:
            await connection.ask(request)
        except BaseException as error:
            self._busy.discard(connection)
            connection.abort()
            if isinstance(error, ConnectionBroken | OSError):
                raise unanswered(target.shown, error) from error
            raise
        return DirectReply(connection, target.shown, partial(self._release, target[:3]))

    def _release(self, place: Place, connection: Connection) -> None:
        self._busy.discard(connection)
        idle = self._idle.setdefault(place, deque())
        if connection.rest() and len(idle) < IDLE_LIMIT:
            connection.idle_since = asyncio.get_running_loop().time()
            idle.append(connection)
        else:
            connection.abort()

    def _reusable(self, target: Target) -> Connection | None:
        idle = self._idle.get(target[:3], deque())
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while idle and idle[0].idle_since < oldest:
            idle.popleft().abort()
        while idle:
            connection = idle.pop()
            if connection.is_still_open():
                return connection
            connection.abort()
        return None

    async def _connect(self, target: Target) -> Connection:
        context = self._trust() if target.secure else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                endpoint = await connected_socket(target.host, target.port)
                _, connection = await asyncio.get_running_loop().create_connection(
                    Connection,
                    sock=endpoint,
                    ssl=context,
                    server_hostname=target.host if target.secure else None,
                )
        except TimeoutError as error:
            raise timed_out(target.shown) from error
        except UnicodeError as error:
            raise unsendable(target.shown) from error
        except OSError as error:
            raise unreachable(target.shown, error) from error
        return connection

    def _trust(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = trusting_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context

    def _prepared(self, url: str, headers: Mapping[str, str]) -> tuple[Target, bytes]:
        """Made once: a step's requests all go to the same address with the same headers."""
        if self._latest[0] != url or self._latest[1] != headers:
            target = _parse(url)
            self._latest = url, dict(headers), target, _head(target, headers)
        return self._latest[2:]


def _parse(url: str) -> Target:
    parts = urlsplit(url)
    shown = shown_host(url)
    try:
        port = parts.port
    except ValueError as error:
        raise unsendable(shown) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise unsendable(shown)
    secure = parts.scheme == "https"
    usual = 443 if secure else 80
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    host_header = name if port in (None, usual) else f"{name}:{port}"
    authorization = ""
    if parts.username or parts.password:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        authorization = f"Basic {b2a_base64(pair.encode(), newline=False).decode()}"
    path = quote(parts.path or "/", safe=_IN_PATH)
    if parts.query:
        path += f"?{quote(parts.query, safe=_IN_PATH + '?')}"
    return Target(parts.hostname, port or usual, secure, path, host_header, authorization, shown)


def _head(target: Target, headers: Mapping[str, str]) -> bytes:
    """All of a request but its length and its body."""
    fields = {"host": target.host_header, **{name.lower(): value for name, value in headers.items()}}
    fields.pop("content-length", None)
    if target.authorization:
        fields["authorization"] = target.authorization
    lines = [f"POST {target.path} HTTP/1.1"]
    for name, value in fields.items():
        if not (_TOKEN.fullmatch(name) and value.isascii() and value.isprintable()):
            raise unsendable(target.shown)
        lines.append(f"{name}: {value}")
    if "transfer-encoding" in fields:
        raise unsendable(target.shown)
    return "\r\n".join([*lines, ""]).encode("ascii")


def _unpacker(encoding: str) -> Callable[[bytes], bytes]:
    """We ask for plain bytes; some gateways compress all the same."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return bytes
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ConnectionBroken(f"it is packed as {encoding}, which was not asked for")
    return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress
