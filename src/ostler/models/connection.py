"""One HTTP/1.1 connection as its client sees it; the parser is httptools."""

from __future__ import annotations

import asyncio
import select
from typing import Any

from httptools import HttpParserError, HttpResponseParser

HEAD_LIMIT = 100 * 1024
READ_SIZE = 64 * 1024
HOLD_LIMIT = 256 * 1024
"""What may wait for a slow reader before the server is made to wait."""


class ConnectionBroken(Exception):
    """The exchange cannot go on; the words say why."""


class Connection(asyncio.BufferedProtocol):
    """Carries one exchange at a time: `ask`, then `read` until it gives nothing.

    The parser calls the methods that begin with `on_`. What it finds in one read of the network is handed
    over together, and so is what several reads brought while nobody asked.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.idle_since = 0.0
        self.answered = False
        """A byte has come since the request was sent."""
        self.is_complete = False
        """All of the answer has come."""
        self._transport: Any = None
        # Without it the loop makes a buffer of 256 kB for each read, which takes longer than all the parsing.
        self._buffer = memoryview(bytearray(READ_SIZE))
        self._parser: HttpResponseParser | None = None
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
        """Sends the request, and returns when `status` and `headers` are known."""
        self.headers = {}
        self.answered = self._has_head = self.is_complete = self._ends_with_connection = False
        self._fruitless = 0
        self._parser = HttpResponseParser(self)
        self._transport.write(request)
        while not self._has_head:
            await self._news()

    async def read(self) -> bytes:
        """What has come of the body since the last call; nothing at its end."""
        pieces = self._pieces
        while not pieces:
            if self.is_complete:
                return b""
            await self._news()
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._held = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    def rest(self) -> bool:
        """Ends the exchange; says whether the connection can carry another one."""
        usable = (
            self.is_complete
            and self._keeps_alive
            and not self._transport.is_closing()
            and not self._transport.get_write_buffer_size()
        )
        self._parser = None
        self._pieces.clear()
        self._held = 0
        if usable and self._paused:
            self._paused = False
            self._transport.resume_reading()
        return usable

    def is_still_open(self) -> bool:
        """Asks the operating system, since the loop may not have come to know of an end yet."""
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
            self._transport.abort()  # nothing was asked for
            return
        self.answered = True
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except HttpParserError as error:
            self._keeps_alive = False
            if not self.is_complete:
                self._fail(ConnectionBroken(f"that is no HTTP: {error.__context__ or error}"))
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
            raise ConnectionBroken("there is more than the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        if self.status == 101:
            raise ConnectionBroken("it changes the protocol, unasked")
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

    async def _news(self) -> None:
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
