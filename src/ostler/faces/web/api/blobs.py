"""Blobs: outputs that were too long for a fact."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ostler.faces.web.contents import content_response
from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server
from ostler.vocabulary.errors import NotFound

blob_operations = Operations("blobs")


@blob_operations.add(
    "GET", "/sessions/{session}/blobs/{blob}", media_type="application/octet-stream", answers=bytes
)
async def read_blob(server: Server, request: Request, session: str, blob: str) -> Response:
    """What is in a blob of a session; `Range` asks for a part"""
    await server.store.summary(session)
    found = await server.store.blob(session, blob)
    if found is None:
        raise NotFound(f"the session has no blob {blob[:100]!r}")

    async def read(start: int, size: int) -> bytes:
        return await server.store.read_blob(session, blob, start, size)

    return content_response(request, blob, found.media_type, found.size, read)
