"""JSON bodies and errors, as agentapi's clients expect them."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from ostler.server.agentapi.events import WireStatus, to_json

# Not from `http.HTTPStatus`, whose phrases change with the version of Python.
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
    """An error response."""

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
    """An error outside of the API, as plain text."""
    headers = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    return Response(f"{text}\n", status, headers)


MOST_DISCARDED = 64 * 1024 * 1024
"""Bytes."""


async def discard(body: AsyncIterator[bytes]) -> None:
    """Reads the rest of a body: a client that gets an answer while it sends sees a broken connection."""
    discarded = 0
    async for piece in body:
        discarded += len(piece)
        if discarded > MOST_DISCARDED:
            return


MOST_BODY = 1024 * 1024
"""One byte less is the largest body that is accepted."""

MOST_NESTED = 500
"""Checked here, because the limit of the parser depends on the version of Python."""

SECONDS = 5.0
_HALF_PAIRS = re.compile("[\ud800-\udfff]")
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


class MessageRequest(msgspec.Struct, frozen=True):
    content: str
    type: Literal["user", "raw"]


async def read_message(request: Request) -> MessageRequest:
    """Raises `Refusal`."""
    body = await _read(request)
    if not body:
        raise Refusal(400, "request body is required")
    text = body.decode("utf-8", "replace")
    _check_content_type(request.headers, text)
    try:
        _refuse_deep(text)
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except ValueError as error:
        raise Refusal(400, INVALID, [_about(_problem(error, text), "body", text)]) from None
    return _checked(value)


async def _read(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(SECONDS):
            async for piece in (stream := request.stream()):
                body += piece
                if len(body) >= MOST_BODY:
                    await discard(stream)
                    raise Refusal(413, f"request body is too large limit={MOST_BODY} bytes")
    except TimeoutError:
        raise Refusal(408, "request body read timeout") from None
    return bytes(body)


def _check_content_type(headers: Headers, body: str) -> None:
    """Accepts JSON with any prefix before a `+`, and a missing type, but not from a browser: only for
    declared JSON does a browser ask whether a page of another origin may send it."""
    content_type = headers.get("content-type", "")
    kind = content_type.partition(";")[0]
    kind = kind[kind.find("+") + 1 :]
    if kind not in ("application/json", "json") and (kind or "origin" in headers):
        raise Refusal(415, INVALID, [_about(f"unknown content type: {content_type}", "body", body)])


def _checked(value: Any) -> MessageRequest:
    """Reports all problems at once. Compares names without regard to case, as Go does."""
    if not isinstance(value, dict):
        raise Refusal(422, INVALID, [_about("expected object", "body", value)])
    errors: list[ErrorDetail] = []
    properties = {name.casefold(): value[name] for name in value}
    for name in ("content", "type"):
        if name not in properties:
            errors.append(_about(f"expected required property {name} to be present", "body", value))
        elif not isinstance(text := properties[name], str):
            errors.append(_about("expected string", f"body.{name}", text))
        elif name == "type" and text not in ("user", "raw"):
            errors.append(_about('expected value to be one of "user, raw"', "body.type", text))
    for name in value:
        if name.casefold() not in ("content", "type", "$schema"):
            errors.append(_about("unexpected property", f"body.{name}", value))
    if errors:
        raise Refusal(422, INVALID, errors)
    return MessageRequest(_HALF_PAIRS.sub("\ufffd", properties["content"]), properties["type"])


def _about(message: str, location: str, value: Any) -> ErrorDetail:
    message, location = (_HALF_PAIRS.sub("\ufffd", text) for text in (message, location))
    if value is None:
        return ErrorDetail(message, location)
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return ErrorDetail(message, location, msgspec.Raw(_HALF_PAIRS.sub("\ufffd", text).encode()))


def _problem(error: Exception, text: str) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    if error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip()):
        return "unexpected end of JSON input"
    return f"invalid character {text[error.pos]!r} at offset {error.pos}"


def _refuse_deep(text: str) -> None:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        depth += match[0] in "[{"
        depth -= match[0] in "]}"
        if depth > MOST_NESTED:
            raise ValueError("exceeded max depth")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"invalid character {name[0]!r} looking for beginning of value")


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"json: cannot unmarshal number {digits} into Go value of type float64")
    return number
