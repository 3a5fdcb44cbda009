"""A bare ASGI application under the same uvicorn, which sends given frames to whoever asks: the floor."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import uvicorn

from bench.talking import answer_lines

QUEUES: set[asyncio.Queue[bytes]] = set()
HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]


async def app(scope: Any, receive: Any, send: Any) -> None:
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    QUEUES.add(queue)
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    caught_up = b'data: {"type":"caught_up"}\n\n'
    await send({"type": "http.response.body", "body": caught_up, "more_body": True})
    while True:
        await send({"type": "http.response.body", "body": await queue.get(), "more_body": True})


async def _serve(frames: list[bytes]) -> None:
    async def answer(asked: dict[str, Any]) -> bool:
        for frame in frames:
            for queue in QUEUES:
                queue.put_nowait(frame)
            await asyncio.sleep(asked["pause"])
        return True

    config = uvicorn.Config(
        app, port=0, log_level="warning", access_log=False, server_header=False, ws="none", lifespan="off"
    )
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await answer_lines(answer)
    serving.cancel()


def main() -> None:
    frames = Path(sys.argv[1]).read_bytes().split(b"\n\n")[:-1]
    asyncio.run(_serve([frame + b"\n\n" for frame in frames]))
