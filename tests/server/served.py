"""A real server on loopback, in the test's own event loop, with a scripted model behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.tool import Tool
from ostler.models.scripted import Answer, ScriptedModel
from ostler.server.app import create_app
from ostler.server.main import HttpServer, listen
from ostler.server.state import ServerState
from ostler.server.tokens import TokenStore
from ostler.store.sqlite import SqliteStore

Change = Callable[[Harness], Awaitable[Harness] | None]
"""Changes it, or makes another one of it."""


class Served:
    """What a test needs of it. The tool `hold` waits until `go_on` is set."""

    def __init__(self, folder: Path, script: Sequence[Answer], change: Change) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)
        self.tokens = TokenStore(self.home / "tokens.json")
        self.token = self.tokens.new("test", "admin")
        self.store = SqliteStore(self.home / "ostler.db")
        self.busy, self.go_on = asyncio.Event(), asyncio.Event()
        self.model = ScriptedModel(list(script))
        self._change = change
        self.server = ServerState(self.store, self._equip, self.work, self.tokens)
        self.base_url = ""
        self.http: httpx2.AsyncClient

    async def _equip(self, cwd: Path) -> Harness:
        harness = Harness(self.model, cwd=cwd, wait_for_answers=True)
        harness.set_tools([self._hold()])
        changed = self._change(harness)
        return harness if changed is None else await changed

    def _hold(self) -> Tool:
        @tool
        async def hold() -> str:
            self.busy.set()
            await asyncio.wait_for(self.go_on.wait(), 60)
            return "held"

        return hold

    async def post(self, path: str, body: Any = None, status: int | None = None) -> Any:
        answer = await self.http.post(path, json=body if body is not None else {})
        assert status is None or answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        answer = await self.http.get(path, params=query)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def new_session(self, prompt: str = "") -> str:
        blocks = [{"type": "text", "text": prompt}] if prompt else []
        made = await self.post("sessions", {"prompt": blocks}, 201)
        return str(made["id"])

    async def ask(self, session: str, type: str, *, wait: float = 10, **fields: Any) -> Any:
        """Asks something of a session, and waits for what comes of it."""
        return await self.post(f"sessions/{session}/requests?wait={wait}", {"type": type, **fields})

    async def rest(self, session: str) -> Any:
        async with asyncio.timeout(60):
            return await self.server.supervisor.wait(session)

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """The events of a stream; a fact has its `id` beside it."""
        asked = {name.replace("_", "-"): value for name, value in headers.items()}
        asked["Accept"] = "text/event-stream"
        async with self.http.stream("GET", path, headers=asked) as answer:
            assert answer.status_code == 200, await answer.aread()
            yield _events(answer.aiter_lines())


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, Any]]:
    fact = ""
    async for line in lines:
        if line.startswith("id: "):
            fact = line[4:]
        elif line.startswith("data: "):
            event = json.loads(line[6:])
            yield {**event, "id:": fact} if fact else event
            fact = ""


@asynccontextmanager
async def serving(
    folder: Path, *script: Answer, change: Change = lambda harness: None, **options: Any
) -> AsyncIterator[Served]:
    """A server whose model says that. The options are those of the application."""
    served = Served(folder, script, change)
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    app = create_app(served.server, **options)
    config = uvicorn.Config(app, log_level="warning", access_log=False, proxy_headers=False, ws="none")
    http = HttpServer(config, served.server)
    running = asyncio.ensure_future(http.serve(sockets=[listening]))
    served.base_url = f"http://127.0.0.1:{port}"
    client = httpx2.AsyncClient(
        base_url=f"{served.base_url}/api/v1/", headers={"Authorization": f"Bearer {served.token}"}, timeout=20
    )
    async with client:
        served.http = client
        try:
            yield served
        finally:
            served.go_on.set()
            http.end()
            async with asyncio.timeout(60):
                await running
            await served.store.close()


def text(said: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": said}]
