"""`ostler serve … -- AGENT`: a server and an agent that start and end together."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, SIGUSR1, getsignal
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from ostler.app.console import piped_in, print_stderr
from ostler.app.harness import settings_for
from ostler.core.lazy import lazy_module
from ostler.drivers.driver import SavedState
from ostler.drivers.lifecycle import start_agent_session
from ostler.drivers.session import AgentSession
from ostler.schema.errors import UsageError
from ostler.server.agentapi.access import parse_allowed_hosts, parse_allowed_origins
from ostler.server.agentapi.app import create_agent_app
from ostler.server.agentapi.events import Emitter
from ostler.server.agentapi.options import STANDARD_INPUT, AgentPlan
from ostler.server.agentapi.state_file import StateFile, UnreadableState, pid_file, read_state
from ostler.server.app import PREFIX, create_app
from ostler.server.auth import TokenMiddleware
from ostler.server.http_server import HttpServer
from ostler.server.main import (
    NO_TOKEN,
    Address,
    address_of,
    http_config,
    listen,
    make_server,
    names,
    print_addresses,
    print_link,
    url,
)
from ostler.server.pages import MOUNT
from ostler.server.state import ServerState
from ostler.server.streams import terminal_stream
from ostler.server.tokens import TokenStore

if TYPE_CHECKING:
    from ostler.server.agentapi import openapi
    from ostler.server.command import ServeOptions
else:
    openapi = lazy_module("ostler.server.agentapi.openapi")


class Signals:
    """Handles signals from before the agent is started. Until there is a server to end, the start is
    cancelled."""

    def __init__(self) -> None:
        starting = asyncio.current_task()
        assert starting is not None
        self.end: Callable[[], object] = starting.cancel
        self.save: Callable[[], object] = lambda: None

    @contextmanager
    def handled(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        ending = [SIGINT, SIGTERM]
        if getsignal(SIGHUP) is not SIG_IGN:  # else it was started with `nohup`
            ending.append(SIGHUP)
        for signal in ending:
            loop.add_signal_handler(signal, lambda: self.end())
        loop.add_signal_handler(SIGUSR1, lambda: self.save())
        try:
            yield
        finally:
            for signal in (*ending, SIGUSR1):
                loop.remove_signal_handler(signal)


class AgentServer(HttpServer):
    """Ends with its agent, and its agent with it."""

    def __init__(
        self,
        config: uvicorn.Config,
        server: ServerState,
        agent: AgentSession,
        emitter: Emitter,
        state: StateFile | None,
    ) -> None:
        super().__init__(config, server)
        self._agent = agent
        self._emitter = emitter
        self._state = state
        self._was_asked_to_end = False
        self._ending: asyncio.Future[None] | None = None
        agent.ended.add_done_callback(lambda ended: self._end_with_agent())

    def save(self) -> None:
        if self._state is not None:
            self._state.save()

    def end(self) -> None:
        """Ends the agent at the same time as the streams, so that no client waits for its answer. The second
        time, the agent is killed."""
        super().end()
        self._emitter.close_streams()
        if self._ending is not None:
            self._ending.cancel()
            return
        self._was_asked_to_end = not self._agent.ended.done()
        if self._state is not None:
            self._state.close()
        self._ending = asyncio.ensure_future(self._agent.close())

    def _end_with_agent(self) -> None:
        if not self.should_exit:
            self.end()

    async def outcome(self) -> int:
        """The exit code, when nothing of the agent is left."""
        if self._ending is None:  # serving has failed
            self.end()
        assert self._ending is not None
        await asyncio.wait([self._ending])
        await asyncio.wait([self._agent.ended])
        if self._was_asked_to_end or self._agent.ended.result() == 0:
            return 0
        screen = f"========\n{self._agent.last_screen}\n========\n"
        print(f"agent exited with error: {screen}: non-zero exit code", file=sys.stderr)
        return 1

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # `Signals` does


def serve_agent(plan: AgentPlan, options: ServeOptions) -> int:
    parse_allowed_hosts(plan.allowed_hosts)
    parse_allowed_origins(plan.allowed_origins)
    if plan.print_openapi:
        return _print_openapi()
    if plan.exit:
        return 0
    try:
        return asyncio.run(_serve(_with_piped_prompt(plan), options))
    except asyncio.CancelledError:  # a signal came during the start
        return 0


def _print_openapi() -> int:
    """As agentapi prints it: OpenAPI 3.0, sorted."""
    print(json.dumps(_in_order(openapi.downgraded(openapi.document())), indent=2, ensure_ascii=False))
    return 0


def _in_order(value: Any) -> Any:
    match value:
        case dict():
            return {name: _in_order(value[name]) for name in sorted(value)}
        case list():
            return sorted((_in_order(one) for one in value), key=json.dumps)
    return value


def _with_piped_prompt(plan: AgentPlan) -> AgentPlan:
    if plan.initial_prompt and plan.initial_prompt != STANDARD_INPUT:
        return plan
    piped = piped_in(waits=plan.initial_prompt == STANDARD_INPUT)
    return msgspec.structs.replace(plan, initial_prompt=piped)


async def _serve(plan: AgentPlan, options: ServeOptions) -> int:
    settings = settings_for(options, plan.cwd)
    tokens = TokenStore()
    signals = Signals()
    with ExitStack() as stack:
        if plan.pid_file is not None:
            stack.enter_context(pid_file(plan.pid_file, print_stderr))
        listening = stack.enter_context(closing(listen(options.host, plan.port)))
        address = address_of(listening)
        needs_token = not address.is_loopback and not plan.allow_unauthenticated
        if needs_token and not tokens.all():
            raise UsageError(f"{NO_TOKEN.format(address)}, or use --allow-unauthenticated")
        stored = _StoredState.of(plan)
        server, _ = make_server(options, settings, plan.cwd, tokens)
        native = create_app(
            server,
            hosts=[*names(options, address), *_plain(parse_allowed_hosts(plan.allowed_hosts))],
            origins=[one for one in _plain(parse_allowed_origins(plan.allowed_origins)) if one[:4] == "http"],
        )
        uploads = stack.enter_context(TemporaryDirectory(prefix="agentapi-uploads-"))
        stack.enter_context(signals.handled())

        saved, on_open = stored.saved, server.agents.on_open
        agent = await start_agent_session(server.store, plan, saved=saved, on_open=on_open)
        server.agents.add(agent)
        emitter = Emitter(agent.agent_type)
        if stored.problem:
            emitter.warn(f"Failed to restore previous session: {stored.problem}")
        state = stored.file_of(agent)
        app = create_agent_app(
            agent,
            native,
            emitter=emitter,
            allowed_hosts=_allowed_hosts(plan, options.host, address),
            allowed_origins=plan.allowed_origins,
            chat_base_path=plan.chat_base_path,
            uploads=Path(uploads),
            extra_routes=_routes(agent, server),
        )
        if needs_token:
            app = TokenMiddleware(app, server.auth, PREFIX, MOUNT)
        http = AgentServer(http_config(app, options), server, agent, emitter, state)
        signals.end, signals.save = http.end, http.save
        _welcome(plan, agent, address, listening.getsockname()[1], tokens if needs_token else None)
        await http.serve(sockets=[listening])
        return await http.outcome()


def _allowed_hosts(plan: AgentPlan, host: str, address: Address) -> list[str]:
    """Includes the address that it listens on, unless that stands for all."""
    if address.is_loopback or address.is_unspecified:
        return [*plan.allowed_hosts]
    return [*plan.allowed_hosts, *(f"[{one}]" if ":" in one else one for one in {host, str(address)})]


def _plain(names: list[str]) -> list[str]:
    """Names without a wildcard: Ostler's own API accepts none, because it has tokens to protect."""
    return [one for one in names if "*" not in one]


def _routes(agent: AgentSession, server: ServerState) -> list[Route]:
    if agent.transport != "pty":
        return []

    async def live(request: Request) -> ASGIApp:
        return terminal_stream(agent, server.terminal_streams)

    return [Route("/internal/terminal", live)]


def _welcome(
    plan: AgentPlan, agent: AgentSession, address: Address, port: int, tokens: TokenStore | None
) -> None:
    """`tokens` are those that are required, if any."""
    print_stderr(f"{plan.command[0]} is driven as {plan.type}, in session {agent.id}")
    print_addresses(address, port)
    if tokens is not None:
        print_link(tokens, url(address, port))
        return
    if not address.is_loopback:
        print_stderr("anyone who can reach this address can type into the agent: no token is required")
    print_stderr(f"open {url(address, port)} in a browser")


class _StoredState(msgspec.Struct, frozen=True):
    """The content of the state file."""

    plan: AgentPlan
    saved: SavedState | None = None
    problem: str = ""
    """Why it could not be read."""

    @classmethod
    def of(cls, plan: AgentPlan) -> _StoredState:
        path = plan.state_file
        if path is None:
            return cls(plan)
        if path.is_dir():
            raise UsageError(f"the state file {path} is a directory: name a file in it")
        if plan.save_state:
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                reason = f"the state file cannot be stored in {path.parent}: {error.strerror}"
                raise UsageError(reason) from None
        if not plan.load_state:
            return cls(plan)
        try:
            return cls(plan, read_state(path))
        except UnreadableState as error:
            print_stderr(f"the state file {path} cannot be used: {error.message}")
            return cls(plan, problem=error.message)

    def file_of(self, agent: AgentSession) -> StateFile | None:
        path = self.plan.state_file
        if path is None or not self.plan.save_state:
            return None
        return StateFile(path, agent, saved=self.saved, is_unreadable=bool(self.problem), warn=print_stderr)
