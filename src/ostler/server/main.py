"""Starts the server: from the options of `ostler serve` to a listening socket, until a signal ends it."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from contextlib import closing, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import msgspec
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
from ostler.permissions.rules import PROFILES, Profile
from ostler.schema.errors import OstlerError, StoreError, UsageError
from ostler.schema.events import Warned
from ostler.server.api.extensions import Switch, WebFrontEnd
from ostler.server.app import create_app
from ostler.server.http_server import HttpServer
from ostler.server.middleware import raise_descriptor_limit
from ostler.server.profiles import ceiling_of, rank
from ostler.server.state import ServerState
from ostler.server.tokens import TokenStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.drivers.child_agent import OnStart
    from ostler.server.command import ServeOptions

SERVER_DEFAULTS = {"permissions": "ask", "on_question": "wait"}
"""Settings that differ from the command line's, because questions can be answered on the page."""


class HarnessFactory:
    """Builds the harness of each folder from the options of `ostler serve` and the folder's settings."""

    def __init__(
        self,
        options: ServeOptions,
        switch: Switch,
        on_agent: OnStart | None = None,
        *,
        ceiling: Profile = PROFILES[-1],
    ) -> None:
        """`ceiling` is the highest permission profile of a folder. `on_agent` is called with each agent of
        another vendor that a run starts."""
        self._options = options
        self._switch = switch
        self._on_agent = on_agent
        self._ceiling = ceiling
        self._printed: set[str] = set()
        self._recording: set[asyncio.Future[None]] = set()

    def settings(self, cwd: Path) -> Settings:
        """The settings of a folder. Callers choose the folder, so its profile is not above the ceiling."""
        settings = settings_for(self._options, cwd, SERVER_DEFAULTS)
        profile = min(settings.permissions, self._ceiling, key=rank)
        return msgspec.structs.replace(settings, permissions=profile)

    async def harness_for(self, cwd: Path) -> Harness:
        """The harness of a folder. Without a model, only calls of the model fail, with the reason."""
        settings, model = await asyncio.to_thread(self._resolve_model, self.settings(cwd))
        rules, agents = context_rules(self._options), terminal_agents(settings, self._on_agent)
        harness = build_harness(settings, cwd, say=self._print, context=rules, model=model, agent_tool=agents)
        front_end = WebFrontEnd(harness, self._switch)

        def notify(text: str) -> None:
            front_end.notices.append(text)
            self._print(text)

        await load_extensions(self._options, settings, harness, lambda: front_end, say=notify, asks=False)
        if front_end.notices:
            self._record_notices(harness, tuple(front_end.notices))
        return harness

    async def print_default_model(self, cwd: Path) -> None:
        """Prints which model answers by default, or why none can."""
        _, model = await asyncio.to_thread(self._resolve_model, self.settings(cwd))
        if isinstance(model, AbsentModel):
            self._print(model.why)
        await model.aclose()

    def _resolve_model(self, settings: Settings) -> tuple[Settings, Model]:
        """May probe servers and run a key command: not for the event loop."""
        try:
            settings = resolve_model(settings, say=self._print)
            return settings, ModelFactory(settings)(settings.model)
        except OstlerError as error:
            return settings, AbsentModel(error.message)

    def _print(self, text: str) -> None:
        """Prints a notice to standard error, each only once."""
        if text not in self._printed:
            self._printed.add(text)
            print_stderr(text)

    def _record_notices(self, harness: Harness, notices: tuple[str, ...]) -> None:
        """Records notices in each session, since its readers do not see the server's standard error."""

        def on_open(journal: Journal) -> None:
            if not journal.state.child_of:
                recording = asyncio.ensure_future(_record_new(journal, notices))
                self._recording.add(recording)
                recording.add_done_callback(self._recording.discard)

        harness.listeners = [*harness.listeners, JournalListener(on_open)]


async def _record_new(journal: Journal, notices: tuple[str, ...]) -> None:
    """Records the notices that the log does not have yet."""
    with suppress(StoreError):  # the session was released meanwhile, or its run reports the error
        facts = await journal.store.read(journal.session)
        recorded = {fact.event.text for fact in facts if isinstance(fact.event, Warned)}
        for notice in notices:
            if notice not in recorded:
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
        server, harnesses = make_server(options, settings, cwd, tokens)
        app = create_app(server, hosts=names(options, address), origins=options.allow_origin)
        http = HttpServer(http_config(app, options), server)
        _welcome(tokens, address, listening.getsockname()[1])
        await harnesses.print_default_model(cwd)
        await http.serve(sockets=[listening])
    return 0


def make_server(
    options: ServeOptions, settings: Settings, cwd: Path, tokens: TokenStore
) -> tuple[ServerState, HarnessFactory]:
    """The state of the server, and the factory of its harnesses."""
    ceiling = ceiling_of(options.max_permissions, settings.permissions)
    harnesses = HarnessFactory(
        options,
        lambda *target: server.switch(*target),
        lambda agent: server.agents.add(agent),
        ceiling=ceiling,
    )
    server = ServerState(
        open_store(settings),
        harnesses.harness_for,
        cwd,
        tokens,
        settings=harnesses.settings,
        max_permissions=ceiling,
    )
    return server, harnesses


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
    """The host names to accept. An address for all interfaces is not one."""
    own = [] if address.is_unspecified else [options.host]
    return [*own, *options.allow_host]


def _welcome(tokens: TokenStore, address: Address, port: int) -> None:
    if first := tokens.first():
        # Not into a log file, which others may read.
        text = first if sys.stderr.isatty() else "not shown, because this is not a terminal"
        print_stderr(f"created a first token ({text}); `ostler token new NAME` creates another")
    print_addresses(address, port)
    print_link(tokens, url(address, port))


def print_link(tokens: TokenStore, address: str) -> None:
    """Prints a login link to a terminal. Not into a log, which others may read."""
    if sys.stderr.isatty():
        link = f"{address}#token={tokens.link_code()}"
        print_stderr(f"open {link} in a browser; the link works once, for ten minutes")
    else:
        print_stderr(f"open {address} in a browser; `ostler token link {address}` prints a login link")


def print_addresses(address: Address, port: int) -> None:
    print_stderr(f"listening at http://{_in_brackets(str(address))}:{port}/")
    if not address.is_loopback:
        print_stderr(
            "other machines can connect over plain HTTP: anyone on the network can read everything, even "
            "tokens"
        )


def url(address: Address, port: int) -> str:
    """The URL for a browser on this machine."""
    if address.is_unspecified:
        address = ip_address("127.0.0.1" if address.version == 4 else "::1")
    return f"http://{_in_brackets(str(address))}:{port}/"


def address_of(listening: socket.socket) -> Address:
    return ip_address(listening.getsockname()[0].partition("%")[0])


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def listen(host: str, port: int) -> socket.socket:
    """Binds the socket first, so that an address in use is a one-line error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, asyncio sets TCP_NODELAY: else a frame may wait for 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)  # clients can connect from here on, and are served a little later
    except (OSError, UnicodeError) as error:
        listening.close()
        raise UsageError(f"cannot listen at {_in_brackets(host)}:{port}: {_reason(error)}") from None
    listening.setblocking(False)
    return listening


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError | socket.gaierror):
        return "this host is unknown"
    if error.errno == errno.EADDRINUSE:
        return "the port is in use, perhaps by another `ostler serve`; --port 0 picks a free one"
    return str(error.strerror or error)
