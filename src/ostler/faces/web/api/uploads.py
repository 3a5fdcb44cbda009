"""Uploads: files for prompts."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ostler.faces.web.contents import content_response
from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server
from ostler.faces.web.uploads import MOST_BYTES, Upload

upload_operations = Operations("uploads")


class UploadQuery(msgspec.Struct, frozen=True):
    name: str = ""
    """What the file is called."""


@upload_operations.add("POST", "/uploads", status=201, most_body=MOST_BYTES, consumes="*/*")
async def upload_file(server: Server, request: Request, query: UploadQuery) -> Upload:
    """Send a file: its bytes are the body

    A prompt names it as a block: `{"type": "file", "media_type": "…", "url": "upload:ID"}`, or `image`. The
    model is shown a picture, a PDF or a text; of anything else it is told where it is."""
    said_type = request.headers.get("content-type", "")
    return await server.uploads.take(query.name, said_type, request.stream())


class UploadList(msgspec.Struct, frozen=True):
    uploads: list[Upload]


@upload_operations.add("GET", "/uploads")
async def list_uploads(server: Server) -> UploadList:
    """What was uploaded, the newest first"""
    return UploadList(server.uploads.all())


@upload_operations.add("GET", "/uploads/{upload}", media_type="application/octet-stream", answers=bytes)
async def read_upload(server: Server, request: Request, upload: str) -> Response:
    """What is in an uploaded file; `Range` asks for a part"""
    found = server.uploads.find(upload)

    async def read(start: int, size: int) -> bytes:
        return await asyncio.to_thread(server.uploads.read, found, start, size)

    return content_response(request, found.name, found.media_type, found.size, read)


@upload_operations.add("DELETE", "/uploads/{upload}", status=204)
async def remove_upload(server: Server, upload: str) -> None:
    """Delete an uploaded file"""
    server.uploads.remove(upload)
