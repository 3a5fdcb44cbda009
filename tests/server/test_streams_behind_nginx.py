"""Streams through a real nginx that buffers answers, as it does unless it is told otherwise."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2
import pytest

from ostler.models.scripted import Call, Turn
from tests.server.cut_stream import CutStream
from tests.server.served import serving, text
from tests.support.command import PATIENCE, wait_until
from tests.support.needed import program

CONFIGURATION = """
daemon off; pid {folder}/pid; error_log stderr; events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {upstream}; {more} }} }}
}}
"""


@contextmanager
def nginx(folder: Path, upstream: str, more: str = "") -> Iterator[str]:
    """Its address."""
    folder.mkdir()
    found = program("nginx")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    configured = folder / "nginx.conf"
    configured.write_text(CONFIGURATION.format(folder=folder, port=port, upstream=upstream, more=more))
    process = subprocess.Popen(
        [found, "-p", folder, "-c", configured, "-e", "stderr"], stderr=subprocess.PIPE
    )
    try:
        wait_until(lambda: process.poll() is not None or _is_open(port))
        assert process.poll() is None, process.communicate()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


SCRIPT = (Turn("some words " * 20, (Call("hold"),)), "the end")


@pytest.mark.long
async def test_a_proxy_that_buffers_passes_every_frame_on_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, *SCRIPT) as served:
        with nginx(tmp_path / "nginx", served.base_url) as address:
            session = await served.new_session()
            client = CutStream(address, f"/api/v1/sessions/{session}/events", served.token)
            reading = asyncio.ensure_future(client.read(until=lambda: "run_ended" in client.reader.kinds))
            await client.reader.until(lambda: client.reader.caught_up)
            await served.ask(session, "prompt", content=text("go"), wait=0)
            await client.reader.until(lambda: "tool_started" in client.reader.kinds)
            assert any(event["type"] == "text_delta" for event in client.events)
            served.go_on.set()  # only now: what came before was not held back
            await reading
            assert client.cursors == [str(seq) for seq in range(1, client.reader.seq + 1)]


@pytest.mark.long
async def test_a_proxy_that_holds_streams_back_leaves_polling_on_the_same_cursor(tmp_path: Path) -> None:
    async with serving(tmp_path, *SCRIPT) as served:
        with nginx(tmp_path / "nginx", served.base_url, "proxy_ignore_headers X-Accel-Buffering;") as address:
            session = await served.new_session("go")
            await asyncio.wait_for(served.busy.wait(), 60)
            headers = {"Authorization": f"Bearer {served.token}"}
            async with httpx2.AsyncClient(base_url=address, headers=headers, timeout=40) as http:
                path = f"/api/v1/sessions/{session}/events"
                seen: list[int] = []
                while True:
                    waiting = asyncio.ensure_future(http.get(f"{path}?after={len(seen)}&wait=30"))
                    if seen:
                        served.go_on.set()
                    facts = (await waiting).json()["facts"]
                    seen += [fact["seq"] for fact in facts]
                    if facts[-1]["type"] == "run_ended":
                        break
                assert seen == list(range(1, len(seen) + 1))


@pytest.mark.long
async def test_a_client_that_disconnects_from_the_proxy_is_unsubscribed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        with nginx(tmp_path / "nginx", served.base_url) as address:
            session = await served.new_session()
            client = CutStream(address, f"/api/v1/sessions/{session}/events", served.token)
            await client.read(until=lambda: client.reader.caught_up)
            async with asyncio.timeout(60):
                while any(one.subscribers for one in served.server.streams.streams()):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
