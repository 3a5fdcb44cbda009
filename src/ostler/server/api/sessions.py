"""Routes for sessions: create, list, search, show, delete, tree, fork, export, import."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ostler.core.harness import harness_without_model
from ostler.core.state import leaf_of
from ostler.core.store import SessionSummary
from ostler.history.export import EXTENSIONS, export_text, file_name
from ostler.history.tree import Node, SessionTree
from ostler.permissions.rules import Profile
from ostler.schema import events
from ostler.schema.errors import NotFound, OstlerError, SessionBusy, UsageError
from ostler.schema.events import Audited, SessionListed
from ostler.schema.ids import NewId
from ostler.schema.messages import PlainBlock
from ostler.schema.requests import AnyRequest, Fork, Label, Navigate, Prompt, Rename, SetModel
from ostler.server.agent_registry import NewAgent, agent_to_start
from ostler.server.api.requests import RequestState, state_of_request
from ostler.server.operations import Operations, json_response
from ostler.server.peers import refuse_agents
from ostler.server.scopes import require_scope
from ostler.server.session_view import SessionRow, SessionView, row_of, view_session
from ostler.server.state import ServerState
from ostler.server.submit import require_settlement, submit, wait_for_settlement
from ostler.server.tokens import Principal
from ostler.sessions.run_tree import current_status, load_state, require_no_parent_at_work
from ostler.sessions.session import create_session, delete_session
from ostler.store.portable import add_export, read_export

operations = Operations("sessions")


class ListQuery(msgspec.Struct, frozen=True):
    cwd: str | None = None
    """Only sessions of this folder."""
    q: str = ""
    """Only sessions whose title or first prompt contains this text."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50
    before: Annotated[str, msgspec.Meta(pattern=r"^(\d{1,15}\.\w+)?$")] = ""
    """The `next` cursor of the previous page."""
    children: bool = False
    """Include the sessions of children."""


class SessionList(msgspec.Struct, frozen=True):
    sessions: list[SessionRow]
    next: str
    """The cursor of the next page; empty at the end."""


@operations.add("GET", "/sessions")
async def list_sessions(server: ServerState, query: ListQuery) -> SessionList:
    """The sessions, most recently used first"""
    text = query.q.casefold()
    matches = [
        one
        for one in await server.store.sessions(cwd=query.cwd)
        if (query.children or not one.child_of) and text in f"{one.title}\0{one.preview}".casefold()
    ]
    if query.before:
        updated, _, session = query.before.partition(".")
        matches = [one for one in matches if (one.updated_ms, one.id) < (int(updated), session)]
    page = matches[: query.limit]
    more = f"{page[-1].updated_ms}.{page[-1].id}" if len(matches) > len(page) else ""
    summaries = [await current_status(server.store, one) for one in page]
    return SessionList([await row_of(server.store, server.agents, one) for one in summaries], more)


class SearchQuery(msgspec.Struct, frozen=True):
    q: str
    """Words that a message must all contain."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


class SearchHit(msgspec.Struct, frozen=True):
    session: str
    seq: int
    """The number of the message."""
    snippet: str
    time_ms: int
    title: str
    """The session's title, or the start of its first prompt."""


class SearchResults(msgspec.Struct, frozen=True):
    hits: list[SearchHit]


@operations.add("GET", "/sessions/search")
async def search_sessions(server: ServerState, query: SearchQuery) -> SearchResults:
    """Messages that contain all the words, best match first"""
    hits = []
    for hit in await server.store.search(query.q, limit=query.limit):
        about = await server.store.summary(hit.session)
        title = about.title or about.preview
        hits.append(SearchHit(hit.session, hit.seq, hit.snippet, hit.time_ms, title))
    return SearchResults(hits)


class NewSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cwd: str = ""
    """The folder to work in; default: the server's own."""
    title: str = ""
    model: str = ""
    """The model; default: the one of the settings."""
    reasoning: str = ""
    prompt: tuple[PlainBlock, ...] = ()
    """The first prompt, if any."""
    agent: NewAgent | None = None
    """Another vendor's agent to start in the session."""
    permissions: Profile | None = None
    """The permission profile; default: the one of the settings."""


@operations.add("POST", "/sessions", status=201, access="prompt")
async def begin_session(
    server: ServerState, body: NewSession, ids: NewId, request: Request, principal: Principal
) -> SessionRow:
    """Create a session

    With a `prompt`, it starts a run at once. Fails if no model can answer. With an `agent`, it starts that
    agent in the session; fails if the agent cannot be started. An agent, or a permission profile above
    `--max-permissions`, needs the scope `admin`."""
    session, cwd, title = ids("ses"), folder_of(body.cwd, server.cwd), " ".join(body.title.split())
    if body.agent is not None or body.permissions is not None:
        await refuse_agents(server.store, request)
    if body.agent is not None:
        require_agent_start(server, principal)
    if body.permissions is not None:
        server.profiles.require(principal, body.permissions, cwd)
    if body.agent is not None and (body.model or body.reasoning):
        raise UsageError("another vendor's agent has its own model: leave out `model` and `reasoning`")
    try:
        await server.store.summary(session)
    except NotFound:
        if body.agent is None:
            await _create(server, session, cwd, title)
        else:
            await server.agents.start(agent_to_start(body.agent, cwd), session=session)
    try:
        if body.permissions is not None:
            await server.profiles.choose(session, body.permissions, principal)
        if title and body.agent is not None:
            await wait_for_settlement(server, session, Rename(id=ids("ren"), by="api", title=title))
        if body.model:
            chosen = SetModel(id=ids("mod"), by="api", model=body.model, reasoning=body.reasoning)
            await wait_for_settlement(server, session, chosen)
        if body.prompt:
            await submit(server, session, Prompt(id=ids("req"), by="api", content=body.prompt))
    except OstlerError:
        await server.supervisor.unload(session)
        if server.agents.get(session) is not None:
            await server.agents.end(session)
        await delete_session(server.store, session)
        raise
    return await row_of(server.store, server.agents, await server.store.summary(session))


async def _create(server: ServerState, session: str, cwd: Path, title: str) -> None:
    new = await create_session(server.store, harness_without_model(str(cwd)), session=session)
    if title:
        new.journal.record(events.SessionRenamed(title))
        await new.journal.commit()
    await new.close()


def require_agent_start(server: ServerState, principal: Principal) -> None:
    """Another vendor's agent is any program: it has no ceiling. Raises `Forbidden`."""
    require_scope(principal, "all")
    server.profiles.require_everything(principal, "another vendor's agent")


def folder_of(path: str, default: Path) -> Path:
    """A folder to work in. Raises `UsageError` if it does not exist."""
    folder = Path(path) if path else default
    with suppress(OSError, ValueError):  # a name that no folder can have
        if folder.is_absolute() and folder.is_dir():
            return folder
    raise UsageError(f"{path[:200]!r} is not an existing folder with an absolute path")


@operations.add("GET", "/sessions/{session}")
async def show_session(server: ServerState, session: str) -> SessionView:
    """A session and its state: open run, queue, open questions, cost"""
    driven = server.supervisor.get(session)
    return await view_session(server.store, session, driven, server.agents, server.profiles)


class SessionPermissions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    profile: Profile


@operations.add("PUT", "/sessions/{session}/permissions", access="prompt")
async def choose_permissions(
    server: ServerState, session: str, body: SessionPermissions, request: Request, principal: Principal
) -> SessionPermissions:
    """Set the permission profile of a session, between two runs

    A profile above that of the settings needs the scope `all`, and one above `--max-permissions` the scope
    `admin`. It holds until the server is restarted; a lower one, for good."""
    await refuse_agents(server.store, request)
    await server.profiles.choose(session, body.profile, principal)
    return body


@operations.add("DELETE", "/sessions/{session}", status=204)
async def remove_session(server: ServerState, session: str) -> None:
    """Delete a session and its children

    Refused while it has a run, or while another process has it open. Its streams end."""
    if server.agents.get(session) is not None:
        raise SessionBusy(f"the agent of session {session} is running: stop it first")
    await require_no_parent_at_work(server.store, session)
    await server.supervisor.unload(session)
    await delete_session(server.store, session)
    server.agents.started_as.pop(session, None)
    server.all_events.publish(session, events.SessionListed("deleted"))


tree_operations = Operations("tree")
EntryNumber = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class Tree(msgspec.Struct, frozen=True):
    leaf: int
    """The current entry, which the next one follows; 0 before the first."""
    entries: list[Node]


@tree_operations.add("GET", "/sessions/{session}/tree")
async def show_tree(server: ServerState, session: str) -> Tree:
    """All entries of a session, each with its parent"""
    facts = await server.store.read(session)
    return Tree(leaf_of(facts), SessionTree(facts).nodes)


class ForkAt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entry: EntryNumber | None = None
    """The last entry to copy; default: the current one."""
    title: str = ""


@tree_operations.add("POST", "/sessions/{session}/fork", status=201, access="prompt")
async def fork_session(server: ServerState, session: str, body: ForkAt, ids: NewId) -> SessionSummary:
    """Create a session with a copy of the path to an entry"""
    entry = (await load_state(server.store, session)).leaf if body.entry is None else body.entry
    title = " ".join(body.title.split())
    request = Fork(id=ids("req"), by="api", entry=entry, title=title)
    fact = await require_settlement(server, session, request)
    assert isinstance(fact.event, Audited) and fact.event.details is not None
    return await server.store.summary(fact.event.details["session"])


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entry: EntryNumber
    """0: before the first entry."""


@tree_operations.add(
    "POST", "/sessions/{session}/navigate", also=(202,), access="prompt", answers=RequestState
)
async def navigate(server: ServerState, session: str, body: Place, ids: NewId) -> Response:
    """Move to an entry: the next one follows it"""
    return await _submit(server, session, Navigate(id=ids("req"), by="api", entry=body.entry))


class LabelAt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entry: EntryNumber
    label: str
    """Empty to remove it."""


@tree_operations.add("POST", "/sessions/{session}/label", also=(202,), access="prompt", answers=RequestState)
async def label_entry(server: ServerState, session: str, body: LabelAt, ids: NewId) -> Response:
    """Label an entry"""
    label = " ".join(body.label.split())
    return await _submit(server, session, Label(id=ids("req"), by="api", entry=body.entry, label=label))


async def _submit(server: ServerState, session: str, request: AnyRequest) -> Response:
    fact = await wait_for_settlement(server, session, request)
    return json_response(state_of_request(request.id, fact), 200 if fact else 202)


copy_operations = Operations("copies")
LINES = "application/x-ndjson"
MOST_BYTES = 200 * 1024 * 1024
Format = Literal["jsonl", "md", "html"]

_FORMATS = {
    "jsonl": ("jsonl", LINES),
    "md": ("markdown", "text/markdown; charset=utf-8"),
    "html": ("html", "text/html; charset=utf-8"),
}


class ExportQuery(msgspec.Struct, frozen=True):
    format: Format = "jsonl"
    """`jsonl` is complete and can be imported; the others are for reading."""


@copy_operations.add(
    "GET",
    "/sessions/{session}/export",
    media_type=LINES,
    also_as=("text/markdown", "text/html"),
    answers=bytes,
)
async def export_session(server: ServerState, session: str, query: ExportQuery) -> Response:
    """Export a session as a file"""
    kind, media_type = _FORMATS[query.format]
    name = file_name(await server.store.summary(session)) + EXTENSIONS[kind]
    headers = {
        "content-disposition": f'attachment; filename="{name}"',
        "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
        "x-content-type-options": "nosniff",
    }
    pieces = export_text(server.store, session, kind)
    return StreamingResponse(pieces, headers=headers, media_type=media_type)


class ImportedSession(SessionSummary, frozen=True, omit_defaults=True):
    """The new session, and what of the file does not count here."""

    dropped: tuple[str, ...] = ()


class ImportQuery(msgspec.Struct, frozen=True):
    cwd: str = ""
    """The folder of the imported session; default: the server's own."""


@copy_operations.add("POST", "/sessions/import", status=201, consumes=LINES, most_body=MOST_BYTES)
async def import_session(
    server: ServerState, request: Request, query: ImportQuery, ids: NewId
) -> ImportedSession:
    """Import an exported session under a new id

    A damaged or incomplete file adds nothing. A file gives no consent: `dropped` says what of it does not
    count here, such as answers and remembered rules."""
    session, cwd = ids("ses"), folder_of(query.cwd, server.cwd)
    lines = (await request.body()).splitlines()
    try:
        summary = await server.store.summary(session)
        return ImportedSession(**msgspec.structs.asdict(summary))
    except NotFound:
        export = await asyncio.to_thread(read_export, lines, session, str(cwd))
        dropped = (await add_export(server.store, export)).dropped
        server.all_events.publish(session, SessionListed("imported"))
        summary = await server.store.summary(session)
        return ImportedSession(**msgspec.structs.asdict(summary), dropped=dropped)
