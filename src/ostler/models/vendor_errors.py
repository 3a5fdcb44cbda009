"""Maps a vendor's error (its status, body and headers) to one of our `ModelError` classes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ostler.core.secrets import redact
from ostler.models.transport import request_id
from ostler.schema.errors import (
    AuthenticationFailed,
    ContextOverflow,
    InvalidRequest,
    ModelError,
    ModelNotFound,
    Overloaded,
    PermissionDenied,
    RateLimited,
    ServerFailed,
)

BODY_LIMIT = 4096

_BY_STATUS: dict[int, type[ModelError]] = {
    401: AuthenticationFailed,
    403: PermissionDenied,
    404: ModelNotFound,
    408: ServerFailed,
    413: ContextOverflow,
    429: RateLimited,
    503: Overloaded,
    529: Overloaded,
}

_PROXY_LOGIN = 407

_CODES: dict[type[ModelError], str] = {
    AuthenticationFailed: "authentication_error invalid_api_key API_KEY_INVALID UNAUTHENTICATED",
    PermissionDenied: "permission_error PERMISSION_DENIED",
    ModelNotFound: "not_found_error model_not_found NOT_FOUND",
    ContextOverflow: "request_too_large context_length_exceeded exceed_context_size_error",
    RateLimited: (
        "rate_limit_error rate_limit_exceeded insufficient_quota too_many_requests RESOURCE_EXHAUSTED"
    ),
    Overloaded: "overloaded_error server_is_overloaded slow_down UNAVAILABLE",
    InvalidRequest: (
        "billing_error invalid_request_error invalid_prompt invalid_encrypted_content bio_policy "
        "data_residency_mismatch misalignment_policy_violation image_content_policy_violation invalid_image "
        "invalid_image_format invalid_base64_image invalid_image_url image_too_large image_too_small "
        "image_parse_error image_file_too_large unsupported_image_media_type empty_image_file "
        "failed_to_download_image INVALID_ARGUMENT FAILED_PRECONDITION"
    ),
}
"""The `type`, `code` or `status` that vendors write into an error, which may come without an HTTP status."""

_BY_CODE = {code: kind for kind, codes in _CODES.items() for code in codes.split()}

_OVERFLOW_PHRASES = (
    "prompt is too long",
    "context_length_exceeded",
    "maximum context length",
    "exceeds the context window",
    "exceeds the available context size",
    "context length exceeded",
    "exceed context limit",
    "too large for model with",
    "maximum prompt length",
    "input is too long",
    "exceeded model token limit",
    "exceeded max context length",
    "exceeds the model's maximum context",
    "context size has been exceeded",
    "longer than the model's context",
    "context length of only",
    "exceeds the maximum number of tokens",
)

_ADVICE: dict[type[ModelError], str] = {
    AuthenticationFailed: "check the API key",
    PermissionDenied: "check the permissions of the API key",
    ModelNotFound: "check the model's name and the base URL",
    InvalidRequest: "check that this model supports the request",
    ContextOverflow: "begin a new session, or send less",
    RateLimited: "wait a little, or check the plan and its quota",
    Overloaded: "try again in a minute, or name another model",
    ServerFailed: "try again; if it persists, contact the server's operator",
}


class VendorError(msgspec.Struct, frozen=True):
    """An error's body, in any vendor's format."""

    message: str = ""
    code: str = ""
    kind: str = ""
    status: int | None = None
    retry_after: float | None = None


def read_error(body: bytes) -> VendorError:
    """The vendor's error in a body, or the beginning of the body if it is not JSON."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body.decode("utf-8", "replace")
        return VendorError() if text.lstrip().startswith("<") else VendorError(text)
    return error_in(value)


def error_in(value: Any) -> VendorError:
    """The error in a decoded body, or in the `error` of a frame."""
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        return VendorError(value)
    if not isinstance(value, dict):
        return VendorError()
    inner = value.get("error")
    if isinstance(inner, dict | str) and inner:
        return error_in(inner)
    message = value.get("message") or value.get("detail") or ""
    code = value.get("code")
    numeric = isinstance(code, int) and 400 <= code < 600
    reason, delay = _in_details(value.get("details"))
    return VendorError(
        message=message if isinstance(message, str) else msgspec.json.encode(message).decode(),
        code=reason if code is None or numeric else str(code),
        kind=str(value.get("type") or _text(value.get("status"))),
        status=code if numeric else None,
        retry_after=delay,
    )


def _in_details(details: Any) -> tuple[str, float | None]:
    """The reason and the delay that Google adds to an error's message."""
    reason, delay = "", None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict):
            reason = reason or _text(detail.get("reason"))
            seconds = _number(_text(detail.get("retryDelay")).removesuffix("s"))
            delay = seconds if delay is None else delay
    return reason, delay


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def error_of_status(
    who: str, status: int, headers: Mapping[str, str], body: bytes, secrets: Iterable[str]
) -> ModelError:
    """The error of an answer that did not begin a stream."""
    vendor_error = read_error(body)
    message = one_line(vendor_error.message, secrets)
    if 300 <= status < 400:
        message = f"{who} answered with a redirect ({status}); set the base URL to its target"
        return InvalidRequest(message, status=status, request_id=request_id(headers))
    if status == _PROXY_LOGIN:
        return proxy_login(who, "HTTP_PROXY")
    kind = _class_of(status, vendor_error)
    wait = retry_after(headers)
    wait = vendor_error.retry_after if wait is None else wait
    return kind(
        f"{who} answered {status}: {message or _phrase(status)}; {_advice(kind, wait)}",
        status=status,
        code=one_line(vendor_error.code or vendor_error.kind, secrets),
        request_id=request_id(headers),
        retry_after=wait,
    )


def proxy_login(who: str, variable: str) -> InvalidRequest:
    advice = f"write {variable} as http://USER:PASSWORD@HOST:PORT"
    return InvalidRequest(f"the proxy for {who} needs a valid login: {advice}", status=_PROXY_LOGIN)


def error_in_stream(who: str, value: Any, *, request_id: str = "") -> ModelError:
    """The error that a vendor reports after the beginning of its stream."""
    vendor_error = error_in(value)
    kind = _class_of(vendor_error.status, vendor_error)
    reason = one_line(vendor_error.message) or vendor_error.kind or "no reason given"
    return kind(
        f"{who} failed while answering: {reason}; {_advice(kind, vendor_error.retry_after)}",
        status=vendor_error.status,
        code=vendor_error.code or vendor_error.kind,
        request_id=request_id,
        retry_after=vendor_error.retry_after,
        stream_opened=True,
    )


def _advice(kind: type[ModelError], wait: float | None) -> str:
    if not wait or kind not in (RateLimited, Overloaded):
        return _ADVICE[kind]
    units = (("h", 3600), ("min", 60))
    unit, length = next(((unit, length) for unit, length in units if wait > 2 * length), ("s", 1))
    return f"wait {math.ceil(wait / length)} {unit}, or name another model"


def _class_of(status: int | None, vendor_error: VendorError) -> type[ModelError]:
    text = f"{vendor_error.code} {vendor_error.kind} {vendor_error.message}".lower()
    if status in (None, 400, 413, 422) and any(phrase in text for phrase in _OVERFLOW_PHRASES):
        return ContextOverflow
    by_code = _BY_CODE.get(vendor_error.code) or _BY_CODE.get(vendor_error.kind)
    if status is None:
        return by_code or ServerFailed
    if status == 400 and by_code in (ModelNotFound, AuthenticationFailed):
        return by_code
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ServerFailed if status >= 500 else InvalidRequest


def _phrase(status: int) -> str:
    from http import HTTPStatus

    return HTTPStatus(status).phrase.lower() if status in set(HTTPStatus) else "no reason given"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait before the next request, from a number or an HTTP date."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def one_line(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without secrets and line breaks, at most `BODY_LIMIT` characters."""
    return " ".join(redact(text, secrets)[:BODY_LIMIT].split()).rstrip(".")
