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

from ostler.server.state import ServerState
from ostler.server.streams import _ABORT, is_stream

PATIENCE = 20.0
"""Seconds until a request must have begun, and its headers ended."""

MOST_HEADERS = 1024 * 1024
"""Bytes that may come until then. The beginning of a body may be among them."""


def _end_with_connection(cycle: Any) -> None:
    """Of an answer to HTTP/1.0, which knows no chunks. uvicorn on httptools would send some all the same."""
    uvicorns = cycle.send
    is_measured = True

    async def send(message: Message) -> None:
        nonlocal is_measured
        if message["type"] == "http.response.start":
            is_measured = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
            cycle.chunked_encoding = None if is_measured else False
        elif not is_measured:  # else it would be more, or less, than was announced
            cycle.expected_content_length = len(message.get("body", b""))
        await uvicorns(message)

    cycle.send = send


def impatient(protocol: type[Any]) -> type[Any]:
    """A protocol of uvicorn's which closes connections that ask for nothing."""

    class Impatient(protocol):  # type: ignore[misc]
        _closing: asyncio.TimerHandle | None = None
        _unasked = 0

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            if not self._is_asking() or not before.more_body:  # also what is sent ahead, behind a request
                self._unasked += len(data)
                if self._unasked > MOST_HEADERS:
                    self.transport.abort()
                    return
                if self._closing is None:
                    self._wait()
            super().data_received(data)
            if self.cycle is not before:
                self._unasked = 0
                self.cycle.scope[_ABORT] = self.transport.abort
                if self.cycle.scope["http_version"] == "1.0":
                    _end_with_connection(self.cycle)
            if self._is_asking():
                self._stop_waiting()

        def connection_lost(self, error: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(error)

        def _is_asking(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _wait(self) -> None:
            self._closing = self.loop.call_later(PATIENCE, self._close)

        def _close(self) -> None:
            self._closing = None
            if not self._is_asking():
                self.transport.close()

        def _stop_waiting(self) -> None:
            if self._closing is not None:
                self._closing.cancel()
                self._closing = None

    return Impatient


SLOW_READERS_HAVE = 0.15
"""Seconds to read the end of a stream: whoever is cut off goes on exactly where it was."""

ANSWERS_HAVE = 5.0
"""Seconds for other answers under way."""

TAKEN_AT_ONCE = 4

WAITING = 2048
"""Connections that the system keeps until they are taken."""


class HttpServer(uvicorn.Server):
    """Serves an application that has a `ServerState` in it. `end`, or a signal, ends both.

    uvicorn by itself would wait until whoever follows a stream leaves, look ten times a second whether it
    should end, and at the end raise the signal again: to end when told to is no failure.
    """

    def __init__(self, config: uvicorn.Config, server: ServerState) -> None:
        config.load()
        config.http_protocol_class = impatient(config.http_protocol_class)
        super().__init__(config)
        self._server = server
        self._told = asyncio.Event()
        self._quiet_until = 0.0

    def end(self) -> None:
        """The second time, without waiting for anybody."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._server.close_streams()
        self._told.set()

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
        """A few are taken in each turn: asyncio would take all who wait before it looks at what they want,
        and so run out of descriptors before anybody could be refused."""
        self.config.backlog = TAKEN_AT_ONCE
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(WAITING)
        asyncio.get_running_loop().set_exception_handler(self._complain)

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "out of system resource" not in context["message"]:
            loop.default_exception_handler(context)
        elif loop.time() > self._quiet_until:  # it is tried again every second
            self._quiet_until = loop.time() + 60
            print("ostler: out of descriptors: whoever comes now waits", file=sys.stderr)

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._told.wait()

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
            is_over = self.force_exit or waited > ANSWERS_HAVE
            for connection in open_ones if is_over or waited > SLOW_READERS_HAVE else ():
                if is_over or _has_stream(connection):
                    connection.transport.abort()
            if is_over:
                return
            await asyncio.sleep(0.01)


def _has_stream(connection: Any) -> bool:
    return connection.cycle is not None and is_stream(connection.cycle.scope)
