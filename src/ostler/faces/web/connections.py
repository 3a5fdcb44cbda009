"""Connections that have asked for nothing yet: for how long they may, and how much they may send meanwhile.

A server of uvicorn's waits for the end of the headers of a request, however long that takes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import Message, Scope

_ABORT = "ostler.abort"
PATIENCE = 20.0
"""Seconds until a request must have begun, and its headers ended."""
MOST_HEADERS = 1024 * 1024
"""Bytes that may come until then. The beginning of a body may be among them."""


def abort(scope: Scope) -> None:
    """Ends the connection of a request whose sender does not read: an orderly end would wait for that."""
    if _ABORT in scope:
        scope[_ABORT]()


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
