"""What can be asked about the agent, and of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from ostler.faces.web.agentapi.answers import (
    UNEXPECTED,
    ErrorDetail,
    Message,
    MessageResponseBody,
    MessagesResponseBody,
    Refusal,
    StatusResponseBody,
    answer,
)
from ostler.faces.web.agentapi.documents import documents
from ostler.faces.web.agentapi.emitter import Emitter, Kind
from ostler.faces.web.agentapi.following import Following
from ostler.faces.web.agentapi.frames import wire_status
from ostler.faces.web.agentapi.json_body import read_message
from ostler.faces.web.agentapi.streams import SubscriptionStream
from ostler.faces.web.agentapi.uploads import take_upload
from ostler.faces.web.agentapi.wire_json import timestamp
from ostler.terminals.driven import DrivenAgent
from ostler.terminals.lines import ASCII_WHITESPACE
from ostler.terminals.tracker import NOT_WAITING, STOPPED
from ostler.vocabulary.errors import OstlerError, UsageError

_EVENTS: tuple[Kind, ...] = ("message_update", "status_change", "agent_error")
_SCREEN: tuple[Kind, ...] = ("screen_update",)
_NOT_SENT = "failed to send message: "

Handler = Callable[[Request], Awaitable[ASGIApp]]


class AgentWire:
    """The routes of one agent. None of them waits for another."""

    def __init__(self, agent: DrivenAgent, emitter: Emitter, following: Following, uploads: Path) -> None:
        self._agent = agent
        self._emitter = emitter
        self._following = following
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
        transport = "pty" if self._agent.transport == "pty" else "acp"  # clients know no other
        return _answer(
            request, StatusResponseBody(wire_status(self._agent.status), self._agent.agent_type, transport)
        )

    async def messages(self, request: Request) -> Response:
        shown = [Message(one.id, one.text, one.role, timestamp(one.time)) for one in self._agent.messages]
        return _answer(request, MessagesResponseBody(shown))

    async def message(self, request: Request) -> Response:
        said = await read_message(request)
        try:
            if said.type == "raw":
                self._agent.press(said.content.encode())
            else:
                await self._say(said.content.strip(ASCII_WHITESPACE))
        except OstlerError as error:
            raise Refusal(500, UNEXPECTED, [ErrorDetail(_why_not_sent(error))]) from None
        return _answer(request, MessageResponseBody())

    async def _say(self, text: str) -> None:
        """Until the agent has taken it, or the server ends."""
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
        self._following.changed()
        return SubscriptionStream(self._emitter, self._emitter.subscribe(_EVENTS))

    async def screen(self, request: Request) -> ASGIApp:
        self._following.show_screen()
        return SubscriptionStream(self._emitter, self._emitter.subscribe(_SCREEN))


def _answer(request: Request, body: msgspec.Struct) -> Response:
    return answer(body, request.headers.get("host", ""))


def _why_not_sent(error: OstlerError) -> str:
    """What was refused is told from what failed on its way: clients know both texts."""
    if isinstance(error, UsageError) or error.message == NOT_WAITING:
        return _NOT_SENT + error.message
    return _NOT_SENT + _NOT_SENT + error.message
