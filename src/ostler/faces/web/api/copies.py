"""Sessions as files: export and import."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ostler.faces.cli.portable_file import EXTENSIONS, file_name
from ostler.faces.cli.session_copies import exported
from ostler.faces.web.api.sessions import folder_of
from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server
from ostler.kernel.store import SessionSummary
from ostler.log.portable import read_export
from ostler.vocabulary.errors import NotFound
from ostler.vocabulary.events import SessionListed
from ostler.vocabulary.ids import NewId

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
    """`jsonl` holds everything and can be imported; the others are to read."""


@copy_operations.add(
    "GET",
    "/sessions/{session}/export",
    media_type=LINES,
    also_as=("text/markdown", "text/html"),
    answers=bytes,
)
async def export_session(server: Server, session: str, query: ExportQuery) -> Response:
    """A session as a file"""
    kind, media_type = _FORMATS[query.format]
    name = file_name(await server.store.summary(session)) + EXTENSIONS[kind]
    headers = {
        "content-disposition": f'attachment; filename="{name}"',
        "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
        "x-content-type-options": "nosniff",
    }
    pieces = exported(server.store, session, kind)
    return StreamingResponse(pieces, headers=headers, media_type=media_type)


class ImportQuery(msgspec.Struct, frozen=True):
    cwd: str = ""
    """The folder that the session works in from now on; that of the server if it is left out."""


@copy_operations.add("POST", "/sessions/import", status=201, consumes=LINES, most_body=MOST_BYTES)
async def import_session(server: Server, request: Request, query: ImportQuery, ids: NewId) -> SessionSummary:
    """Add the session of an exported file, under a new id

    A file that is not whole and sound adds nothing."""
    session, cwd = ids("ses"), folder_of(query.cwd, server.cwd)
    lines = (await request.body()).splitlines()
    try:
        return await server.store.summary(session)
    except NotFound:
        read = await asyncio.to_thread(read_export, lines, session, str(cwd))
        await server.store.import_session(read.facts, read.blobs)
        server.everything.tell(session, SessionListed("imported"))
        return await server.store.summary(session)
