"""The live screen of a terminal agent, and its keyboard, over two wires: agentapi's, and API v1."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal, Protocol

import msgspec

from ostler.drivers.screen import LARGEST, SMALLEST
from ostler.drivers.screen_stream import STATUS
from ostler.remote.client import API, Remote
from ostler.schema.errors import NotFound
from ostler.schema.text import cells

LONGEST_MESSAGE = 100_000
"""Characters that are typed with one request: a body may have a megabyte."""


class Size(msgspec.Struct, frozen=True):
    columns: int
    rows: int


class Ended(msgspec.Struct, frozen=True):
    """The agent has: nothing will come any more."""


class AgentStatus(msgspec.Struct, frozen=True):
    agent_type: str
    status: str
    transport: str = "pty"


Shown = Size | bytes | Ended
"""A screen of that size, and then what draws on it."""


class LiveScreen(Protocol):
    def follow(self) -> AsyncGenerator[Shown, None]:
        """From the beginning: a size, what draws the screen as it is, and what is drawn from then on.

        Raises `ServerUnreachable` when it breaks, and returns when it ends without the agent's end.
        """
        ...

    async def press(self, keys: str) -> None:
        """As a keyboard sends them."""

    async def status(self) -> AgentStatus: ...


class ScreenOfSession:
    """A session of API v1."""

    def __init__(self, remote: Remote, session: str) -> None:
        self._remote = remote
        self._path = f"{API}/sessions/{session}"

    async def follow(self) -> AsyncGenerator[Shown, None]:
        async with aclosing(_bytes(self._remote, f"{self._path}/terminal")) as shown:
            async for one in shown:
                yield one

    async def press(self, keys: str) -> None:
        await self._remote.ask(
            "POST", f"{self._path}/requests", {"type": "keys", "keys": keys, "by": "attach"}
        )

    async def status(self) -> AgentStatus:
        live = await self._remote.get(f"{self._path}/live")
        said = live["values"].get(STATUS) or {}
        return AgentStatus(said.get("agent_type", "agent"), _word(said.get("status", "")))


class ScreenOfAgent:
    """The root of `ostler serve -- AGENT`, or of an agentapi server, which has its screen as text only."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._is_text_only = False

    async def follow(self) -> AsyncGenerator[Shown, None]:
        if not self._is_text_only:
            try:
                async with aclosing(_bytes(self._remote, "/internal/terminal")) as shown:
                    async for one in shown:
                        yield one
                return
            except NotFound:
                self._is_text_only = True
        async with aclosing(_texts(self._remote)) as shown:
            async for one in shown:
                yield one

    async def press(self, keys: str) -> None:
        await self._remote.ask("POST", "/message", {"content": keys, "type": "raw"})

    async def status(self) -> AgentStatus:
        return status_of(await self._remote.get("/status"))


def status_of(said: object) -> AgentStatus:
    """Raises `ValidationError` for what is none."""
    status = msgspec.convert(said, AgentStatus)
    return msgspec.structs.replace(status, status=_word(status.status))


def _word(status: str) -> Literal["waits for you", "is at work", "starts", ""]:
    if status in ("stable", ""):
        return "waits for you" if status else ""
    return "starts" if status == "initializing" else "is at work"


async def _bytes(remote: Remote, path: str) -> AsyncGenerator[Shown, None]:
    async with aclosing(remote.frames(path)) as batches:
        async for frames in batches:
            for name, data in frames:
                if name == b"size":
                    yield msgspec.json.decode(data, type=Size)
                elif name == b"bytes":
                    yield b64decode(data)
                elif name == b"end":
                    yield Ended()
                    return


class _Screen(msgspec.Struct):
    screen: str


async def _texts(remote: Remote) -> AsyncGenerator[Shown, None]:
    """Each is a whole screen. Nothing is known of its cursor, and there may be no sign of life for long."""
    size = Size(0, 0)
    async with aclosing(remote.frames("/internal/screen", silence=None)) as batches:
        async for frames in batches:
            newest = [data for name, data in frames if name == b"screen"][-1:]
            for data in newest:
                rows = [row.rstrip() for row in msgspec.json.decode(data, type=_Screen).screen.split("\n")]
                needed = Size(_within(max(map(cells, rows)), 80), _within(len(rows), size.rows))
                if needed.columns > size.columns or needed.rows > size.rows:
                    size = Size(max(size.columns, needed.columns), needed.rows)
                    yield size
                yield b"\x1b[?25l\x1b[H\x1b[2J" + "\r\n".join(rows[-size.rows :]).encode()


def _within(wanted: int, least: int) -> int:
    return min(max(wanted, least, SMALLEST), LARGEST)
