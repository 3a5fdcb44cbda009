"""How the clients of this wire read a stream, with all that makes them give up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any


class GaveUp(Exception):
    """What such a client would tell its user."""


async def events_of(pieces: AsyncIterator[bytes], most: int) -> AsyncIterator[tuple[str, str]]:
    """The Go library below two of them: a name and data, no comments, no event larger than `most` bytes."""
    buffer = b""
    async for piece in pieces:
        buffer += piece
        while (end := buffer.find(b"\n\n")) >= 0:
            chunk, buffer = buffer[: end + 2], buffer[end + 2 :]
            if len(chunk) >= most:
                raise GaveUp("token too long")
            name, data, is_event = "", [], False
            for line in chunk.decode().splitlines():
                field, colon, value = line.partition(":")
                if field in ("event", "data") and colon:
                    is_event = True
                    value = value.removeprefix(" ")
                    name = value if field == "event" else name
                    data += [value] if field == "data" else []
            if is_event:
                yield name, "\n".join(data)
        if len(buffer) >= most:
            raise GaveUp("token too long")


async def go_client(pieces: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The official client: it knows two events, and any other is an error."""
    async for name, data in events_of(pieces, 128 * 1024):
        event = json.loads(data)
        if name == "message_update":
            assert set(event) == {"id", "role", "message", "time"}
            assert isinstance(event["id"], int) and event["role"] in ("user", "agent")
        elif name == "status_change":
            assert event["status"] in ("running", "stable")
        else:
            raise GaveUp(f"unknown event type: {name}")
        yield event


async def attached(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The terminal client: only what the data says counts."""
    async for _, data in events_of(pieces, 256 * 1024):
        yield json.loads(data)["screen"]


class EventSourceLike:
    """A browser's stream, and the list of messages that a page makes of it."""

    KNOWN_AGENTS = frozenset({"claude", "goose", "aider", "gemini", "amp", "codex", "cursor", "cursor-agent"})
    KNOWN_AGENTS |= {"copilot", "auggie", "amazonq", "opencode", "custom"}

    def __init__(self) -> None:
        self.messages: dict[int, str] = {}
        self.status = "offline"
        self.problems: list[tuple[str, str]] = []

    async def read(self, pieces: AsyncIterator[bytes], until: Any) -> None:
        async for name, data in events_of(pieces, 2**40):
            event = json.loads(data)
            if name == "message_update":
                self.messages[event["id"]] = event["message"]
            elif name == "status_change":
                assert event["agent_type"] in self.KNOWN_AGENTS or not event["agent_type"]
                self.status = event["status"]
            elif name == "agent_error":
                self.problems.append((event["level"], event["message"]))
            if until(self):
                return
