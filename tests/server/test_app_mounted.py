"""The server as a part of somebody else's application."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urljoin

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from ostler.server import create_app
from ostler.server.http_server import HttpServer
from ostler.server.main import listen
from tests.server.cut_stream import CutStream
from tests.server.served import Served


@pytest.mark.parametrize("has_life", [True, False])
async def test_a_mounted_application_works_whether_or_not_its_life_is_part_of_the_others(
    tmp_path: Path, has_life: bool
) -> None:
    served = Served(tmp_path, ["hello"], lambda harness: None)

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        async with served.server:
            yield

    app = Starlette(routes=[Mount("/agents", create_app(served.server))], lifespan=life if has_life else None)
    listening = listen("127.0.0.1", 0)
    base_url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none")
    http = HttpServer(config, served.server)
    running = asyncio.ensure_future(http.serve(sockets=[listening]))
    headers = {"Authorization": f"Bearer {served.token}"}
    async with httpx2.AsyncClient(base_url=f"{base_url}/agents/api/v1/", headers=headers) as client:
        made = await client.post("sessions", json={"prompt": [{"type": "text", "text": "go"}]})
        assert made.status_code == 201, made.text
        for place in ("", "s/some-session"):
            await _load_page(client, f"{base_url}/agents/{place}")
        path = f"/agents/api/v1/sessions/{made.json()['id']}/events"
        stream = CutStream(base_url, path, served.token)
        await stream.read(until=lambda: "run_ended" in stream.reader.kinds)
        staying = asyncio.ensure_future(stream.read())
        await stream.reader.until(lambda: stream.reader.caught_up > 1)
    http.end()
    async with asyncio.timeout(60):
        await running
        await staying
    assert stream.is_ended
    if not has_life:
        await served.server.close()
    await served.store.close()


async def _load_page(client: httpx2.AsyncClient, address: str) -> None:
    """The page, and everything it names, as a browser finds it from there."""
    page = await client.get(address)
    assert page.headers["content-type"].startswith("text/html")
    named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(named) >= 3
    for one in named:
        found = await client.get(urljoin(address, one))
        assert found.status_code == 200, urljoin(address, one)
        assert "immutable" in found.headers["cache-control"]
