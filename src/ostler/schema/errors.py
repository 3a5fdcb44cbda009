"""The tree of errors, from which exit codes, HTTP statuses and messages to the model derive.

OstlerError
├── UsageError                  the user asked for something impossible
│   ├── ConfigurationError      a configuration file or variable is wrong
│   ├── NotFound                no such session, entry, tool, blob
│   └── SessionBusy             a run is open: try again when it has ended
├── NoModel                     no configured model can answer
├── ModelError                  a model call failed
│   ├── ConnectionFailed        no connection: refused, name unknown, TLS, proxy
│   ├── AuthenticationFailed    401: the key is missing or wrong
│   ├── PermissionDenied        403: the key may not do this
│   ├── ModelNotFound           404: the vendor does not know the model
│   ├── InvalidRequest          400, 422 and the rest of 4xx
│   ├── ContextOverflow         the request is larger than the model's context
│   ├── RateLimited             429
│   ├── Overloaded              529, 503: try again later
│   ├── ServerFailed            other 5xx
│   ├── StreamBroken            the answer did not start, was truncated, or violated the protocol
│   ├── StreamSilent            nothing arrived for too long
│   ├── InvalidAnswer           the answer does not fit the requested schema
│   └── Interrupted             our own process ended during the call
├── ToolError                   a call failed
│   ├── UnknownTool             protocol: the model named a tool that does not exist
│   ├── InvalidArguments        protocol: the arguments do not fit the schema, or are not JSON
│   ├── CallRefused             a hook, a permission or the user refused it
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
│   └── LeaseLost               we no longer hold it
└── NotTrusted                  a project's configuration needs more than the user has granted
"""

from __future__ import annotations

import msgspec


class OstlerError(Exception):
    """`message` says what happened, to what, and what to do, in one line."""

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
    """`retry_after` is the delay in seconds that the vendor asks for."""

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
    """The error as `ValueError: no`. The `__str__` of a foreign exception may raise."""
    name = type(error).__name__
    try:
        return f"{name}: {error}" if str(error) else name
    except BaseException:
        return name


def kind_of(error: type[OstlerError]) -> str:
    """The name that is stored and sent: the class's `kind`, or its name in snake_case."""
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
    errors = {kind_of(root): root}
    for child in root.__subclasses__():
        errors |= _tree(child)
    return errors


ERRORS: dict[str, type[OstlerError]] = _tree(OstlerError)
"""Every class of the tree by its kind."""


def how_to_install(extra: str) -> str:
    """The command, in Ostler's folder: on PyPI the name belongs to another project."""
    return f"in Ostler's folder say `.venv/bin/pip install -e '.[{extra}]'`"
