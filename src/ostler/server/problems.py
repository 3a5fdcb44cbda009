"""Error responses: problem details (RFC 9457), made from `OstlerError`."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from ostler.models.credentials import redact_keys
from ostler.schema.errors import OstlerError, UsageError, kind_of

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error. `kind` is its stable name; `detail` is for people."""

    type: str
    title: str
    status: int
    detail: str
    kind: str


class NotAllowed(OstlerError):
    """The request has no valid credentials."""

    http_status = 401


class Forbidden(OstlerError):
    http_status = 403


class TooLarge(UsageError):
    http_status = 413


class TooSlow(UsageError):
    http_status = 408


class RangeNotThere(UsageError):
    http_status = 416


class TooMany(OstlerError):
    http_status = 429


class ServerBusy(OstlerError):
    http_status = 503


class Conflict(UsageError):
    http_status = 409


class MethodNotAllowed(UsageError):
    http_status = 405


class WrongMediaType(UsageError):
    http_status = 415


class KeyReused(UsageError):
    """The same Idempotency-Key with another request."""

    http_status = 422


def problem_of(error: OstlerError) -> Problem:
    kind = kind_of(type(error))
    status = error.http_status
    return Problem(f"urn:ostler:{kind}", HTTPStatus(status).phrase, status, redact_keys(error.message), kind)


def error_response(error: OstlerError) -> Response:
    return problem_response(problem_of(error))


def internal_error() -> Problem:
    """A bug: the details are in the server's log, not in the response."""
    detail = "this is a bug in ostler; see the server's log"
    return Problem("urn:ostler:internal", "Internal Server Error", 500, detail, "internal")


def problem_response(problem: Problem) -> Response:
    headers = {"x-content-type-options": "nosniff", **_HEADERS.get(problem.status, {})}
    return Response(msgspec.json.encode(problem), problem.status, headers, MEDIA_TYPE)


_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    # The rest of the body must not be read as the next request.
    408: {"connection": "close"},
    413: {"connection": "close"},
    429: {"retry-after": "1"},
    503: {"retry-after": "1", "connection": "close"},
}
