"""Agents of other vendors, in their sessions: starting one again, ending it, and its terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp

from ostler.core.lazy import lazy_module
from ostler.schema.errors import UsageError
from ostler.server.agent_registry import NewAgent, agent_to_start
from ostler.server.api.events import STREAM, show_live
from ostler.server.api.sessions import folder_of
from ostler.server.operations import Operations, json_response
from ostler.server.problems import Conflict
from ostler.server.session_view import SessionRow, row_of
from ostler.server.state import ServerState
from ostler.server.streams import asks_for_stream, terminal_stream
from ostler.sessions.submit import has_ended

if TYPE_CHECKING:
    from ostler.drivers import screen_stream
    from ostler.drivers import session as driver_session
else:
    driver_session = lazy_module("ostler.drivers.session")
    screen_stream = lazy_module("ostler.drivers.screen_stream")

operations = Operations("agents")


class AgentAgain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    agent: NewAgent | None = None
    """As it was started last, if it is left out; a server that has not started it does not know how.
    It is driven as it was before, whatever its `transport` says."""


@operations.add("POST", "/sessions/{session}/agent", status=201)
async def restart_agent(server: ServerState, session: str, body: AgentAgain) -> SessionRow:
    """Start the agent of a session again, which has ended

    The session goes on with another life of its agent. What one in a terminal remembers is its own affair.
    One that speaks a protocol goes on with its conversation where it can; else a `warned` says so."""
    await _require_others(server, session)
    if server.driven.get(session) is not None:
        raise Conflict(f"the agent of session {session} is at work")
    if body.agent is not None:
        summary = await server.store.summary(session)
        as_before = "pty" if summary.driver == "terminal" else summary.driver
        wanted = msgspec.structs.replace(body.agent, transport=as_before)
        agent = agent_to_start(wanted, folder_of(summary.cwd, server.cwd))
    elif (before := server.driven.started_as(session)) is not None:
        agent = msgspec.structs.replace(before, initial_prompt="")  # it was told that before
    else:
        raise UsageError("this server does not know how the agent was started: say it as `agent`")
    await server.driven.restart(session, agent)
    return await row_of(server.store, server.driven, await server.store.summary(session))


@operations.add("DELETE", "/sessions/{session}/agent", status=204)
async def end_agent(server: ServerState, session: str) -> None:
    """End the agent of a session, and all that it has started

    What was said stays. An agent that another process drives is ended there."""
    await _require_others(server, session)
    if server.driven.get(session) is None:
        raise Conflict(await _why_not_here(server, session))
    await server.driven.end(session)


class CursorPlace(msgspec.Struct, frozen=True):
    """Counted from 0."""

    column: int
    row: int
    visible: bool


class TerminalScreen(msgspec.Struct, frozen=True):
    """What the terminal of an agent shows."""

    columns: int
    rows: int
    text: str
    """Its rows, without the empty ones at the end."""
    cursor: CursorPlace


@operations.add("GET", "/sessions/{session}/terminal", answers=TerminalScreen, also_as=(STREAM,))
async def show_terminal(server: ServerState, session: str, request: Request) -> ASGIApp:
    """The screen of a terminal agent, or its live bytes

    With `Accept: text/event-stream` a stream: `size` with the columns and rows; `bytes`, in base64, for a
    terminal of that size, which draw the screen as it is and then go on as they come; `size` again when that
    changes; `end` with the exit status when the agent has ended. It is there where this server drives the
    agent; the screen itself also where another process does."""
    await _require_others(server, session)
    agent = server.driven.get(session)
    if agent is not None and not isinstance(agent, driver_session.ScreenSession):
        raise Conflict(f"the agent of session {session} speaks {agent.transport}, and has no terminal")
    if not asks_for_stream(request.scope):
        shown = (await show_live(server, session)).values.get(screen_stream.SCREEN)
        if shown is None:
            raise Conflict("nothing is shown yet" if agent else await _why_not_here(server, session))
        return json_response(msgspec.convert(shown, TerminalScreen))
    if agent is None:
        raise Conflict(await _why_not_here(server, session))
    return terminal_stream(agent, server.terminal_streams)


async def _require_others(server: ServerState, session: str) -> None:
    if (await server.store.summary(session)).driver == "agent":
        raise Conflict(f"session {session} is not another vendor's agent's")


async def _why_not_here(server: ServerState, session: str) -> str:
    if await server.store.holder(session) is None:
        return has_ended(session)
    return (
        f"another process drives the agent of session {session}: its screen is the live value "
        "`terminal:screen`, its keys and its size are requests"
    )
