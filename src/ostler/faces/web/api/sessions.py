"""Sessions: create, list, search, show, delete."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from ostler.faces.cli.session_listing import as_it_is
from ostler.faces.web.agent_view import SessionRow, row_of
from ostler.faces.web.new_agent import NewAgent, agent_to_start
from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server
from ostler.faces.web.session_view import SessionView, view_session
from ostler.faces.web.submitting import settled, submit
from ostler.runs.absent_model import harness_without_model
from ostler.runs.session import create_session, delete_session
from ostler.vocabulary import events
from ostler.vocabulary.errors import NotFound, OstlerError, SessionBusy, UsageError
from ostler.vocabulary.ids import NewId
from ostler.vocabulary.messages import PlainBlock
from ostler.vocabulary.requests import Prompt, Rename, SetModel

operations = Operations("sessions")


class ListQuery(msgspec.Struct, frozen=True):
    cwd: str | None = None
    """Only those that work in this folder."""
    q: str = ""
    """Only those whose title or first prompt has this text in it."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    before: Annotated[str, msgspec.Meta(pattern=r"^(\d{1,15}\.\w+)?$")] = ""
    """Those behind this cursor: the `next` of the page before."""
    children: bool = False
    """Also the sessions of children."""


class SessionList(msgspec.Struct, frozen=True):
    sessions: list[SessionRow]
    next: str
    """The cursor of the next page; empty at the end."""


@operations.add("GET", "/sessions")
async def list_sessions(server: Server, query: ListQuery) -> SessionList:
    """The sessions, newest activity first"""
    wanted = query.q.casefold()
    found = [
        one
        for one in await server.store.sessions(cwd=query.cwd)
        if (query.children or not one.child_of)
        and (not wanted or wanted in one.title.casefold() or wanted in one.preview.casefold())
    ]
    if query.before:
        last = _position(query.before)
        found = [one for one in found if (one.updated_ms, one.id) < last]
    page = found[: query.limit]
    more = f"{page[-1].updated_ms}.{page[-1].id}" if len(found) > len(page) else ""
    rows = [await row_of(server.store, server.driven, await as_it_is(server.store, one)) for one in page]
    return SessionList(rows, more)


def _position(cursor: str) -> tuple[int, str]:
    updated, _, session = cursor.partition(".")
    return int(updated), session


class SearchQuery(msgspec.Struct, frozen=True):
    q: str
    """Words that a message must have in it, all of them."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


class FoundMessage(msgspec.Struct, frozen=True):
    session: str
    seq: int
    """The number of the message."""
    snippet: str
    time_ms: int
    title: str
    """The session's, or the beginning of its first prompt."""


class Found(msgspec.Struct, frozen=True):
    hits: list[FoundMessage]


@operations.add("GET", "/sessions/search")
async def search_sessions(server: Server, query: SearchQuery) -> Found:
    """Messages with certain words, best first"""
    hits = []
    for hit in await server.store.search(query.q, limit=query.limit):
        about = await server.store.summary(hit.session)
        title = about.title or about.preview
        hits.append(FoundMessage(hit.session, hit.seq, hit.snippet, hit.time_ms, title))
    return Found(hits)


class NewSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cwd: str = ""
    """The folder to work in; that of the server if it is left out."""
    title: str = ""
    model: str = ""
    """Whom to ask; whom the settings name if it is left out."""
    reasoning: str = ""
    prompt: tuple[PlainBlock, ...] = ()
    """What to do first, if anything."""
    agent: NewAgent | None = None
    """Another vendor's agent, whose session it shall be."""


@operations.add("POST", "/sessions", status=201)
async def begin_session(server: Server, body: NewSession, ids: NewId) -> SessionRow:
    """Begin a session

    With a `prompt` it is at work at once. Without a model that could answer nothing is begun. With an `agent`
    that is started, and the session is its own: where it cannot be started there is none."""
    session, cwd, title = ids("ses"), folder_of(body.cwd, server.cwd), " ".join(body.title.split())
    if body.agent is not None and (body.model or body.reasoning):
        raise UsageError("another vendor's agent brings its own model: leave out `model` and `reasoning`")
    try:
        await server.store.summary(session)
    except NotFound:
        if body.agent is None:
            await _create(server, session, cwd, title)
        else:
            await server.driven.start(agent_to_start(body.agent, cwd), session=session)
    try:
        if title and body.agent is not None:
            await settled(server, session, Rename(id=ids("ren"), by="api", title=title))
        if body.model:
            chosen = SetModel(id=ids("mod"), by="api", model=body.model, reasoning=body.reasoning)
            await settled(server, session, chosen)
        if body.prompt:
            await submit(server, session, Prompt(id=ids("req"), by="api", content=body.prompt))
    except OstlerError:
        await server.supervisor.let_go(session)
        if server.driven.get(session) is not None:
            await server.driven.end(session)
        await delete_session(server.store, session)
        raise
    return await row_of(server.store, server.driven, await server.store.summary(session))


async def _create(server: Server, session: str, cwd: Path, title: str) -> None:
    made = await create_session(server.store, harness_without_model(str(cwd)), session=session)
    if title:
        made.journal.record(events.SessionRenamed(title))
        await made.journal.commit()
    await made.close()


def folder_of(named: str, otherwise: Path) -> Path:
    """A folder to work in. Raises `UsageError` for one that is not there."""
    folder = Path(named) if named else otherwise
    try:
        is_there = folder.is_absolute() and folder.is_dir()
    except (OSError, ValueError):  # a name that no folder can have
        is_there = False
    if not is_there:
        raise UsageError(f"{named[:200]!r} is not a folder that is there; name one from the root on")
    return folder


@operations.add("GET", "/sessions/{session}")
async def show_session(server: Server, session: str) -> SessionView:
    """A session and its state: the open run, what waits, what is asked, what it cost"""
    return await view_session(server.store, session, server.supervisor.driven(session), server.driven)


@operations.add("DELETE", "/sessions/{session}", status=204)
async def remove_session(server: Server, session: str) -> None:
    """Delete a session and its children

    Not while a run is under way in it, or another process has it open. Its streams end."""
    from ostler.faces.cli.session_care import require_no_parent_at_work

    if server.driven.get(session) is not None:
        raise SessionBusy(f"the agent of session {session} is at work: end it first")
    await require_no_parent_at_work(server.store, session)
    await server.supervisor.let_go(session)
    await delete_session(server.store, session)
    server.driven.forget(session)
    server.everything.tell(session, events.SessionListed("deleted"))
