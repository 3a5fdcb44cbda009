"""Clients that follow event streams. They read as cheaply as possible and check that no fact is missing.

`follow` opens streams and replies when all have caught up; `until` replies when all have a fact; `stall`
opens one that stops reading, and `resume` lets it read until it has a fact.
"""

from __future__ import annotations

import asyncio
import re
import resource
import socket
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from bench.child import serve_commands

_FACT = re.compile(rb'id: (\d+)\ndata: [^\n]*?"at_ns (\d+)')


class Follower(asyncio.Protocol):
    """One stream. Facts must arrive in order; other frames are only counted."""

    def __init__(self, followers: Followers, request: bytes) -> None:
        self._followers = followers
        self._request = request
        self._buffer = b""
        self.seq = 0
        self.transport: Any = None
        self.is_caught_up = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._followers.changed.set()

    def data_received(self, data: bytes) -> None:
        now = perf_counter_ns()
        data = self._buffer + data
        end = data.rfind(b"\n\n") + 2
        self._buffer = data[end:]
        self._followers.frames += data.count(b"\ndata: ", 0, end)
        for fact in _FACT.finditer(data, 0, end):
            seq = int(fact[1])
            if self.seq and seq != self.seq + 1:
                self._followers.problem = f"fact {seq} came after fact {self.seq}"
            self.seq = seq
            self._followers.delays_ns.append(now - int(fact[2]))
        if not self.is_caught_up and b'"caught_up"' in data:
            self.is_caught_up = True
        self._followers.changed.set()


class Followers:
    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.frames = 0
        self.delays_ns: list[int] = []
        self.problem = ""
        self._reading: list[Follower] = []
        self._stalled: Follower | None = None

    async def handle(self, command: dict[str, Any]) -> Any:
        match command["command"]:
            case "follow":
                for path in command["paths"]:
                    self._reading.append(await self._open(command, path))
                    if len(self._reading) % 50 == 0:
                        await self._wait(lambda: all(one.is_caught_up for one in self._reading))
                await self._wait(lambda: all(one.is_caught_up for one in self._reading))
            case "stall":
                self._stalled = await self._open(command, command["path"], receive_buffer=262_144)
                await self._wait(lambda: self._stalled is not None and self._stalled.is_caught_up)
                self._stalled.transport.pause_reading()
            case "resume":
                assert self._stalled is not None
                self._stalled.transport.resume_reading()
                await self._wait(lambda: self._stalled is not None and self._stalled.seq >= command["seq"])
            case "until":
                await self._wait(lambda: all(one.seq >= command["seq"] for one in self._reading))
        result = {"frames": self.frames, "delays_ns": self.delays_ns, "problem": self.problem}
        self.frames, self.delays_ns = 0, []
        return result

    async def _open(self, command: dict[str, Any], path: str, receive_buffer: int = 0) -> Follower:
        """With 0, the system chooses the size of the receive buffer."""
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        request += f"Authorization: Bearer {command['token']}\r\n\r\n"
        loop = asyncio.get_running_loop()
        connection = socket.socket()
        connection.setblocking(False)
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await loop.sock_connect(connection, ("127.0.0.1", command["port"]))
        _, follower = await loop.create_connection(lambda: Follower(self, request.encode()), sock=connection)
        return follower

    async def _wait(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(100):
            while not condition():
                self.changed.clear()
                await self.changed.wait()
                await asyncio.sleep(0.01)  # checks once for thousands of reads


def main() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print("true", flush=True)
    asyncio.run(serve_commands(Followers().handle))
