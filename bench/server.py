"""The scripted model server: a process of its own, which answers at once and notes when.

`POST /SCENARIO/RUN/v1/chat/completions` answers as `bench.answers` says; `GET /records/RUN` returns the
times of that run's requests. It ends when its standard input closes, so it cannot outlive the harness.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import ssl
import sys
from collections import defaultdict
from time import perf_counter_ns
from typing import Any, NamedTuple

from bench.answers import answer

_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Record(NamedTuple):
    """When things happened to one request, in nanoseconds of the monotonic clock, and its size in bytes."""

    accepted: int
    first_byte: int
    complete: int
    answer_first: int
    answer_last: int
    size: int


class Connection(asyncio.Protocol):
    """One connection, kept alive; requests are answered one after the other."""

    def __init__(self, records: dict[str, list[Record | None]]) -> None:
        self._records = records
        self._received = bytearray()
        self._end = 0
        self._first_byte = 0
        self._sending: asyncio.Task[None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._accepted = perf_counter_ns()
        self._transport: Any = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._sending is not None:
            self._sending.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        if not self._received:
            self._first_byte = perf_counter_ns()
        self._received += data
        if not self._end:
            head_ends = self._received.find(b"\r\n\r\n")
            if head_ends < 0:
                return
            length = _CONTENT_LENGTH.search(self._received, 0, head_ends + 2)
            self._end = head_ends + 4 + (int(length[1]) if length else 0)
        if len(self._received) >= self._end:
            self._answer(perf_counter_ns())

    def _answer(self, complete: int) -> None:
        method, path, _ = self._received[: self._received.index(b"\r\n")].decode().split(" ")
        size, self._end = self._end, 0
        self._received.clear()
        match method, path.strip("/").split("/"):
            case "GET", ["records", run]:
                self._reply(200, [record and record._asdict() for record in self._records[run]])
            case "POST", [scenario, run, "v1", "chat", "completions"]:
                self._stream(scenario, run, complete, size)
            case _:
                self._reply(404, {"error": {"message": f"no such path: {method} {path}"}})

    def _stream(self, scenario: str, run: str, complete: int, size: int) -> None:
        records = self._records[run]
        place = len(records)
        records.append(None)
        times = self._accepted, self._first_byte, complete
        pieces, pause = answer(scenario, place)
        begin = perf_counter_ns()
        if len(pieces) == 1:
            # Taken before the write: the client may act on the last byte before `write` returns.
            records[place] = Record(*times, begin, begin, size)
            self._transport.write(pieces[0])
            return

        async def send() -> None:
            loop = asyncio.get_running_loop()
            due = loop.time()
            for piece in pieces[:-1]:
                self._transport.write(piece)
                due = max(due + pause, loop.time() - pause)
                await asyncio.sleep(due - loop.time())
                await self._may_write.wait()
            records[place] = Record(*times, begin, perf_counter_ns(), size)
            self._transport.write(pieces[-1])

        self._sending = asyncio.create_task(send())

    def _reply(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


async def serve(certificate: str) -> None:
    """Prints the ports, one for http and one for https (0 without a certificate), and serves."""
    records: dict[str, list[Record | None]] = defaultdict(list)
    loop = asyncio.get_running_loop()
    plain = await loop.create_server(lambda: Connection(records), "127.0.0.1", 0)
    ports = [plain.sockets[0].getsockname()[1], 0]
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        secure = await loop.create_server(lambda: Connection(records), "127.0.0.1", 0, ssl=context)
        ports[1] = secure.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    owner_is_gone = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), owner_is_gone.set)
    await owner_is_gone.wait()


if __name__ == "__main__":
    gc.disable()
    asyncio.run(serve(sys.argv[1] if len(sys.argv) > 1 else ""))
