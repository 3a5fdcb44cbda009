"""The routes of agentapi for one agent."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as AsgiMessage

from ostler.drivers.driver import NOT_WAITING, STOPPED
from ostler.drivers.screen import ASCII_WHITESPACE
from ostler.drivers.session import AgentSession
from ostler.schema.errors import OstlerError, UsageError
from ostler.server.agentapi.access import ANY, AllowedHosts, Cors, parse_allowed_hosts, parse_allowed_origins
from ostler.server.agentapi.bodies import (
    UNEXPECTED,
    ErrorDetail,
    Message,
    MessageResponseBody,
    MessagesResponseBody,
    Refusal,
    StatusResponseBody,
    answer,
    plain,
    read_message,
    refusal_answer,
)
from ostler.server.agentapi.events import Emitter, EmitterFeed, Kind, event_stream, timestamp, wire_status
from ostler.server.agentapi.openapi import documents, schema_answer
from ostler.server.agentapi.uploads import take_upload
from ostler.server.pages import MOUNT, Chat
from ostler.server.peers import refuse_agents

_EVENTS: tuple[Kind, ...] = ("message_update", "status_change", "agent_error")
_SCREEN: tuple[Kind, ...] = ("screen_update",)
_NOT_SENT = "failed to send message: "
Handler = Callable[[Request], Awaitable[ASGIApp]]


class AgentWire:
    """The routes of one agent. None of them waits for another."""

    def __init__(self, agent: AgentSession, emitter: Emitter, feed: EmitterFeed, uploads: Path) -> None:
        self._agent = agent
        self._emitter = emitter
        self._feed = feed
        self._uploads = uploads

    def routes(self) -> dict[str, dict[str, Handler]]:
        return {
            "/status": {"GET": self.status},
            "/messages": {"GET": self.messages},
            "/message": {"POST": self.message},
            "/upload": {"POST": self.upload},
            "/events": {"GET": self.events},
            "/internal/screen": {"GET": self.screen},
            **{path: {"GET": handler} for path, handler in documents().items()},
        }

    async def status(self, request: Request) -> Response:
        agent = self._agent
        transport = "pty" if agent.transport == "pty" else "acp"  # agentapi has no others
        return _answer(request, StatusResponseBody(wire_status(agent.status), agent.agent_type, transport))

    async def messages(self, request: Request) -> Response:
        messages = [Message(one.id, one.text, one.role, timestamp(one.time)) for one in self._agent.messages]
        return _answer(request, MessagesResponseBody(messages))

    async def message(self, request: Request) -> Response:
        message = await read_message(request)
        try:
            if message.type == "raw":
                await refuse_agents(self._agent.journal.store, request)  # keys may answer a dialog
                self._agent.press(message.content.encode())
            else:
                await self._send(message.content.strip(ASCII_WHITESPACE))
        except OstlerError as error:
            raise Refusal(500, UNEXPECTED, [ErrorDetail(_why_not_sent(error))]) from None
        return _answer(request, MessageResponseBody())

    async def _send(self, text: str) -> None:
        """Waits until the agent has the message, or the server ends."""
        if not text:
            raise UsageError("message must not be empty")
        sending = asyncio.ensure_future(self._agent.send(text))
        closing = asyncio.ensure_future(self._emitter.closed.wait())
        try:
            await asyncio.wait((sending, closing), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise OstlerError(STOPPED)
            sending.result()
        finally:
            sending.cancel()
            closing.cancel()

    async def upload(self, request: Request) -> Response:
        return _answer(request, await take_upload(request, self._uploads))

    async def events(self, request: Request) -> ASGIApp:
        self._feed.changed()
        return event_stream(self._emitter.subscribe(_EVENTS))

    async def screen(self, request: Request) -> ASGIApp:
        self._feed.screen.now()
        return event_stream(self._emitter.subscribe(_SCREEN))


def _answer(request: Request, body: msgspec.Struct) -> Response:
    return answer(body, request.headers.get("host", ""))


def _why_not_sent(error: OstlerError) -> str:
    """agentapi repeats the prefix when the message was accepted and its delivery failed."""
    was_refused = isinstance(error, UsageError) or error.message.startswith(NOT_WAITING)
    return _NOT_SENT * (1 if was_refused else 2) + error.message


NATIVE = "/api/v1"


def create_agent_app(
    agent: AgentSession,
    native: ASGIApp,
    *,
    emitter: Emitter | None = None,
    allowed_hosts: Sequence[str],
    allowed_origins: Sequence[str],
    chat_base_path: str = MOUNT,
    uploads: Path,
    extra_routes: Sequence[Route] = (),
) -> ASGIApp:
    """Serves one agent next to `native`, the application with Ostler's own API below `/api/v1`.

    `native` has its own access control, and starts and ends the whole. `uploads` is a folder that is removed
    at the end. Raises `UsageError` for invalid hosts and origins.
    """
    hosts, origins = parse_allowed_hosts(allowed_hosts), parse_allowed_origins(allowed_origins)
    # With any host allowed there is a proxy, and a page of unknown origin may have it in a frame.
    framed_by = [ANY] if ANY in (*hosts, *origins) else origins
    emitter = emitter or Emitter(agent.agent_type)
    feed = EmitterFeed(agent, emitter)
    wire = AgentWire(agent, emitter, feed, uploads)
    router = Router(wire.routes(), Chat(chat_base_path, framed_by), extra_routes)
    guarded = AllowedHosts(Cors(router, origins), hosts)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await native(scope, lambda: _close_at_end(receive, feed, uploads), send)
        elif scope["type"] != "http" or f"{scope['path']}/".startswith(f"{NATIVE}/"):
            await native(scope, receive, send)
        else:
            await guarded(scope, receive, send)

    return app


async def _close_at_end(receive: Receive, feed: EmitterFeed, uploads: Path) -> AsgiMessage:
    """Cleans up before `native` gets the shutdown message: the server does not wait for anything later."""
    message = await receive()
    if message["type"] == "lifespan.shutdown":
        feed.close()
        await asyncio.to_thread(shutil.rmtree, uploads, ignore_errors=True)
    return message


class Router:
    """Matches paths and methods exactly, as agentapi does: no redirects, no HEAD for GET."""

    def __init__(self, routes: dict[str, dict[str, Handler]], chat: Chat, extra: Sequence[Route]) -> None:
        self._routes = routes
        self._chat = chat
        self._extra = extra

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            app = await self._answer(request)
        except Refusal as refusal:
            app = refusal_answer(refusal, request.headers.get("host", ""))
        except ClientDisconnect:
            return
        await app(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        path: str = request.scope["path"]
        for route in self._extra:
            matched, child = route.matches(request.scope)
            if matched is not Match.NONE:
                request.scope.update(child)
                return route.handle
        if path == "/":
            return self._chat.redirect(request)
        if path == MOUNT or path.startswith(f"{MOUNT}/"):
            return self._chat
        if re.fullmatch("/schemas/[^/]+", path):
            handlers: dict[str, Handler] = {"GET": schema_answer}
        elif path in self._routes:
            handlers = self._routes[path]
        else:
            return plain("404 page not found", 404)
        if request.method not in handlers:
            return Response(status_code=405, headers={"allow": ", ".join(handlers)})
        return await handlers[request.method](request)
