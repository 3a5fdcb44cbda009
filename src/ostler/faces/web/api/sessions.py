"""Sessions: create, list, search, show, delete."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server
from ostler.kernel.store import SessionSummary
from ostler.runs.session import delete_session
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.messages import PlainBlock

operations = Operations("sessions")


class ListQuery(msgspec.Struct, frozen=True):
    cwd: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50


class SessionList(msgspec.Struct, frozen=True):
    sessions: list[SessionSummary]


@operations.add("GET", "/sessions")
async def list_sessions(server: Server, query: ListQuery) -> SessionList:
    """The sessions, newest activity first"""
    return SessionList(await server.store.sessions(cwd=query.cwd, limit=query.limit))


class NewSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cwd: str = ""
    """The folder to work in; that of the server if it is left out."""
    prompt: tuple[PlainBlock, ...] = ()
    """What to do first, if anything."""


@operations.add("POST", "/sessions", status=201)
async def create_session(server: Server, body: NewSession) -> SessionSummary:
    """Begin a session"""
    cwd = Path(body.cwd) if body.cwd else server.cwd
    if not cwd.is_absolute() or not cwd.is_dir():
        raise UsageError(f"{body.cwd} is not a folder that is there; name one from the root on")
    session = await server.create(cwd, body.prompt)
    return await server.store.summary(session)


@operations.add("GET", "/sessions/{session}")
async def show_session(server: Server, session: str) -> SessionSummary:
    """A session"""
    return await server.store.summary(session)


@operations.add("DELETE", "/sessions/{session}", status=204)
async def remove_session(server: Server, session: str) -> None:
    """Delete a session and its children"""
    await delete_session(server.store, session)
