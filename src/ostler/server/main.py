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
from ostler.core.harness import Harness, JournalListener
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
"""Default settings of the server: a person can answer sooner or later."""


class HarnessFactory:
    """Builds the harness of each folder from the options of `ostler serve` and the folder's settings."""

    def __init__(self, options: ServeOptions, switch: Switch, on_agent: OnStart | None = None) -> None:
        """`on_agent` is called with each agent of another vendor that a run starts."""
        self._options = options
        self._switch = switch
        self._on_agent = on_agent
        self._said: set[str] = set()
        self._telling: set[asyncio.Future[None]] = set()

    def settings(self, cwd: Path) -> Settings:
        return settings_for(self._options, cwd, WHERE_PAGES_ASK)

    async def harness_for(self, cwd: Path) -> Harness:
        """The harness of a folder. Without a model, only calls of the model fail, with the reason."""
        settings, model = await asyncio.to_thread(self._answering, self.settings(cwd))
        rules, agents = context_rules(self._options), terminal_agents(settings, self._on_agent)
        harness = build_harness(settings, cwd, say=self._say, context=rules, model=model, agent_tool=agents)
        face = WebFrontEnd(harness, self._switch)

        def tell(text: str) -> None:
            face.notices.append(text)
            self._say(text)

        await load_extensions(self._options, settings, harness, lambda: face, say=tell, asks=False)
        if face.notices:
            self._tell_in_log(harness, tuple(face.notices))
        return harness

    async def look_around(self, cwd: Path) -> None:
        """Prints which model answers by default, or why none can."""
        _, model = await asyncio.to_thread(self._answering, self.settings(cwd))
        if isinstance(model, AbsentModel):
            self._say(model.why)
        await model.aclose()

    def _answering(self, settings: Settings) -> tuple[Settings, Model]:
        """Resolves the model. May probe servers and run a key command: not for the event loop."""
        try:
            settings = resolve_model(settings, say=self._say)
            return settings, ModelFactory(settings)(settings.model)
        except OstlerError as error:
            return settings, AbsentModel(error.message)

    def _say(self, text: str) -> None:
        """Prints a notice to standard error, each only once."""
        if text not in self._said:
            self._said.add(text)
            print_stderr(text)

    def _tell_in_log(self, harness: Harness, notices: tuple[str, ...]) -> None:
        """Records notices in the session, since its readers do not see the server's standard error."""

        def on_open(journal: Journal) -> None:
            if not journal.state.child_of:
                telling = asyncio.ensure_future(_record_news(journal, notices))
                self._telling.add(telling)
                telling.add_done_callback(self._telling.discard)

        harness.listeners = [*harness.listeners, JournalListener(on_open)]


async def _record_news(journal: Journal, notices: tuple[str, ...]) -> None:
    """Records the notices that the log does not have yet."""
    with suppress(StoreError):  # the session was given back meanwhile, or whoever drives it is told
        facts = await journal.store.read(journal.session)
        known = {fact.event.text for fact in facts if isinstance(fact.event, Warned)}
        for notice in notices:
            if notice not in known:
                journal.record(Warned(notice, about="extension"))
        await journal.commit()


Address = IPv4Address | IPv6Address
NO_TOKEN = "other machines can reach {}: create a token first with `ostler token new NAME`"


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
    """The state of the server, and the factory of its harnesses."""
    equipping = HarnessFactory(
        options, lambda *wanted: server.switch(*wanted), lambda agent: server.driven.add(agent)
    )
    server = ServerState(
        open_store(settings), equipping.harness_for, cwd, tokens, settings=equipping.settings
    )
    return server, equipping


def http_config(app: ASGIApp, options: ServeOptions) -> uvicorn.Config:
    """The configuration of uvicorn, for a process that only serves."""
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
    """The host names to accept. An address that stands for all interfaces is none."""
    own = [] if address.is_unspecified else [options.host]
    return [*own, *options.allow_host]


def _welcome(tokens: TokenStore, address: Address, port: int) -> None:
    if first := tokens.first():
        # What is printed elsewhere is kept there, and who knows who reads it.
        shown = first if sys.stderr.isatty() else "not shown, because this is not a terminal"
        print_stderr(f"created a first token ({shown}); `ostler token new NAME` creates another")
    print_addresses(address, port)
    link = f"{url(address, port)}#token={tokens.code()}"
    print_stderr(f"open {link} in a browser; the link works once, for ten minutes")


def print_addresses(address: Address, port: int) -> None:
    print_stderr(f"listening at http://{_named(str(address))}:{port}/")
    if not address.is_loopback:
        print_stderr(
            "other machines can connect over plain HTTP: anyone on the network can read everything, even "
            "tokens"
        )


def url(address: Address, port: int) -> str:
    """The URL for a browser on this machine."""
    if address.is_unspecified:
        address = ip_address("127.0.0.1" if address.version == 4 else "::1")
    return f"http://{_named(str(address))}:{port}/"


def address_of(listening: socket.socket) -> Address:
    return ip_address(listening.getsockname()[0].partition("%")[0])


def _named(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def listen(host: str, port: int) -> socket.socket:
    """Binds the socket first, so that an address in use is a one-line error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sends what is small at once: else a frame may wait for 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)  # clients can connect from here on, and are served a little later
    except (OSError, UnicodeError) as error:
        listening.close()
        raise UsageError(f"cannot listen at {_named(host)}:{port}: {_reason(error)}") from None
    listening.setblocking(False)
    return listening


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError | socket.gaierror):
        return "this host is unknown"
    if error.errno == errno.EADDRINUSE:
        return "the port is in use, perhaps by another `ostler serve`; --port 0 picks a free one"
    return str(error.strerror or error)
