"""A client of a stream that reads bytes from a socket, and can be cut off between any two of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httptools

from tests.sessions.watched_stream import Reader


class CutStream:
    """Goes on with `Last-Event-ID`, as a browser does: behind the last frame that came whole."""

    def __init__(self, base_url: str, path: str, token: str) -> None:
        self._address = urlsplit(base_url)
        self._path = path
        self._token = token
        self.reader = Reader()
        self.last_id = ""
        self.cursors: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.is_ended = False
        self._rest = b""

    async def read(self, *, most: int | None = None, until: Callable[[], object] = lambda: False) -> None:
        """To the end of the stream, or until something is true. With `most`, so many bytes of it, or until it
        is silent. Then it breaks off."""
        self._rest, self.is_ended = b"", False
        reader, writer = await asyncio.open_connection(self._address.hostname, self._address.port)
        try:
            async with asyncio.timeout(60):
                writer.write(self._request())
                await self._feed(reader, most, until)
        finally:
            writer.transport.abort()

    async def _feed(
        self, reader: asyncio.StreamReader, most: int | None, until: Callable[[], object]
    ) -> None:
        parser = httptools.HttpResponseParser(self)
        left = 2**60 if most is None else most
        with suppress(TimeoutError):
            while left and not self.is_ended and not until():
                async with asyncio.timeout(None if most is None else 0.1):
                    data = await reader.read(min(left, 65536))
                if not data:
                    return
                left -= len(data)
                parser.feed_data(data)
                self.reader.changed.set()

    def _request(self) -> bytes:
        lines = [f"GET {self._path} HTTP/1.1", f"Host: {self._address.netloc}", "Accept: text/event-stream"]
        lines.append(f"Authorization: Bearer {self._token}")
        if self.last_id:
            lines.append(f"Last-Event-ID: {self.last_id}")
        return "\r\n".join([*lines, "", ""]).encode()

    def on_body(self, body: bytes) -> None:
        *whole, self._rest = (self._rest + body).split(b"\n\n")
        for frame in whole:
            self._take(frame.decode())

    def on_message_complete(self) -> None:
        self.is_ended = True

    def _take(self, frame: str) -> None:
        fields = dict(line.split(": ", 1) for line in frame.splitlines() if not line.startswith(":"))
        if "data" not in fields:
            return
        event = json.loads(fields["data"])
        self.events.append(event)
        if "id" in fields:
            self.last_id = fields["id"]
            self.cursors.append(self.last_id)
        if "/sessions/" in self._path:
            self.reader.take(event)
