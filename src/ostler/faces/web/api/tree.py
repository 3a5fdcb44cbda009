"""The tree of a session: its entries, where it stands, forks and labels."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from ostler.faces.cli.tree_rows import Node, nodes_of
from ostler.faces.web.api.requests import RequestState, state_of_request
from ostler.faces.web.operations import Operations, json_response
from ostler.faces.web.problems import ServerBusy
from ostler.faces.web.server import Server
from ostler.faces.web.submitting import settled
from ostler.kernel.state import leaf_of
from ostler.kernel.store import SessionSummary
from ostler.runs.run_tree import state_of
from ostler.vocabulary.events import Audited
from ostler.vocabulary.ids import NewId
from ostler.vocabulary.requests import AnyRequest, Fork, Label, Navigate

tree_operations = Operations("tree")

EntryNumber = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class Tree(msgspec.Struct, frozen=True):
    leaf: int
    """The entry that the next one follows; 0 before the first."""
    entries: list[Node]


@tree_operations.add("GET", "/sessions/{session}/tree")
async def show_tree(server: Server, session: str) -> Tree:
    """All entries of a session, each with its parent"""
    facts = await server.store.read(session)
    return Tree(leaf_of(facts), nodes_of(facts))


class ForkAt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entry: EntryNumber | None = None
    """The last entry to copy; where the session stands, if it is left out."""
    title: str = ""


@tree_operations.add("POST", "/sessions/{session}/fork", status=201)
async def fork_session(server: Server, session: str, body: ForkAt, ids: NewId) -> SessionSummary:
    """A new session that begins with a copy of the path to an entry"""
    entry = (await state_of(server.store, session)).leaf if body.entry is None else body.entry
    title = " ".join(body.title.split())
    request = Fork(id=ids("req"), by="api", entry=entry, title=title)
    fact = await settled(server, session, request)
    if fact is None:
        raise ServerBusy(f"whoever holds the session has not got to it yet: request {request.id} waits there")
    assert isinstance(fact.event, Audited) and fact.event.details is not None
    return await server.store.summary(fact.event.details["session"])


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entry: EntryNumber
    """0: before the first entry."""


@tree_operations.add("POST", "/sessions/{session}/navigate", also=(202,), answers=RequestState)
async def navigate(server: Server, session: str, body: Place, ids: NewId) -> Response:
    """The next entry follows this one, from now on"""
    return await _asked(server, session, Navigate(id=ids("req"), by="api", entry=body.entry))


class LabelAt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entry: EntryNumber
    label: str
    """Empty to remove it."""


@tree_operations.add("POST", "/sessions/{session}/label", also=(202,), answers=RequestState)
async def label_entry(server: Server, session: str, body: LabelAt, ids: NewId) -> Response:
    """A name for an entry"""
    label = " ".join(body.label.split())
    return await _asked(server, session, Label(id=ids("req"), by="api", entry=body.entry, label=label))


async def _asked(server: Server, session: str, request: AnyRequest) -> Response:
    fact = await settled(server, session, request)
    return json_response(state_of_request(request.id, fact), 200 if fact else 202)
