"""The tree of errors, from which exit codes, HTTP statuses and messages to the model derive."""

from __future__ import annotations

import msgspec


class OstlerError(Exception):
    """The base of all errors. `message` says what happened, to what, and what to do, in one line."""

    exit_code = 1
    http_status = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UsageError(OstlerError):
    """The user asked for something impossible."""

    exit_code = 2
    http_status = 400


class ConfigurationError(UsageError):
    """A configuration file or variable is wrong."""


class NotFound(UsageError):
    """There is no such session, entry, tool or blob."""

    http_status = 404


class SessionBusy(UsageError):
    """A run is open: try again when it has ended."""

    http_status = 409


class ConsentRefused(UsageError):
    """The process that answers, allows or trusts was started by an agent."""

    exit_code = 4
    http_status = 403


class NoModel(OstlerError):
    """No configured model can answer."""

    exit_code = 3
    http_status = 503


class ModelError(OstlerError):
    """A model call failed. `retry_after` is the delay in seconds that the vendor asks for."""

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
    """No connection: refused, name unknown, TLS, proxy."""


class AuthenticationFailed(ModelError):
    """401: the key is missing or wrong."""


class PermissionDenied(ModelError):
    """403: the key may not do this."""


class ModelNotFound(ModelError):
    """404: the vendor does not know the model."""


class InvalidRequest(ModelError):
    """400, 422 and all other 4xx."""


class ContextOverflow(ModelError):
    """The request is larger than the model's context."""


class RateLimited(ModelError):
    """429."""


class Overloaded(ModelError):
    """529, 503: try again later."""


class ServerFailed(ModelError):
    """Other 5xx."""


class StreamBroken(ModelError):
    """The answer did not start, was truncated, or violated the protocol."""


class StreamSilent(ModelError):
    """Nothing arrived for too long."""


class InvalidAnswer(ModelError):
    """The answer does not fit the requested schema."""


class Interrupted(ModelError):
    """Our own process ended during the call."""


class ToolError(OstlerError):
    """A call failed."""


class UnknownTool(ToolError):
    """Protocol: the model named a tool that does not exist."""


class InvalidArguments(ToolError):
    """Protocol: the arguments do not fit the schema, or are not JSON."""


class CallRefused(ToolError):
    """A hook, a permission or the user refused it."""

    exit_code = 4


class ToolTimedOut(ToolError):
    """It took longer than its timeout."""


class ToolCancelled(ToolError):
    """It was cancelled."""


class ToolInterrupted(ToolError):
    """The process ended while it ran; its effect may have happened."""


class ToolFailed(ToolError):
    """It ran and failed."""


class StoreError(OstlerError):
    """The log cannot be used."""

    http_status = 503


class StoreBusy(StoreError):
    """Another process holds the database too long."""


class StoreReadOnly(StoreError):
    """The log cannot be written."""


class StoreFull(StoreError):
    """The disk is full."""

    http_status = 507


class StoreNewer(StoreError):
    """Written by a newer version."""


class StoreCorrupt(StoreError):
    """The log is damaged."""


class SessionHeld(StoreError):
    """Another living process holds the lease."""

    http_status = 409


class LeaseLost(StoreError):
    """We no longer hold it."""

    http_status = 409


class NotTrusted(OstlerError):
    """A project's configuration needs more than the user has granted."""

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
    name = error.__name__
    return "".join([f"_{letter.lower()}" if letter.isupper() else letter for letter in name])[1:]


def failure_of(error: OstlerError) -> Failure:
    kind = kind_of(type(error))
    if not isinstance(error, ModelError):
        return Failure(kind, error.message)
    details = (error.status, error.code, error.request_id, error.retry_after, error.stream_opened)
    return Failure(kind, error.message, *details)


def _tree(root: type[OstlerError]) -> dict[str, type[OstlerError]]:
    errors = {kind_of(root): root}
    for child in root.__subclasses__():
        errors |= _tree(child)
    return errors


ERRORS: dict[str, type[OstlerError]] = _tree(OstlerError)
"""Every class of the tree by its kind."""


def how_to_install(extra: str) -> str:
    """Names the extra, not a command: on PyPI the name belongs to another project."""
    return f"install `ostler[{extra}]`"
