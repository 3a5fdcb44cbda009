"""An HTTP/1.1 client for direct connections, on httptools: sockets, one connection, and the pool."""

from __future__ import annotations

import asyncio
import re
import select
import socket
import ssl
from binascii import b2a_base64
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from ostler.core.lazy import lazy_module
from ostler.models import transport
from ostler.schema.errors import StreamBroken

if TYPE_CHECKING:
    import zlib

    import httptools
else:
    httptools = lazy_module("httptools")
    zlib = lazy_module("zlib")

HEAD_LIMIT = 100 * 1024
READ_SIZE = 64 * 1024

HOLD_LIMIT = 256 * 1024
"""Bytes that may wait for a slow reader before reading from the server pauses."""


class ConnectionBroken(Exception):
    """The exchange cannot continue; the message says why."""


class Connection(asyncio.BufferedProtocol):
    """Carries one exchange at a time: `ask`, then `read` until it returns nothing.

    The parser calls the methods that begin with `on_`. `read` returns everything that has arrived since its
    last call.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.idle_since = 0.0
        self.answered = False
        """A byte has arrived since the request was sent."""
        self.is_complete = False
        """The whole answer has arrived."""
        self._transport: Any = None
        # Without it the loop allocates 256 kB for each read, which takes longer than all the parsing.
        self._buffer = memoryview(bytearray(READ_SIZE))
        self._parser: httptools.HttpResponseParser | None = None
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        self._held = 0
        self._fruitless = 0
        self._has_head = False
        self._keeps_alive = False
        self._ends_with_connection = False
        self._paused = False
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def ask(self, request: bytes) -> None:
        """Sends the request, and returns once `status` and `headers` are set."""
        self.headers = {}
        self.answered = self._has_head = self.is_complete = self._ends_with_connection = False
        self._fruitless = 0
        self._transport.write(request)
        self._parser = httptools.HttpResponseParser(self)  # loads its library while the server works
        while not self._has_head:
            await self._wait()

    async def read(self) -> bytes:
        """The part of the body that has arrived since the last call; nothing at its end."""
        pieces = self._pieces
        while not pieces:
            if self.is_complete:
                return b""
            await self._wait()
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._held = 0
        self._resume()
        return data

    def release(self) -> bool:
        """Ends the exchange; True if the connection can carry another one."""
        usable = (
            self.is_complete
            and self._keeps_alive
            and not self._transport.is_closing()
            and not self._transport.get_write_buffer_size()
        )
        self._parser = None
        self._pieces.clear()
        self._held = 0
        if usable:
            self._resume()
        return usable

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def is_still_open(self) -> bool:
        """Asks the operating system, because the event loop may not have noticed a close yet."""
        if self._transport.is_closing():
            return False
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._parser is None:
            self._transport.abort()  # there is no request
            return
        self.answered = True
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except httptools.HttpParserError as error:
            self._keeps_alive = False
            if not self.is_complete:
                self._fail(ConnectionBroken(f"the answer is not HTTP: {error.__context__ or error}"))
        if self._pieces:
            self._fruitless = 0
            self._held += nbytes
            if self._held > HOLD_LIMIT and not self._paused:
                self._paused = True
                self._transport.pause_reading()
        elif not self.is_complete:
            self._fruitless += nbytes
            if self._fruitless > HEAD_LIMIT:
                self._fail(ConnectionBroken(f"its headers are larger than {HEAD_LIMIT // 1024} kB"))
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._ends_with_connection:
            self.is_complete = True
        self._failure = self._failure or exc or ConnectionBroken("the connection was closed")
        self._wake()

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise ConnectionBroken("the server sent more than the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        if self.status == 101:
            raise ConnectionBroken("the server switched protocols")
        if self.status < 200:
            self.headers = {}
            return
        self._has_head = True
        self._keeps_alive = self._parser.should_keep_alive()
        self._ends_with_connection = not (
            "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()
        )

    def on_message_complete(self) -> None:
        self.is_complete = self._has_head

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, failure: Exception) -> None:
        self._failure = failure
        self._transport.abort()


HEAD_START_SECONDS = 0.25
"""How long an address is tried alone before the next is tried in parallel, as RFC 8305 recommends."""

Address = tuple[socket.AddressFamily, Any]


async def open_socket(host: str, port: int) -> socket.socket:
    """Tries all addresses of the host; the first that answers wins."""
    untried = deque(_in_turns(await _addresses(host, port)))
    if len(untried) == 1:
        return await _connected(untried[0])
    attempts: list[asyncio.Task[socket.socket]] = []
    winner: socket.socket | None = None
    failure: Exception = OSError(f"{host} has no address")
    try:
        open_attempts: set[asyncio.Task[socket.socket]] = set()
        while untried or open_attempts:
            if untried:
                attempts.append(asyncio.create_task(_connected(untried.popleft())))
                open_attempts.add(attempts[-1])
            done, open_attempts = await asyncio.wait(
                open_attempts,
                timeout=HEAD_START_SECONDS if untried else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in done:
                try:
                    winner = attempt.result()
                    return winner
                except OSError as error:
                    failure = error
        raise failure
    finally:
        for attempt in attempts:
            if not attempt.cancel() and attempt.exception() is None and attempt.result() is not winner:
                attempt.result().close()


async def _addresses(host: str, port: int) -> list[Address]:
    # Bytes do not load Python's codec for international names, which takes a millisecond. It also refuses
    # names with empty or long labels.
    is_plain = host.isascii() and all(0 < len(label) < 64 for label in host.removesuffix(".").split("."))
    name = host.encode() if is_plain else host
    try:
        # A numeric address needs no lookup in a thread.
        resolved = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        resolved = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in resolved]


def _in_turns(addresses: list[Address]) -> list[Address]:
    """Lets address families take turns, so that one without a route does not delay the other."""
    places: defaultdict[int, Iterator[int]] = defaultdict(count)
    return sorted(addresses, key=lambda address: next(places[address[0]]))


async def _connected(address: Address) -> socket.socket:
    family, place = address
    endpoint = socket.socket(family, socket.SOCK_STREAM)
    try:
        endpoint.setblocking(False)
        await asyncio.get_running_loop().sock_connect(endpoint, place)
    except BaseException:
        endpoint.close()
        raise
    return endpoint


RACE_SECONDS = 2.0
"""A connection that was closed while idle fails within a round trip; later, the request may be accepted."""

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_IN_PATH = "/%:@!$&'()*+,;=~"

Place = tuple[str, int, bool]
"""The host, the port, and whether it uses TLS."""


class Target(NamedTuple):
    """A parsed address."""

    host: str
    port: int
    secure: bool
    path: str
    host_header: str
    authorization: str
    host_text: str


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
                raise ConnectionBroken("the client closed it")
            while data := await self._connection.read():
                if piece := self._unpack(data):
                    return piece
            return b""
        except (ConnectionBroken, OSError, zlib.error) as error:
            raise transport.broken_off(self._host, error) from error

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

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> DirectReply:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections of another loop cannot be used or closed on this one.
            self._idle, self._busy, self._loop = {}, set(), loop
        target, head = self._prepared(url, headers)
        request = b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body)
        reused = self._reusable(target)
        if reused is not None:
            begun = loop.time()
            try:
                return await self._ask(reused, target, request)
            except StreamBroken:
                # A server that limits idle time may close a connection just as a request is sent. A server
                # that accepts a request and crashes at once looks the same, but is far less likely.
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
                raise transport.unanswered(target.host_text, error) from error
            raise
        return DirectReply(connection, target.host_text, partial(self._release, target[:3]))

    def _release(self, place: Place, connection: Connection) -> None:
        self._busy.discard(connection)
        idle = self._idle.setdefault(place, deque())
        if connection.release() and len(idle) < transport.IDLE_LIMIT:
            connection.idle_since = asyncio.get_running_loop().time()
            idle.append(connection)
        else:
            connection.abort()

    def _reusable(self, target: Target) -> Connection | None:
        idle = self._idle.get(target[:3], deque())
        oldest = asyncio.get_running_loop().time() - transport.IDLE_SECONDS
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
            async with asyncio.timeout(transport.CONNECT_SECONDS):
                endpoint = await open_socket(target.host, target.port)
                _, connection = await asyncio.get_running_loop().create_connection(
                    Connection,
                    sock=endpoint,
                    ssl=context,
                    server_hostname=target.host if target.secure else None,
                )
        except TimeoutError as error:
            raise transport.timed_out(target.host_text) from error
        except UnicodeError as error:
            raise transport.unsendable(target.host_text) from error
        except OSError as error:
            raise transport.unreachable(target.host_text, error) from error
        return connection

    def _trust(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = transport.ssl_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context

    def _prepared(self, url: str, headers: Mapping[str, str]) -> tuple[Target, bytes]:
        """Cached: the requests of a step all go to the same address with the same headers."""
        if self._latest[0] != url or self._latest[1] != headers:
            target = _parse(url)
            self._latest = url, dict(headers), target, _head(target, headers)
        return self._latest[2:]


def _parse(url: str) -> Target:
    parts = urlsplit(url)
    host_text = transport.display_host(url)
    try:
        port = parts.port
    except ValueError as error:
        raise transport.unsendable(host_text) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise transport.unsendable(host_text)
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
    return Target(parts.hostname, port or usual, secure, path, host_header, authorization, host_text)


def _head(target: Target, headers: Mapping[str, str]) -> bytes:
    """The request line and all headers but the length."""
    fields = {"host": target.host_header, **{name.lower(): value for name, value in headers.items()}}
    fields.pop("content-length", None)
    if target.authorization:
        fields["authorization"] = target.authorization
    lines = [f"POST {target.path} HTTP/1.1"]
    for name, value in fields.items():
        if not (_TOKEN.fullmatch(name) and value.isascii() and value.isprintable()):
            raise transport.unsendable(target.host_text)
        lines.append(f"{name}: {value}")
    if "transfer-encoding" in fields:
        raise transport.unsendable(target.host_text)
    return "\r\n".join([*lines, ""]).encode("ascii")


def _unpacker(encoding: str) -> Callable[[bytes], bytes]:
    """Requests accept only plain bytes, but some gateways compress answers anyway."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return bytes
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ConnectionBroken(f"the answer is compressed with {encoding}")
    return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress
