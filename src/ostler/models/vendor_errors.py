"""What a vendor's refusal means: its status, its words and its headers as one error of our tree."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ostler.models.credentials import redact
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

_BY_CODE: dict[str, type[ModelError]] = {
    "authentication_error": AuthenticationFailed,
    "invalid_api_key": AuthenticationFailed,
    "permission_error": PermissionDenied,
    "not_found_error": ModelNotFound,
    "model_not_found": ModelNotFound,
    "billing_error": InvalidRequest,
    "invalid_request_error": InvalidRequest,
    "request_too_large": ContextOverflow,
    "context_length_exceeded": ContextOverflow,
    "exceed_context_size_error": ContextOverflow,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "insufficient_quota": RateLimited,
    "overloaded_error": Overloaded,
    "server_is_overloaded": Overloaded,
    "slow_down": Overloaded,
    "too_many_requests": RateLimited,
    "invalid_prompt": InvalidRequest,
    "invalid_encrypted_content": InvalidRequest,
    "data_residency_mismatch": InvalidRequest,
    "bio_policy": InvalidRequest,
    "misalignment_policy_violation": InvalidRequest,
    "image_content_policy_violation": InvalidRequest,
    "invalid_image": InvalidRequest,
    "invalid_image_format": InvalidRequest,
    "invalid_base64_image": InvalidRequest,
    "invalid_image_url": InvalidRequest,
    "image_too_large": InvalidRequest,
    "image_too_small": InvalidRequest,
    "image_parse_error": InvalidRequest,
    "image_file_too_large": InvalidRequest,
    "unsupported_image_media_type": InvalidRequest,
    "empty_image_file": InvalidRequest,
    "failed_to_download_image": InvalidRequest,
    "API_KEY_INVALID": AuthenticationFailed,
    "UNAUTHENTICATED": AuthenticationFailed,
    "PERMISSION_DENIED": PermissionDenied,
    "NOT_FOUND": ModelNotFound,
    "INVALID_ARGUMENT": InvalidRequest,
    "FAILED_PRECONDITION": InvalidRequest,
    "RESOURCE_EXHAUSTED": RateLimited,
    "UNAVAILABLE": Overloaded,
}
"""What vendors write into `type`, `code` or `status` of an error that may come without an HTTP status."""

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
    PermissionDenied: "check what the API key may do",
    ModelNotFound: "check the model's name and the base URL",
    InvalidRequest: "check that this model takes what was asked of it",
    ContextOverflow: "begin a new session, or send less",
    RateLimited: "wait a little, or check the plan and its quota",
    Overloaded: "try again in a minute, or name another model",
    ServerFailed: "try again; if it stays so, ask who runs the server",
}


class VendorError(msgspec.Struct, frozen=True):
    """What an error's body says, whichever vendor's shape it has."""

    message: str = ""
    code: str = ""
    kind: str = ""
    status: int | None = None
    retry_after: float | None = None


def read_error(body: bytes) -> VendorError:
    """The vendor's own words in a body, or the beginning of the body where it is not JSON."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body.decode("utf-8", "replace")
        return VendorError() if text.lstrip().startswith("<") else VendorError(text)
    return error_in(value)


def error_in(value: Any) -> VendorError:
    """The same for a decoded body, or for the `error` of a frame."""
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
    """The reason and the delay that Google puts beside an error's message."""
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
        return InvalidRequest(
            f"{who} answered with a redirect ({status}), which is not followed; "
            "set the base URL to where it leads",
            status=status,
            request_id=request_id(headers),
        )
    if status == _PROXY_LOGIN:
        return proxy_login(who, "HTTP_PROXY")
    kind = _class_of(status, vendor_error)
    asked = retry_after(headers)
    wait = vendor_error.retry_after if asked is None else asked
    return kind(
        f"{who} answered {status}: {message or _phrase(status)}; {_advice(kind, wait)}",
        status=status,
        code=one_line(vendor_error.code or vendor_error.kind, secrets),
        request_id=request_id(headers),
        retry_after=wait,
    )


def proxy_login(who: str, variable: str) -> InvalidRequest:
    return InvalidRequest(
        f"the proxy on the way to {who} wants a valid login: write {variable} as http://USER:PASSWORD@HOST:PORT",
        status=_PROXY_LOGIN,
    )


def error_in_stream(who: str, value: Any, *, request_id: str = "") -> ModelError:
    """The error that a vendor reported after its stream had begun."""
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
    return f"wait {_span(wait)}, or name another model"


def _span(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds > 2 * length:
            return f"{math.ceil(seconds / length)} {unit}"
    return f"{math.ceil(seconds)} s"


def _class_of(status: int | None, vendor_error: VendorError) -> type[ModelError]:
    if status in (None, 400, 413, 422) and _is_overflow(vendor_error):
        return ContextOverflow
    named = _BY_CODE.get(vendor_error.code) or _BY_CODE.get(vendor_error.kind)
    if status is None:
        return named or ServerFailed
    if status == 400 and named in (ModelNotFound, AuthenticationFailed):
        return named
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ServerFailed if status >= 500 else InvalidRequest


def _is_overflow(vendor_error: VendorError) -> bool:
    text = f"{vendor_error.code} {vendor_error.kind} {vendor_error.message}".lower()
    return any(phrase in text for phrase in _OVERFLOW_PHRASES)


def _phrase(status: int) -> str:
    from http import HTTPStatus

    return HTTPStatus(status).phrase.lower() if status in set(HTTPStatus) else "no reason given"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until the vendor wants to be asked again, from a number or an HTTP date."""
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


def request_id(headers: Mapping[str, str]) -> str:
    return headers.get("request-id") or headers.get("x-request-id") or ""


def one_line(text: str, secrets: Iterable[str] = ()) -> str:
    """Text fit for a message: no secret, no line break, at most `BODY_LIMIT` characters."""
    return " ".join(redact(text, secrets)[:BODY_LIMIT].split()).rstrip(".")
