"""The application: which of its parts answers what."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as AsgiMessage

from ostler.faces.web.agentapi.agent_wire import AgentWire, Handler
from ostler.faces.web.agentapi.answers import Refusal, plain, refusal_answer
from ostler.faces.web.agentapi.chat import MOUNT, Chat
from ostler.faces.web.agentapi.cors import Cors
from ostler.faces.web.agentapi.documents import schema_answer
from ostler.faces.web.agentapi.emitter import Emitter
from ostler.faces.web.agentapi.following import Following
from ostler.faces.web.agentapi.hosts import ANY, AllowedHosts, parse_allowed_hosts, parse_allowed_origins
from ostler.terminals.driven import DrivenAgent

NATIVE = "/api/v1"


def create_agent_app(
    agent: DrivenAgent,
    native: ASGIApp,
    *,
    emitter: Emitter | None = None,
    allowed_hosts: Sequence[str],
    allowed_origins: Sequence[str],
    chat_base_path: str = MOUNT,
    uploads: Path,
    extra_routes: Sequence[Route] = (),
) -> ASGIApp:
    """Serves one agent, beside the application that has the API of Ostler's own.

    `native` has its own guard and answers below `/api/v1`; its life is that of the whole. `uploads` is a
    folder that is removed when that ends. Raises `UsageError` about hosts and origins.
    """
    hosts, origins = parse_allowed_hosts(allowed_hosts), parse_allowed_origins(allowed_origins)
    # What serves under any name is behind a proxy, in a frame of a page whose origin nobody knows here.
    framed_by = [ANY] if ANY in (*hosts, *origins) else origins
    told = emitter or Emitter(agent.agent_type)
    following = Following(agent, told)
    wire = AgentWire(agent, told, following, uploads)
    router = Router(wire.routes(), Chat(chat_base_path, framed_by), extra_routes)
    guarded = AllowedHosts(Cors(router, origins), hosts)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await native(scope, lambda: _leave_at_end(receive, following, uploads), send)
        elif scope["type"] != "http" or f"{scope['path']}/".startswith(f"{NATIVE}/"):
            await native(scope, receive, send)
        else:
            await guarded(scope, receive, send)

    return app


async def _leave_at_end(receive: Receive, following: Following, uploads: Path) -> AsgiMessage:
    """Before anybody else is told: whoever serves this does not wait for what is done later."""
    message = await receive()
    if message["type"] == "lifespan.shutdown":
        following.close()
        await asyncio.to_thread(shutil.rmtree, uploads, ignore_errors=True)
    return message


class Router:
    """Paths are taken as they are, and methods, too: nothing stands for anything else."""

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
