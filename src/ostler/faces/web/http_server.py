"""The HTTP server under the application, and how it ends: streams first, at once, however many there are."""

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

from ostler.faces.web.connections import impatient
from ostler.faces.web.server import Server
from ostler.faces.web.sse import is_stream

SLOW_READERS_HAVE = 0.15
"""Seconds to read the end of a stream: whoever is cut off goes on exactly where it was."""
ANSWERS_HAVE = 5.0
"""Seconds for other answers under way."""
TAKEN_AT_ONCE = 4
WAITING = 2048
"""Connections that the system keeps until they are taken."""


class HttpServer(uvicorn.Server):
    """Serves an application that has a `Server` in it. `end`, or a signal, ends both.

    uvicorn by itself would wait until whoever follows a stream leaves, look ten times a second whether it
    should end, and at the end raise the signal again: to end when told to is no failure.
    """

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
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
