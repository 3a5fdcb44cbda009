"""Starts the server: from the options of `ostler serve` to a listening socket, until a signal ends it."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from contextlib import closing, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from ostler.app.console import print_stderr
from ostler.app.default_model import resolve_model
from ostler.app.extension_setup import load_extensions
from ostler.app.harness import build_harness, context_rules, settings_for, terminal_agents
from ostler.app.session_choice import enable_gc
from ostler.app.settings import Settings, working_directory
from ostler.app.stores import open_store
from ostler.core.harness import Harness
from ostler.core.journal import Journal
from ostler.core.model import AbsentModel, Model
from ostler.models.factory import ModelFactory
from ostler.schema.errors import OstlerError, StoreError, UsageError
from ostler.schema.events import Warned
from ostler.server.api.extensions import Switch, WebFrontEnd
from ostler.server.app import create_app
from ostler.server.http_server import HttpServer
from ostler.server.middleware import raise_descriptor_limit
from ostler.server.state import ServerState
from ostler.server.tokens import TokenStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.drivers.child_agent import OnStart
    from ostler.server.command import ServeOptions


WHERE_PAGES_ASK = {"permissions": "ask", "on_question": "wait"}
"""What holds here, where nobody has set it: somebody can answer, sooner or later."""


class HarnessFactory:
    """Makes harnesses as the options of `ostler serve` and the settings of each folder say."""

    def __init__(self, options: ServeOptions, switch: Switch, on_agent: OnStart | None = None) -> None:
        """`on_agent` is told of each agent of another vendor that a run starts."""
        self._options = options
        self._switch = switch
        self._on_agent = on_agent
        self._said: set[str] = set()
        self._telling: set[asyncio.Future[None]] = set()

    def settings(self, cwd: Path) -> Settings:
        return settings_for(self._options, cwd, WHERE_PAGES_ASK)

    async def harness_for(self, cwd: Path) -> Harness:
        """Also where no model can answer: then whoever asks one is told why, and all else works."""
        settings, model = await asyncio.to_thread(self._answering, self.settings(cwd))
        rules, agents = context_rules(self._options), terminal_agents(settings, self._on_agent)
        harness = build_harness(settings, cwd, say=self._say, context=rules, model=model, agent_tool=agents)
        face = WebFrontEnd(harness, self._switch)

        def tell(text: str) -> None:
            face.notices.append(text)
            self._say(text)

        await load_extensions(self._options, settings, harness, lambda: face, tell=tell, asks=False)
        if face.notices:
            self._tell_in_log(harness, tuple(face.notices))
        return harness

    async def look_around(self, cwd: Path) -> None:
        """Says which model answers where none is named, or why none can."""
        _, model = await asyncio.to_thread(self._answering, self.settings(cwd))
        if isinstance(model, AbsentModel):
            self._say(model.why)
        await model.aclose()

    def _answering(self, settings: Settings) -> tuple[Settings, Model]:
        """Looks around, and may run a program for a key: not for the event loop."""
        try:
            settings = resolve_model(settings, say=self._say)
            return settings, ModelFactory(settings)(settings.model)
        except OstlerError as error:
            return settings, AbsentModel(error.message)

    def _say(self, text: str) -> None:
        """On standard error, once: each session is equipped anew."""
        if text not in self._said:
            self._said.add(text)
            print_stderr(text)

    def _tell_in_log(self, harness: Harness, notices: tuple[str, ...]) -> None:
        """Whoever looks at the session is not whoever reads the server's standard error."""
        own = harness.attend

        def attend(journal: Journal) -> None:
            if own is not None:
                own(journal)
            if not journal.state.child_of:
                telling = asyncio.ensure_future(_record_news(journal, notices))
                self._telling.add(telling)
                telling.add_done_callback(self._telling.discard)

        harness.attend = attend


async def _record_news(journal: Journal, notices: tuple[str, ...]) -> None:
    """What the log does not say yet: a session is opened many times."""
    with suppress(StoreError):  # the session was given back meanwhile, or whoever drives it is told
        facts = await journal.store.read(journal.session)
        known = {fact.event.text for fact in facts if isinstance(fact.event, Warned)}
        for notice in notices:
            if notice not in known:
                journal.record(Warned(notice, about="extension"))
        await journal.commit()


Address = IPv4Address | IPv6Address

NO_TOKEN = "at {} other machines can ask: make a token first, with `ostler token new NAME`"


def serve(options: ServeOptions, port: int) -> int:
    return asyncio.run(_serve(options, port))


async def _serve(options: ServeOptions, port: int) -> int:
    cwd = working_directory(options.cwd)
    settings = settings_for(options, cwd)
    tokens = TokenStore()
    with closing(listen(options.host, port)) as listening:
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
    options: ServeOptions, settings: Settings, cwd: Path, tokens: TokenStore
) -> tuple[ServerState, HarnessFactory]:
    """What all that is served works on."""
    equipping = HarnessFactory(
        options, lambda *wanted: server.switch(*wanted), lambda agent: server.driven.add(agent)
    )
    server = ServerState(
        open_store(settings), equipping.harness_for, cwd, tokens, settings=equipping.settings
    )
    return server, equipping


def http_config(app: ASGIApp, options: ServeOptions) -> uvicorn.Config:
    """For a process that serves from now on, and does nothing else."""
    raise_descriptor_limit()
    enable_gc()
    return uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=bool(options.behind_proxy),
        forwarded_allow_ips=options.behind_proxy,
        ws="none",
    )


def names(options: ServeOptions, address: Address) -> list[str]:
    """By which it may be asked for. That of an address which stands for all is no name."""
    own = [] if address.is_unspecified else [options.host]
    return [*own, *options.allow_host]


def _welcome(tokens: TokenStore, address: Address, port: int) -> None:
    if first := tokens.first():
        # What is printed elsewhere is kept there, and who knows who reads it.
        shown = first if sys.stderr.isatty() else "not shown, since this is no terminal"
        print_stderr(f"a first token was made ({shown}); `ostler token new NAME` makes another")
    print_addresses(address, port)
    link = f"{url(address, port)}#token={tokens.code()}"
    print_stderr(f"open {link} in a browser; the link works once, for ten minutes")


def print_addresses(address: Address, port: int) -> None:
    print_stderr(f"listening at http://{_named(str(address))}:{port}/")
    if not address.is_loopback:
        print_stderr("other machines can ask, in plain HTTP: whoever listens in sees everything, also tokens")


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
