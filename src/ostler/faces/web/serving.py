"""`ostler serve`: from options to a server that listens, until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import socket
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn

from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.driving import collect_garbage_from_here
from ostler.faces.cli.equipping import equipped, settings_from
from ostler.faces.cli.extending import extended
from ostler.faces.cli.saying import say
from ostler.faces.web.app import create_app
from ostler.faces.web.server import Server
from ostler.faces.web.tokens import TokenBook
from ostler.kernel.harness import Harness
from ostler.runs.stores import open_store
from ostler.vocabulary.errors import UsageError

WAITING_TO_END = 5
"""Seconds that answers under way have when the server ends."""


class HttpServer(uvicorn.Server):
    """Ends open streams when a signal comes: uvicorn would wait for them."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._server.close_streams()
        super().handle_exit(sig, frame)


def serve(options: argparse.Namespace) -> int:
    return asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> int:
    cwd = working_directory(options.cwd)
    settings = settings_from(options, cwd)

    async def equip(cwd: Path) -> Harness:
        named = msgspec.structs.replace(settings_from(options, cwd), on_question="wait")
        found, harness = equipped(named, cwd, "", options)
        await extended(options, found, harness)
        return harness

    tokens = TokenBook()
    first = tokens.first()
    server = Server(open_store(settings), equip, cwd, tokens)
    listening = listen(options.host, options.port)
    host, port = listening.getsockname()[:2]
    config = uvicorn.Config(
        create_app(server, hosts=[_named(host), *options.allow_host], origins=options.allow_origin),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=WAITING_TO_END,
        ws="none",
    )
    collect_garbage_from_here()
    http = HttpServer(config, server)
    address = f"http://{_named(host)}:{port}/"
    if first:
        say(f"a token for programs was made, and is shown only now: {first}")
    say(f"listening at {address}")
    say(f"open {address}#token={tokens.code()} in a browser; the link works once, for ten minutes")
    await http.serve(sockets=[listening])
    return 0


def _named(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def listen(host: str, port: int) -> socket.socket:
    """Bound before anything is said: an address that is taken is one line."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen at {_named(host)}:{port}: {error}") from None
    listening.listen(2048)  # from here on whoever connects is served, if a little later
    listening.setblocking(False)
    return listening
