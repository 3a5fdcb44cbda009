"""Answers and errors in JSON, each with the address of its schema."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from ostler.faces.web.agentapi.frames import WireStatus
from ostler.faces.web.agentapi.wire_json import to_json

# Python's own words for some of them change with its version.
_TITLES = {
    400: "Bad Request",
    408: "Request Timeout",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
    500: "Internal Server Error",
}
INVALID = "validation failed"
UNEXPECTED = "unexpected error occurred"


class StatusResponseBody(msgspec.Struct, frozen=True):
    status: WireStatus
    agent_type: str
    transport: str


class Message(msgspec.Struct, frozen=True):
    id: int
    content: str
    role: str
    time: str


class MessagesResponseBody(msgspec.Struct, frozen=True):
    messages: list[Message]


class MessageResponseBody(msgspec.Struct, frozen=True):
    ok: bool = True


class UploadResponseBody(msgspec.Struct, frozen=True):
    ok: bool
    filePath: str


class ErrorDetail(msgspec.Struct, frozen=True, omit_defaults=True):
    message: str
    location: str = ""
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class ErrorModel(msgspec.Struct, frozen=True, omit_defaults=True):
    title: str
    status: int
    detail: str
    errors: tuple[ErrorDetail, ...] = ()


class Refusal(Exception):
    """A request that comes to nothing: what its sender is told."""

    def __init__(self, status: int, detail: str, errors: Sequence[ErrorDetail] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.body = ErrorModel(_TITLES[status], status, detail, tuple(errors))


def answer(body: msgspec.Struct, host: str) -> Response:
    return _with_schema(body, host, 200, "application/json")


def refusal_answer(refusal: Refusal, host: str) -> Response:
    response = _with_schema(refusal.body, host, refusal.status, "application/problem+json")
    if refusal.status == 408:  # what is left of the body would be read as the next request
        response.headers["connection"] = "close"
    return response


def _with_schema(body: msgspec.Struct, host: str, status: int, media_type: str) -> Response:
    path = f"/schemas/{type(body).__name__}.json"
    scheme = "http" if host.startswith(("localhost", "127.0.0.1")) else "https"
    content = b'{"$schema":%b,%b\n' % (to_json(f"{scheme}://{host}{path}"), to_json(body)[1:])
    headers = {"content-type": media_type, "link": f'<{path}>; rel="describedBy"'}
    return Response(content, status, headers)


def plain(text: str, status: int) -> Response:
    """An error from below the API."""
    headers = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    return Response(f"{text}\n", status, headers)
