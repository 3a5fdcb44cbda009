"""Routes for agents of other vendors: restart, stop, and the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp

from ostler.core.lazy import lazy_module
from ostler.schema.errors import UsageError
from ostler.server.agent_registry import NewAgent, agent_to_start
from ostler.server.api.events import STREAM, show_live
from ostler.server.api.sessions import folder_of, require_agent_start
from ostler.server.operations import Operations, json_response
from ostler.server.peers import refuse_agents
from ostler.server.problems import Conflict
from ostler.server.session_view import SessionRow, row_of
from ostler.server.state import ServerState
from ostler.server.streams import asks_for_stream, terminal_stream
from ostler.server.tokens import Principal
from ostler.sessions.submit import has_ended

if TYPE_CHECKING:
    from ostler.drivers import screen_stream
else:
    screen_stream = lazy_module("ostler.drivers.screen_stream")

operations = Operations("agents")


class AgentAgain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    agent: NewAgent | None = None
    """How to start the agent; by default as it was started last, if this server did that. The transport of
    the session stays, whatever `transport` says."""


@operations.add("POST", "/sessions/{session}/agent", status=201)
async def restart_agent(
    server: ServerState, session: str, body: AgentAgain, request: Request, principal: Principal
) -> SessionRow:
    """Restart the agent of a session after it has ended

    The session continues with a new process. Whether an agent in a terminal remembers the conversation is up
    to that agent. An agent with a protocol continues its conversation if it can; else a `warned` event says
    so."""
    if body.agent is not None:
        await refuse_agents(server.store, request)
        require_agent_start(server, principal)
    await _require_agent(server, session)
    if server.agents.get(session) is not None:
        raise Conflict(f"the agent of session {session} is running")
    if body.agent is not None:
        summary = await server.store.summary(session)
        as_before = "pty" if summary.driver == "terminal" else summary.driver
        new = msgspec.structs.replace(body.agent, transport=as_before)
        agent = agent_to_start(new, folder_of(summary.cwd, server.cwd))
    elif (before := server.agents.started_as.get(session)) is not None:
        agent = msgspec.structs.replace(before, initial_prompt="")  # it was sent before
    else:
        raise UsageError("this server does not know how the agent was started: pass `agent`")
    await server.agents.restart(session, agent)
    return await row_of(server.store, server.agents, await server.store.summary(session))


@operations.add("DELETE", "/sessions/{session}/agent", status=204)
async def end_agent(server: ServerState, session: str) -> None:
    """Stop the agent of a session, and all processes that it has started

    The conversation stays. An agent that another process drives is stopped there."""
    await _require_agent(server, session)
    if server.agents.get(session) is None:
        raise Conflict(await _why_not_here(server, session))
    await server.agents.end(session)


class CursorPlace(msgspec.Struct, frozen=True):
    """Counted from 0."""

    column: int
    row: int
    visible: bool


class TerminalScreen(msgspec.Struct, frozen=True):
    """The screen of an agent's terminal."""

    columns: int
    rows: int
    text: str
    """Its rows, without empty ones at the end."""
    cursor: CursorPlace


@operations.add("GET", "/sessions/{session}/terminal", answers=TerminalScreen, also_as=(STREAM,))
async def show_terminal(server: ServerState, session: str, request: Request) -> ASGIApp:
    """The screen of a terminal agent, or its live bytes

    With `Accept: text/event-stream`, a stream: `size` with columns and rows; `bytes`, in base64, for a
    terminal of that size, which first draw the current screen and then follow the agent; `size` again after a
    resize; `end` with the exit status when the agent has ended. It is there where this server drives the
    agent; the screen itself also where another process does."""
    await _require_agent(server, session)
    agent = server.agents.get(session)
    if agent is not None and agent.transport != "pty":
        raise Conflict(f"the agent of session {session} speaks {agent.transport}, and has no terminal")
    if not asks_for_stream(request.scope):
        screen = (await show_live(server, session)).values.get(screen_stream.SCREEN)
        if screen is None and agent:
            raise Conflict("the terminal has no screen yet")
        if screen is None:
            raise Conflict(await _why_not_here(server, session))
        return json_response(msgspec.convert(screen, TerminalScreen))
    if agent is None:
        raise Conflict(await _why_not_here(server, session))
    return terminal_stream(agent, server.terminal_streams)


async def _require_agent(server: ServerState, session: str) -> None:
    if (await server.store.summary(session)).driver == "agent":
        raise Conflict(f"session {session} has no agent of another vendor")


async def _why_not_here(server: ServerState, session: str) -> str:
    if await server.store.holder(session) is None:
        return has_ended(session)
    return (
        f"another process drives the agent of session {session}: its screen is the live value "
        "`terminal:screen`, its keys and its size are requests"
    )
