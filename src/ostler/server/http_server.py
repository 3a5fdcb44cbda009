"""The uvicorn server: a time limit for request headers, and a shutdown that ends streams at once."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from signal import SIGINT, SIGTERM
from typing import Any

import uvicorn
from starlette.types import Message

from ostler.server.peers import CONNECTION
from ostler.server.state import ServerState
from ostler.server.streams import _ABORT, is_stream

PATIENCE = 20.0
"""Seconds within which a request must begin and its headers end."""

MOST_HEADERS = 1024 * 1024
"""Bytes until then, which may include the beginning of a body."""


def _end_with_connection(cycle: Any) -> None:
    """Ends a response to HTTP/1.0 with the connection: uvicorn with httptools would send chunks."""
    original_send = cycle.send
    has_length = True

    async def send(message: Message) -> None:
        nonlocal has_length
        if message["type"] == "http.response.start":
            has_length = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
            cycle.chunked_encoding = None if has_length else False
        elif not has_length:  # else uvicorn would report a wrong length
            cycle.expected_content_length = len(message.get("body", b""))
        await original_send(message)

    cycle.send = send


def with_header_timeout(protocol: type[Any]) -> type[Any]:
    """A protocol of uvicorn that closes connections without a request."""

    class HeaderTimeout(protocol):  # type: ignore[misc]
        _closing: asyncio.TimerHandle | None = None
        _header_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._start_timer()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            if not self._has_request() or not before.more_body:  # also a next request sent ahead
                self._header_bytes += len(data)
                if self._header_bytes > MOST_HEADERS:
                    self.transport.abort()
                    return
                if self._closing is None:
                    self._start_timer()
            super().data_received(data)
            if self.cycle is not before:
                self._header_bytes = 0
                self.cycle.scope[_ABORT] = self.transport.abort
                ends = [self.transport.get_extra_info(name) for name in ("peername", "sockname")]
                self.cycle.scope[CONNECTION] = tuple(ends)
                if self.cycle.scope["http_version"] == "1.0":
                    _end_with_connection(self.cycle)
            if self._has_request():
                self._stop_timer()

        def connection_lost(self, error: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(error)

        def _has_request(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _start_timer(self) -> None:
            self._closing = self.loop.call_later(PATIENCE, self._close)

        def _close(self) -> None:
            self._closing = None
            if not self._has_request():
                self.transport.close()

        def _stop_timer(self) -> None:
            if self._closing is not None:
                self._closing.cancel()
                self._closing = None

    return HeaderTimeout


STREAM_GRACE = 0.15
"""Seconds to read the end of a stream: a client that is cut off continues where it was."""

RESPONSE_GRACE = 5.0
"""Seconds for other responses under way."""

ACCEPTED_AT_ONCE = 4

BACKLOG = 2048
"""Connections that the system queues until they are accepted."""


class HttpServer(uvicorn.Server):
    """Serves an application with a `ServerState`. `end`, or a signal, ends both.

    uvicorn itself would wait until the clients of streams disconnect, wake up ten times a second, and raise
    the signal again at the end.
    """

    def __init__(self, config: uvicorn.Config, server: ServerState) -> None:
        config.load()
        config.http_protocol_class = with_header_timeout(config.http_protocol_class)
        super().__init__(config)
        self._server = server
        self._ends = asyncio.Event()
        self._next_warning = 0.0

    def end(self) -> None:
        """Shuts down; the second time, without waiting."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._server.close_streams()
        self._ends.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for signal in (SIGINT, SIGTERM):
            loop.add_signal_handler(signal, self.end)
        try:
            yield
        finally:
            for signal in (SIGINT, SIGTERM):
                loop.remove_signal_handler(signal)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts a few connections in each turn: asyncio would accept all that wait before it reads any, and
        run out of descriptors before a request could be refused."""
        self.config.backlog = ACCEPTED_AT_ONCE
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)
        asyncio.get_running_loop().set_exception_handler(self._report)

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "out of system resource" not in context["message"]:
            loop.default_exception_handler(context)
        elif loop.time() > self._next_warning:  # asyncio tries again every second
            self._next_warning = loop.time() + 60
            print("ostler: out of file descriptors: new connections wait", file=sys.stderr)

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._ends.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        await self._end_connections()
        for task in self.server_state.tasks:
            task.cancel()
        if not self.force_exit:
            await self.lifespan.shutdown()

    async def _end_connections(self) -> None:
        clock = asyncio.get_running_loop().time
        begun = clock()
        while (open_ones := tuple(self.server_state.connections)) or self.server_state.tasks:
            waited = clock() - begun
            is_over = self.force_exit or waited > RESPONSE_GRACE
            for connection in open_ones if is_over or waited > STREAM_GRACE else ():
                if is_over or _has_stream(connection):
                    connection.transport.abort()
            if is_over:
                return
            await asyncio.sleep(0.01)


def _has_stream(connection: Any) -> bool:
    return connection.cycle is not None and is_stream(connection.cycle.scope)
