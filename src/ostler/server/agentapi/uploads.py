"""Uploads for the agent to read: checked and hashed as they arrive, stored until the server ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from email.message import Message
from email.utils import collapse_rfc2231_value
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request

from ostler.server.agentapi.bodies import (
    INVALID,
    UNEXPECTED,
    ErrorDetail,
    Refusal,
    UploadResponseBody,
    discard,
)

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MOST_FILE = 10 * 1024 * 1024

MOST_BODY = MOST_FILE + 1024 * 1024
"""A form needs far less than that besides the file."""

PATIENCE = 30.0
"""Seconds within which the next piece must arrive."""

_TOO_LARGE = "file size exceeds 10MB limit"


async def take_upload(request: Request, folder: Path) -> UploadResponseBody:
    """Stores the file of a form. The same file with the same name gets the same path. Raises `Refusal`."""
    boundary = _boundary(request.headers.get("content-type", ""))
    try:
        with ArrivingFile(folder) as file:
            await _receive(request, boundary, file)
            return UploadResponseBody(True, str(file.keep()))
    except OSError as error:
        problem = f"failed to write file: {error.strerror or error}"
        raise Refusal(500, UNEXPECTED, [ErrorDetail(problem)]) from None


async def _receive(request: Request, boundary: bytes, file: ArrivingFile) -> None:
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import MultipartParser, MultipartState

    stream = request.stream()
    size = 0
    try:
        parser = MultipartParser(boundary, FormReader(file).callbacks())
        while True:
            async with asyncio.timeout(PATIENCE):
                piece = await anext(stream, None)
            if piece is None:
                break
            size += len(piece)
            if size > MOST_BODY:
                await discard(stream)
                raise Refusal(400, _TOO_LARGE)
            parser.write(piece)
        if parser.state != MultipartState.END:
            raise _unreadable("multipart: NextPart: EOF")
    except FormParserError as error:
        await discard(stream)
        raise _unreadable(f"multipart: {error}") from None
    except TimeoutError:
        raise Refusal(408, "request body read timeout") from None
    file.check()


def _boundary(content_type: str) -> bytes:
    from python_multipart.multipart import parse_options_header

    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        raise _unreadable("request Content-Type isn't multipart/form-data")
    if not options.get(b"boundary"):
        raise _unreadable("no multipart boundary param in Content-Type")
    return options[b"boundary"]


def _unreadable(why: str) -> Refusal:
    return Refusal(422, INVALID, [ErrorDetail(f"cannot read multipart form: {why}", "body")])


class FormReader:
    """Finds the part named `file` that has a file name, and ignores the others."""

    def __init__(self, file: ArrivingFile) -> None:
        self._file = file
        self._field = self._value = b""
        self._disposition = b""
        self._is_in_file = False

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin_part,
            "on_header_begin": self._begin_header,
            "on_header_field": self._add_field,
            "on_header_value": self._add_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_data,
            "on_part_data": self._add_data,
        }

    def _begin_part(self) -> None:
        self._disposition = b""
        self._is_in_file = False

    def _begin_header(self) -> None:
        self._field = self._value = b""

    def _add_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _add_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._field.lower() == b"content-disposition":
            self._disposition = self._value

    def _begin_data(self) -> None:
        options = parameters(self._disposition.decode("utf-8", "replace"))
        if options.get("name") == "file" and (name := options.get("filename", "")):
            self._is_in_file = self._file.begin(name)

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_in_file:
            self._file.write(data[start:end])


class ArrivingFile:
    """A file that is being received. It gets its name when it is complete, and is deleted otherwise."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / f".arriving-{secrets.token_hex(8)}"
        self._names: list[str] = []
        self._size = 0
        self._hash = hashlib.sha256()

    def __enter__(self) -> ArrivingFile:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o644)
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._descriptor)
        self._path.unlink(missing_ok=True)

    def begin(self, name: str) -> bool:
        """Whether to write its data."""
        self._names.append(name)
        return len(self._names) == 1

    def write(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MOST_FILE:
            return
        self._hash.update(data)
        while data:
            data = data[os.write(self._descriptor, data) :]

    def check(self) -> None:
        """Raises `Refusal`."""
        if not self._names:
            raise Refusal(422, INVALID, [ErrorDetail("File required", "file")])
        if len(self._names) > 1:
            problem = "Multiple files received but only one was expected"
            raise Refusal(422, INVALID, [ErrorDetail(problem, "file")])
        if self._size > MOST_FILE:
            raise Refusal(400, _TOO_LARGE)

    def keep(self) -> Path:
        """Moves it into a folder for its content: files of the same name do not overwrite each other."""
        folder = self._folder / self._hash.hexdigest()[:16]
        folder.mkdir(mode=0o755, exist_ok=True)
        return self._path.replace(folder / last_part(self._names[0]))


def parameters(disposition: str) -> dict[str, str]:
    """The parameters of a part of a form. A `filename*` wins over `filename`."""
    header = Message()
    header["content-disposition"] = disposition
    options = header.get_params(failobj=[], header="content-disposition")
    return {name.lower(): collapse_rfc2231_value(value) for name, value in options}


def last_part(name: str) -> str:
    """The file name without folders."""
    last = name.replace("\0", "").rstrip("/").rpartition("/")[2]
    return last if last not in ("", ".", "..") else "file"
