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
"""Characters of keys in one request: a body may have a megabyte."""


class Size(msgspec.Struct, frozen=True):
    columns: int
    rows: int


class Ended(msgspec.Struct, frozen=True):
    """The agent has ended."""


class AgentStatus(msgspec.Struct, frozen=True):
    agent_type: str
    status: str
    transport: str = "pty"


Word = Literal["waits for you", "asks", "is at work", "starts", ""]

ScreenEvent = Size | bytes | Ended
"""A screen of that size, and then the bytes that draw on it."""


class LiveScreen(Protocol):
    def follow(self) -> AsyncGenerator[ScreenEvent, None]:
        """The size, the bytes that draw the current screen, and then those of each change.

        Raises `ServerUnreachable` when the stream breaks. If it ends without `Ended`, it can be opened again.
        """
        ...

    async def press(self, keys: str) -> None:
        """Sends keys as a keyboard does."""

    async def status(self) -> AgentStatus: ...


class ScreenOfSession:
    """A session of API v1."""

    def __init__(self, remote: Remote, session: str) -> None:
        self._remote = remote
        self._path = f"{API}/sessions/{session}"

    def follow(self) -> AsyncGenerator[ScreenEvent, None]:
        return _bytes(self._remote, f"{self._path}/terminal")

    async def press(self, keys: str) -> None:
        request = {"type": "keys", "keys": keys, "by": "attach"}
        await self._remote.ask("POST", f"{self._path}/requests", request)

    async def status(self) -> AgentStatus:
        live = await self._remote.get(f"{self._path}/live")
        value = live["values"].get(STATUS) or {}
        return AgentStatus(value.get("agent_type", "agent"), _word(value.get("status", "")))


class ScreenOfAgent:
    """`ostler serve -- AGENT`, or an agentapi server, which has its screen as text only."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._is_text_only = False

    async def follow(self) -> AsyncGenerator[ScreenEvent, None]:
        if not self._is_text_only:
            try:
                async with aclosing(_bytes(self._remote, "/internal/terminal")) as screen:
                    async for event in screen:
                        yield event
                return
            except NotFound:
                self._is_text_only = True
        async with aclosing(_texts(self._remote)) as screen:
            async for event in screen:
                yield event

    async def press(self, keys: str) -> None:
        await self._remote.ask("POST", "/message", {"content": keys, "type": "raw"})

    async def status(self) -> AgentStatus:
        return status_of(await self._remote.get("/status"))


def status_of(response: object) -> AgentStatus:
    """Raises `ValidationError` if it is not a status."""
    status = msgspec.convert(response, AgentStatus)
    return msgspec.structs.replace(status, status=_word(status.status))


_WORDS: dict[str, Word] = {"stable": "waits for you", "asking": "asks", "initializing": "starts", "": ""}


def _word(status: str) -> Word:
    return _WORDS.get(status, "is at work")


async def _bytes(remote: Remote, path: str) -> AsyncGenerator[ScreenEvent, None]:
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


async def _texts(remote: Remote) -> AsyncGenerator[ScreenEvent, None]:
    """Whole screens, without a cursor. agentapi sends no keep-alives, so silence is no error."""
    size = Size(0, 0)
    async with aclosing(remote.frames("/internal/screen", silence=None)) as batches:
        async for frames in batches:
            for data in [data for name, data in frames if name == b"screen"][-1:]:
                rows = [row.rstrip() for row in msgspec.json.decode(data, type=_Screen).screen.split("\n")]
                needed = Size(_within(max(map(cells, rows)), 80), _within(len(rows), size.rows))
                if needed.columns > size.columns or needed.rows > size.rows:
                    size = Size(max(size.columns, needed.columns), needed.rows)
                    yield size
                yield b"\x1b[?25l\x1b[H\x1b[2J" + "\r\n".join(rows[-size.rows :]).encode()


def _within(wanted: int, least: int) -> int:
    return min(max(wanted, least, SMALLEST), LARGEST)
