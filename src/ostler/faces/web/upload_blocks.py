"""Uploads in a prompt: a block with the address `upload:ID` becomes one with what was uploaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ostler.faces.web.problems import TooLarge
from ostler.faces.web.uploads import Upload, Uploads
from ostler.tools import file_kinds
from ostler.tools.line_window import LineWindow
from ostler.tools.read import look_at
from ostler.tools.truncation import size_text
from ostler.vocabulary.errors import ToolFailed
from ostler.vocabulary.messages import File, Image, PlainBlock, Text
from ostler.vocabulary.requests import AnyRequest, Prompt, Steer

SCHEME = "upload:"
MOST_TEXT = 200 * 1024
"""Bytes of a text that the model is shown: of a longer one it is told where it is."""
MOST_ATTACHED = 20 * 1024 * 1024
"""Characters of pictures and documents in one prompt, in base64."""


async def with_uploads(uploads: Uploads, request: AnyRequest, driver: str = "agent") -> AnyRequest:
    """The request with what it names. An agent of another vendor, which is told text only, is told where it
    is. Raises `NotFound`."""
    if not isinstance(request, Prompt | Steer):
        return request
    show = block_of if driver == "agent" else _place_of
    return msgspec.structs.replace(request, content=await filled(uploads, request.content, show))


async def filled(
    uploads: Uploads, content: Sequence[PlainBlock], show: Callable[[Uploads, Upload], PlainBlock]
) -> tuple[PlainBlock, ...]:
    """The content with what it names, as it is to be shown. Raises `NotFound`."""
    blocks: list[PlainBlock] = []
    for block in content:
        if isinstance(block, Text) or not block.url.startswith(SCHEME):
            blocks.append(block)
            continue
        upload = uploads.find(block.url.removeprefix(SCHEME))
        uploads.keep_longer(upload)
        blocks.append(await asyncio.to_thread(show, uploads, upload))
    if sum(len(one.data) for one in blocks if not isinstance(one, Text)) > MOST_ATTACHED:
        raise TooLarge(f"a prompt may have {size_text(MOST_ATTACHED)} of pictures and documents at most")
    return tuple(blocks)


def block_of(uploads: Uploads, upload: Upload) -> PlainBlock:
    """What a model is shown: a picture or a document as such, a text with its name; of anything else, where
    it is. Takes its time: not for the event loop."""
    if upload.media_type.startswith("image/") or upload.media_type == "application/pdf":
        return _attached(upload) or Text(_place(upload))
    if upload.size > MOST_TEXT:
        return Text(_place(upload))
    content = uploads.read(upload, 0, MOST_TEXT)
    if file_kinds.is_binary(content):
        return Text(_place(upload))
    text = content.decode("utf-8-sig", "replace")
    return Text(f"--- {upload.name}, uploaded ---\n{text}")


def _attached(upload: Upload) -> Image | File | None:
    """None for one that is too large for vendors."""
    path = Path(upload.path)
    try:
        found = look_at(path, upload.name, LineWindow(1, 1), path.parent, lambda: False)
    except ToolFailed:
        return None
    shown = found.content[-1]
    if isinstance(shown, File):
        return msgspec.structs.replace(shown, name=upload.name)
    return shown if isinstance(shown, Image) else None


def _place_of(uploads: Uploads, upload: Upload) -> Text:
    return Text(_place(upload))


def _place(upload: Upload) -> str:
    about = f"{upload.media_type}, {size_text(upload.size)}"
    return f"the file {upload.name} ({about}) was uploaded; it is at {upload.path}"
