"""The one tree of errors. Exit codes, HTTP statuses and what the model is told derive from it.

OstlerError
├── UsageError                  the person asked for something that cannot be
│   ├── ConfigurationError      a configuration file or variable is wrong
│   ├── NotFound                no such session, entry, tool, blob
│   └── SessionBusy             a run is open: it can be done when that has ended
├── NoModel                     nothing is configured that could answer
├── ModelError                  a model call failed
│   ├── ConnectionFailed        no connection: refused, name unknown, TLS, proxy
│   ├── AuthenticationFailed    401: the key is missing or wrong
│   ├── PermissionDenied        403: the key may not do this
│   ├── ModelNotFound           404: the vendor does not know the model
│   ├── InvalidRequest          400, 422 and the rest of 4xx
│   ├── ContextOverflow         the request is larger than the model's context
│   ├── RateLimited             429
│   ├── Overloaded              529, 503: come back later
│   ├── ServerFailed            other 5xx
│   ├── StreamBroken            the answer never began, ended before its end, or broke its wire's rules
│   ├── StreamSilent            nothing arrived for too long
│   ├── InvalidAnswer           the answer does not fit what was asked for
│   └── Interrupted             our own process ended during the call
├── ToolError                   a call failed
│   ├── UnknownTool             protocol: the model named a tool that does not exist
│   ├── InvalidArguments        protocol: the arguments do not fit the schema, or are not JSON
│   ├── CallRefused             a hook, a permission or a person said no
│   ├── ToolTimedOut
│   ├── ToolCancelled
│   ├── ToolInterrupted         the process ended while it ran; its effect may have happened
│   └── ToolFailed              it ran and failed
├── StoreError                  the log cannot be used
│   ├── StoreBusy               another process holds the database too long
│   ├── StoreReadOnly
│   ├── StoreFull
│   ├── StoreNewer              written by a newer version
│   ├── StoreCorrupt
│   ├── SessionHeld             another living process holds the lease
│   └── LeaseLost               we held it, and do not any more
└── NotTrusted                  a project's own configuration asks for more than its user has granted
"""
# MERGED: How to get a part of Ostler that is not installed by default.

from __future__ import annotations

import msgspec


class OstlerError(Exception):
    """`message` says what happened, to what, and what to do; it is fit for one line on a terminal."""

    exit_code = 1
    http_status = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UsageError(OstlerError):
    exit_code = 2
    http_status = 400


class ConfigurationError(UsageError):
    pass


class NotFound(UsageError):
    http_status = 404


class SessionBusy(UsageError):
    http_status = 409


class NoModel(OstlerError):
    exit_code = 3
    http_status = 503


class ModelError(OstlerError):
    """`retry_after` is the vendor's own word on when to come back, in seconds."""

    http_status = 502

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        stream_opened: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        self.stream_opened = stream_opened


class ConnectionFailed(ModelError):
    pass


class AuthenticationFailed(ModelError):
    pass


class PermissionDenied(ModelError):
    pass


class ModelNotFound(ModelError):
    pass


class InvalidRequest(ModelError):
    pass


class ContextOverflow(ModelError):
    pass


class RateLimited(ModelError):
    pass


class Overloaded(ModelError):
    pass


class ServerFailed(ModelError):
    pass


class StreamBroken(ModelError):
    pass


class StreamSilent(ModelError):
    pass


class InvalidAnswer(ModelError):
    pass


class Interrupted(ModelError):
    pass


class ToolError(OstlerError):
    pass


class UnknownTool(ToolError):
    pass


class InvalidArguments(ToolError):
    pass


class CallRefused(ToolError):
    exit_code = 4


class ToolTimedOut(ToolError):
    pass


class ToolCancelled(ToolError):
    pass


class ToolInterrupted(ToolError):
    pass


class ToolFailed(ToolError):
    pass


class StoreError(OstlerError):
    http_status = 503


class StoreBusy(StoreError):
    pass


class StoreReadOnly(StoreError):
    pass


class StoreFull(StoreError):
    http_status = 507


class StoreNewer(StoreError):
    pass


class StoreCorrupt(StoreError):
    pass


class SessionHeld(StoreError):
    http_status = 409


class LeaseLost(StoreError):
    http_status = 409


class NotTrusted(OstlerError):
    exit_code = 4
    http_status = 403


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as data, for facts: `kind` is the snake_case name of its class."""

    kind: str
    message: str
    status: int | None = None
    code: str = ""
    request_id: str = ""
    retry_after: float | None = None
    stream_opened: bool = False


def describe_error(error: BaseException) -> str:
    """What was raised, as `ValueError: no`. Other people's exceptions may raise when they are asked."""
    name = type(error).__name__
    try:
        return f"{name}: {error}" if str(error) else name
    except BaseException:
        return name


def kind_of(error: type[OstlerError]) -> str:
    """The name that is stored and sent: `kind` of the class, or else its name in snake_case."""
    if kind := vars(error).get("kind"):
        return str(kind)
    return "".join([f"_{one.lower()}" if one.isupper() else one for one in error.__name__]).removeprefix("_")


def failure_of(error: OstlerError) -> Failure:
    if isinstance(error, ModelError):
        return Failure(
            kind=kind_of(type(error)),
            message=error.message,
            status=error.status,
            code=error.code,
            request_id=error.request_id,
            retry_after=error.retry_after,
            stream_opened=error.stream_opened,
        )
    return Failure(kind=kind_of(type(error)), message=error.message)


def _tree(root: type[OstlerError]) -> dict[str, type[OstlerError]]:
    found = {kind_of(root): root}
    for child in root.__subclasses__():
        found |= _tree(child)
    return found


ERRORS: dict[str, type[OstlerError]] = _tree(OstlerError)
"""Every class of the tree by its kind."""


def how_to_install(extra: str) -> str:
    """From the folder that it was installed from: another project has the name in the public index."""
    return f"in Ostler's folder say `.venv/bin/pip install -e '.[{extra}]'`"
