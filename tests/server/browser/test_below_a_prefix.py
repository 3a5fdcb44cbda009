"""The page as a part of somebody else's site."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.server.browser.conftest import Visit
from tests.support.command import finish

pytestmark = pytest.mark.long

SITE = """
import asyncio
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from ostler.server import create_app
from ostler.server.http_server import HttpServer
from ostler.server.state import ServerState
from ostler.server.main import listen
from ostler.server.tokens import TokenStore
from ostler.core.harness import Harness
from ostler.store.sqlite import SqliteStore
from ostler.models.scripted import ScriptedModel


async def equip(cwd):
    return Harness(ScriptedModel(["I am mounted."]), cwd=cwd)


async def main():
    here = Path.cwd()
    tokens = TokenStore(here / "tokens.json")
    store = SqliteStore(here / "ostler.db")
    server = ServerState(store, equip, here, tokens)
    app = Starlette(routes=[Mount("/agents", create_app(server))])
    listening = listen("127.0.0.1", 0)
    print(listening.getsockname()[1], tokens.new("tests", "all"), flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none")
    await HttpServer(config, server).serve(sockets=[listening])
    await server.close()
    await store.close()


asyncio.run(main())
"""


class Mounted:
    """What a visitor needs of a server."""

    def __init__(self, port: str, token: str) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.link = f"{self.address}/agents/#token={token}"


@contextmanager
def mounted(folder: Path) -> Iterator[Mounted]:
    program = [sys.executable, "-W", "error", "-c", SITE]
    process = subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield Mounted(*process.stdout.readline().decode().split())
    finally:
        process.terminate()
        ended = finish(process)
    assert ended.code == 0, ended.err


def test_the_page_works_below_a_prefix(visit: Visit, tmp_path: Path) -> None:
    with mounted(tmp_path) as site:
        at = visit(site)
        assert at.page.url == f"{site.address}/agents/"
        at.begin()
        at.say("Where are you?")
        expect(at.answers).to_have_text("I am mounted.")
        assert at.page.url == f"{site.address}/agents/s/{at.session}"
        at.page.reload()
        expect(at.answers).to_have_text("I am mounted.")
        at.page.get_by_role("link", name="Ostler: all sessions").click()
        assert at.page.url == f"{site.address}/agents/"
        at.page.get_by_role("list", name="Sessions").get_by_role("link").click()
        expect(at.answers).to_have_text("I am mounted.")
