"""`ostler serve`: from options to a server that listens, until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import errno
import socket
import sys
from contextlib import closing
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.driving import collect_garbage_from_here
from ostler.faces.cli.equipping import settings_from
from ostler.faces.cli.saying import say
from ostler.faces.web.app import create_app
from ostler.faces.web.capacity import raise_descriptor_limit
from ostler.faces.web.equipping import Equipping
from ostler.faces.web.http_server import HttpServer
from ostler.faces.web.server import Server
from ostler.faces.web.tokens import TokenBook
from ostler.runs.settings import Settings
from ostler.runs.stores import open_store
from ostler.vocabulary.errors import UsageError

Address = IPv4Address | IPv6Address
NO_TOKEN = "at {} other machines can ask: make a token first, with `ostler token new NAME`"


def serve(options: argparse.Namespace) -> int:
    return asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> int:
    cwd = working_directory(options.cwd)
    settings = settings_from(options, cwd)
    tokens = TokenBook()
    with closing(listen(options.host, options.port)) as listening:
        address = address_of(listening)
        if not address.is_loopback and not tokens.all():
            raise UsageError(NO_TOKEN.format(address))
        server, equipping = make_server(options, settings, cwd, tokens)
        app = create_app(server, hosts=names(options, address), origins=options.allow_origin)
        http = HttpServer(http_config(app, options), server)
        _welcome(tokens, address, listening.getsockname()[1])
        await equipping.look_around(cwd)
        await http.serve(sockets=[listening])
    return 0


def make_server(
    options: argparse.Namespace, settings: Settings, cwd: Path, tokens: TokenBook
) -> tuple[Server, Equipping]:
    """What all that is served works on."""
    equipping = Equipping(
        options, lambda *wanted: server.switch(*wanted), lambda agent: server.driven.add(agent)
    )
    server = Server(open_store(settings), equipping.equip, cwd, tokens, settings=equipping.settings)
    return server, equipping


def http_config(app: ASGIApp, options: argparse.Namespace) -> uvicorn.Config:
    """For a process that serves from now on, and does nothing else."""
    raise_descriptor_limit()
    collect_garbage_from_here()
    return uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=bool(options.behind_proxy),
        forwarded_allow_ips=options.behind_proxy,
        ws="none",
    )


def names(options: argparse.Namespace, address: Address) -> list[str]:
    """By which it may be asked for. That of an address which stands for all is no name."""
    own = [] if address.is_unspecified else [options.host]
    return [*own, *options.allow_host]


def _welcome(tokens: TokenBook, address: Address, port: int) -> None:
    if first := tokens.first():
        # What is printed elsewhere is kept there, and who knows who reads it.
        shown = first if sys.stderr.isatty() else "not shown, since this is no terminal"
        say(f"a first token was made ({shown}); `ostler token new NAME` makes another")
    say_where(address, port)
    link = f"{url(address, port)}#token={tokens.code()}"
    say(f"open {link} in a browser; the link works once, for ten minutes")


def say_where(address: Address, port: int) -> None:
    say(f"listening at http://{_named(str(address))}:{port}/")
    if not address.is_loopback:
        say("other machines can ask, in plain HTTP: whoever listens in sees everything, also tokens")


def url(address: Address, port: int) -> str:
    """By which a browser of this machine gets there."""
    if address.is_unspecified:
        address = ip_address("127.0.0.1" if address.version == 4 else "::1")
    return f"http://{_named(str(address))}:{port}/"


def address_of(listening: socket.socket) -> Address:
    return ip_address(listening.getsockname()[0].partition("%")[0])


def _named(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def listen(host: str, port: int) -> socket.socket:
    """Bound before anything is said: an address that is taken is one line."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sends what is small at once: else a frame may wait for 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)  # from here on whoever connects is served, if a little later
    except (OSError, UnicodeError) as error:
        listening.close()
        raise UsageError(f"cannot listen at {_named(host)}:{port}: {_reason(error)}") from None
    listening.setblocking(False)
    return listening


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError | socket.gaierror):
        return "this host is not known here"
    if error.errno == errno.EADDRINUSE:
        return "the port is taken, perhaps by another `ostler serve`; --port 0 takes any that is free"
    return str(error.strerror or error)
