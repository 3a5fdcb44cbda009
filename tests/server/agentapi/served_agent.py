"""A server with the agentapi wire on loopback, before a driven agent that a test controls or a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import uvicorn
from starlette.types import Receive, Scope, Send

from ostler.drivers.driver import AgentMessage, SavedState, Status
from ostler.drivers.session import AgentSession
from ostler.server.agentapi.app import create_agent_app
from ostler.server.agentapi.events import Emitter
from ostler.server.http_server import HttpServer
from ostler.server.main import listen
from ostler.store.memory import MemoryStore

HOSTS = ("localhost", "127.0.0.1", "[::1]")
ORIGINS = ("http://localhost:3284", "http://localhost:3000", "http://localhost:3001")
BEGAN = 1775820880.123456


class FakeAgent:
    """Does what the test says, and remembers what it was asked."""

    id = "ses_fake"
    last_screen = ""

    def __init__(self) -> None:
        self.agent_type = "claude"
        self.journal = SimpleNamespace(store=MemoryStore())
        self.transport: Any = "pty"
        self.status: Status = "stable"
        self.messages: tuple[AgentMessage, ...] = (AgentMessage(0, "agent", "", BEGAN),)
        self.screen = ""
        self.looked = 0
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.pressed = b""
        self.sent: list[str] = []
        self.failure: Exception | None = None
        self.sending = asyncio.Event()
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.observers: list[Callable[[], None]] = []
        self.on_warning: Callable[[str], None] = lambda problem: None

    @property
    def screen_text(self) -> str:
        self.looked += 1
        return self.screen

    def change(self, *, status: Status | None = None, screen: str | None = None, **texts: str) -> None:
        self.status = status or self.status
        self.screen = self.screen if screen is None else screen
        for place, text in texts.items():
            number = int(place.removeprefix("m"))
            role: Any = "user" if number % 2 else "agent"
            message = AgentMessage(number, role, text, BEGAN + number)
            self.messages = (*self.messages[:number], message, *self.messages[number + 1 :])
        for observer in self.observers:
            observer()

    def subscribe(self, observer: Callable[[], None]) -> Callable[[], None]:
        self.observers.append(observer)
        return lambda: self.observers.remove(observer)

    def to_save(self) -> SavedState:
        return SavedState(self.messages)

    async def send(self, text: str, *, request: str = "") -> None:
        self.sending.set()
        await self.may_send.wait()
        if self.failure:
            raise self.failure
        self.sent.append(text)

    def press(self, keys: bytes) -> None:
        if self.failure:
            raise self.failure
        self.pressed += keys

    def interrupt(self, request: str = "") -> bool:
        return True

    async def close(self) -> None:
        return


async def native(scope: Scope, receive: Receive, send: Send) -> None:
    """Stands for the application with the API of our own."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = f"native {scope['method']} {scope['path']}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-native", b"yes")]})
    await send({"type": "http.response.body", "body": body})


class ServedAgent:
    def __init__(self, emitter: Emitter, http: httpx2.AsyncClient, base_url: str, uploads: Path) -> None:
        self.emitter = emitter
        self.http = http
        self.base_url = base_url
        self.uploads = uploads
        self.end: Callable[[], None] = emitter.close_streams

    async def say(self, content: Any, type: str = "user") -> httpx2.Response:
        return await self.http.post("/message", json={"content": content, "type": type})

    async def status(self) -> str:
        return str((await self.http.get("/status")).json()["status"])

    async def texts(self) -> list[str]:
        return [one["content"] for one in (await self.http.get("/messages")).json()["messages"]]

    @asynccontextmanager
    async def frames(self, path: str = "/events") -> AsyncIterator[AsyncIterator[bytes]]:
        """Each frame with the empty line behind it."""
        async with asyncio.timeout(30), self.http.stream("GET", path) as answer:
            assert answer.status_code == 200
            yield _frames(answer)

    @asynccontextmanager
    async def events(self, path: str = "/events") -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
        async with self.frames(path) as frames:
            yield (parsed(frame) async for frame in frames)


async def _frames(answer: httpx2.Response) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in answer.aiter_raw():
        *whole, rest = (rest + piece).split(b"\n\n")
        for frame in whole:
            yield frame + b"\n\n"
    assert rest == b""


def parsed(frame: bytes) -> tuple[str, Any]:
    name, data, *end = frame.decode().split("\n")
    assert end == ["", ""], frame
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def take(events: AsyncIterator[Any], count: int) -> list[Any]:
    return [await anext(events) for _ in range(count)]


@asynccontextmanager
async def serving(
    agent: AgentSession | FakeAgent, folder: Path, **options: Any
) -> AsyncIterator[ServedAgent]:
    emitter = options.pop("emitter", None) or Emitter(agent.agent_type)
    uploads = folder / "uploads"
    chosen = {"allowed_hosts": HOSTS, "allowed_origins": ORIGINS, "uploads": uploads, **options}
    app = create_agent_app(agent, native, emitter=emitter, **chosen)
    listening = listen("127.0.0.1", 0)
    base_url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, ws="none")
    closing: Any = SimpleNamespace(close_streams=emitter.close_streams)
    server = HttpServer(config, closing)
    running = asyncio.ensure_future(server.serve(sockets=[listening]))
    async with httpx2.AsyncClient(base_url=base_url, timeout=60) as client:
        served = ServedAgent(emitter, client, base_url, uploads)
        served.end = server.end
        try:
            yield served
        finally:
            if not server.should_exit:
                server.end()
            async with asyncio.timeout(60):
                await running
