"""The small agent behind the root of a server, in a process of its own: with its bytes, or as text only.

python -m tests.remote.stand_in FOLDER text|bytes COLUMNS ROWS [PORT]
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ostler.drivers.lifecycle import start_agent_session
from ostler.drivers.session import AgentSession
from ostler.server.http_server import HttpServer
from ostler.server.main import listen
from ostler.server.streams import TerminalStreams, terminal_stream
from ostler.store.memory import MemoryStore
from tests.drivers.screen_agents import echo_agent


class Streams(TerminalStreams):
    """All that the server has to end when it is told to."""

    close_streams = TerminalStreams.close


def app_of(session: AgentSession, wire: str, streams: Streams) -> Starlette:
    async def status(request: Request) -> Response:
        word = "stable" if session.status == "stable" else "running"
        transport = "acp" if wire == "acp" else "pty"
        return JSONResponse({"status": word, "agent_type": session.agent_type, "transport": transport})

    async def message(request: Request) -> Response:
        session.press((await request.json())["content"].encode())
        return JSONResponse({"ok": True})

    async def terminal(request: Request) -> Any:
        return terminal_stream(session, streams)

    async def screen(request: Request) -> Response:
        return StreamingResponse(_screens(session), media_type="text/event-stream")

    routes = [
        Route("/status", status),
        Route("/message", message, methods=["POST"]),
        Route("/internal/screen", screen),
    ]
    return Starlette(routes=[*routes, Route("/internal/terminal", terminal)] if wire == "bytes" else routes)


async def _screens(session: AgentSession) -> AsyncIterator[bytes]:
    viewer = session.view()
    try:
        while await viewer.next() is not None:
            text = "\n".join(row.ljust(80) for row in session.driver.screen.lines()).rstrip()
            yield b"event: screen\ndata: %b\n\n" % json.dumps({"screen": text}).encode()
    finally:
        viewer.unsubscribe()


async def main(folder: str, wire: str, columns: str, rows: str, port: str = "0") -> None:
    agent = echo_agent(Path(folder), columns=int(columns), rows=int(rows))
    session = await start_agent_session(MemoryStore(), agent)
    listening = listen("127.0.0.1", int(port))
    print(listening.getsockname()[1], flush=True)
    streams: Any = Streams()
    config = uvicorn.Config(app_of(session, wire, streams), log_level="warning", ws="none")
    try:
        await HttpServer(config, streams).serve(sockets=[listening])
    finally:
        await session.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
