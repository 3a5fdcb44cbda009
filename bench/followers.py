"""Clients that follow streams: a process of its own, which reads as cheaply as it can and misses nothing.

`follow` opens streams and answers when all have caught up; `until` answers when all have seen a fact;
`stall` opens one that reads nothing, and `resume` lets it read until it has seen a fact.
"""

from __future__ import annotations

import asyncio
import re
import resource
import socket
import sys
from time import perf_counter_ns
from typing import Any

from bench.talking import answer_lines

_FACT = re.compile(rb'id: (\d+)\ndata: [^\n]*?"at_ns (\d+)')


class Follower(asyncio.Protocol):
    """One stream. Facts must come one after the other; the rest is counted."""

    def __init__(self, all_of: Followers, request: bytes) -> None:
        self._all = all_of
        self._request = request
        self._rest = b""
        self.seq = 0
        self.transport: Any = None
        self.is_caught_up = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.lost += 1
        self._all.changed.set()

    def data_received(self, data: bytes) -> None:
        now = perf_counter_ns()
        data = self._rest + data
        whole = data.rfind(b"\n\n") + 2
        self._rest = data[whole:]
        self._all.frames += data.count(b"\ndata: ", 0, whole)
        for found in _FACT.finditer(data, 0, whole):
            seq = int(found[1])
            if self.seq and seq != self.seq + 1:
                self._all.problem = f"after fact {self.seq} came {seq}"
            self.seq = seq
            self._all.late_ns.append(now - int(found[2]))
        if not self.is_caught_up and b'"caught_up"' in data:
            self.is_caught_up = True
        self._all.changed.set()


class Followers:
    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.frames = 0
        self.lost = 0
        self.late_ns: list[int] = []
        self.problem = ""
        self._reading: list[Follower] = []
        self._stalled: Follower | None = None

    async def answer(self, asked: dict[str, Any]) -> Any:
        match asked["do"]:
            case "follow":
                for path in asked["paths"]:
                    self._reading.append(await self._open(asked, path))
                    if len(self._reading) % 50 == 0:
                        await self._wait(lambda: all(one.is_caught_up for one in self._reading))
                await self._wait(lambda: all(one.is_caught_up for one in self._reading))
            case "stall":
                self._stalled = await self._open(asked, asked["path"], unread=262_144)
                await self._wait(lambda: self._stalled is not None and self._stalled.is_caught_up)
                self._stalled.transport.pause_reading()
            case "resume":
                assert self._stalled is not None
                self._stalled.transport.resume_reading()
                await self._wait(lambda: self._stalled is not None and self._stalled.seq >= asked["seq"])
            case "until":
                await self._wait(lambda: all(one.seq >= asked["seq"] for one in self._reading))
            case "leave":
                for one in self._reading:
                    one.transport.abort()
                self._reading.clear()
        said = {"frames": self.frames, "late_ns": self.late_ns, "problem": self.problem, "lost": self.lost}
        self.frames, self.late_ns = 0, []
        return said

    async def _open(self, asked: dict[str, Any], path: str, unread: int = 0) -> Follower:
        """`unread` bytes are what the system keeps for one who reads nothing; or what it likes to."""
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        request += f"Authorization: Bearer {asked['token']}\r\n\r\n"
        loop = asyncio.get_running_loop()
        connection = socket.socket()
        connection.setblocking(False)
        if unread:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, unread)
        await loop.sock_connect(connection, ("127.0.0.1", asked["port"]))
        _, made = await loop.create_connection(lambda: Follower(self, request.encode()), sock=connection)
        return made

    async def _wait(self, is_true: Any) -> None:
        async with asyncio.timeout(100):
            while not is_true():
                self.changed.clear()
                await self.changed.wait()
                await asyncio.sleep(0.01)  # thousands of reads are looked at once


def main() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print("true", flush=True)
    asyncio.run(answer_lines(Followers().answer))


if __name__ == "__main__":
    sys.exit(main())
