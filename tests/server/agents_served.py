"""A server with the echo agent, and a terminal that shows what a stream of it carries."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from ostler.drivers.screen import Screen, open_screen
from ostler.drivers.session import AgentSession
from tests.drivers.screen_agents import ECHO_AGENT, PATIENCE, QUICK
from tests.server.served import Served, serving

ECHO: dict[str, Any] = {"command": [*ECHO_AGENT], "rows": 40}


@asynccontextmanager
async def serving_agents(folder: Path) -> AsyncIterator[Served]:
    async with serving(folder) as served, asyncio.timeout(PATIENCE * 2):
        served.server.agents.timing = QUICK
        yield served


async def start(served: Served, **agent: Any) -> str:
    made = await served.post("sessions", {"agent": {**ECHO, **agent}}, 201)
    return str(made["id"])


async def until(served: Served, session: str, status: str = "stable") -> Any:
    """The session, as soon as its agent is so: looked at whenever something happens in it."""
    async with served.stream(f"sessions/{session}/events") as events:
        async for _ in events:
            shown = await served.get(f"sessions/{session}")
            if shown["agent"]["status"] == status:
                return shown
    raise AssertionError("the stream has ended")


async def ask(served: Served, session: str, words: str) -> None:
    """Says it, and waits until the agent waits again."""
    answer = await served.ask(session, "prompt", content=[{"type": "text", "text": words}])
    assert answer["state"] == "settled", answer
    await until(served, session)


async def said_in(served: Served, session: str) -> list[str]:
    facts = (await served.get(f"sessions/{session}/events"))["facts"]
    said = [fact for fact in facts if fact["type"] in ("user_message", "assistant_message")]
    return [fact["content"][0]["text"] for fact in said]


def agent_of(served: Served, session: str) -> AgentSession:
    agent = served.server.agents.get(session)
    assert isinstance(agent, AgentSession)
    return agent


def process_of(served: Served, session: str) -> int:
    return agent_of(served, session).driver.process.id.pid


class ShownTerminal:
    """Someone's terminal that is fed what the stream carries."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.screen: Screen | None = None
        self.frames: list[str] = []
        self.sizes: list[tuple[int, int]] = []
        self.drawn_anew = 0
        self.exit_status: int | None = None

    @property
    def text(self) -> str:
        return "\n".join(self.screen.lines()).strip() if self.screen else ""

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await self._read_frame()

    async def to_the_end(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self._read_frame():
                continue

    async def _read_frame(self) -> bool:
        event = ""
        async for line in self._lines:
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: "):
                self._take(event, line.removeprefix("data: "))
            elif not line and event:
                return True
        return False

    def _take(self, event: str, data: str) -> None:
        self.frames.append(event)
        match event:
            case "size":
                size = json.loads(data)
                self.sizes.append((size["columns"], size["rows"]))
                if self.screen is None:
                    self.screen = open_screen(*self.sizes[-1])
                else:
                    self.screen.resize(*self.sizes[-1])
            case "bytes":
                assert self.screen is not None
                shown = b64decode(data, validate=True)
                self.drawn_anew += shown.startswith(b"\x1bc")
                self.screen.feed(shown)
            case "end":
                self.exit_status = json.loads(data)["exit_status"]


@asynccontextmanager
async def watching(http: httpx2.AsyncClient, session: str, **headers: str) -> AsyncIterator[ShownTerminal]:
    asked = {**headers, "Accept": "text/event-stream"}
    async with http.stream("GET", f"sessions/{session}/terminal", headers=asked) as answer:
        assert answer.status_code == 200, await answer.aread()
        terminal = ShownTerminal(answer.aiter_lines())
        try:
            yield terminal
        finally:
            if terminal.screen is not None:
                terminal.screen.close()
