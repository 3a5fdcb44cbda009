"""The frames of the extension protocol: one JSON object per line, with a `type`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ostler.core.tool import ToolKind
from ostler.schema.live_events import snake_case

PROTOCOL_VERSION = 1
MAX_LINE = 4 * 1024 * 1024
"""Bytes of a line, in either direction, without its newline."""
Intercepted = Literal["tool_call", "turn_start", "assistant_message"]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""Vendors accept no other names of tools."""
CommandName = Annotated[str, Meta(pattern=r"^/?[^\s/]{1,64}$")]
Seconds = Annotated[float, Meta(gt=0, le=86400)]
PanelId = Annotated[str, Meta(min_length=1, max_length=64)]


class Received(msgspec.Struct, frozen=True, tag_field="type", tag=snake_case):
    """A frame from an extension. Unknown fields are ignored; null is the same as absent."""


class Hello(Received, frozen=True):
    """The first line."""

    name: str = ""
    version: str = ""
    capabilities: tuple[str, ...] = ()
    """With `ready`, the extension is ready when it sends that, not when it sends nothing for a moment."""


class RegisterTool(Received, frozen=True):
    name: Name
    description: str = ""
    schema: dict[str, Any] = {}
    timeout: Seconds = 60.0
    kind: ToolKind = "other"
    parallel: bool = False


class RegisterCommand(Received, frozen=True):
    name: CommandName
    description: str = ""


class Subscribe(Received, frozen=True):
    events: tuple[str, ...] = ()
    intercept: tuple[Intercepted, ...] = ()
    guard: bool = True
    """If an intercept of this frame fails or times out, the call, step or message is refused."""


class Ready(Received, frozen=True):
    """Everything that is needed from the first step on is registered."""


class ToolOutput(Received, frozen=True):
    id: str
    text: str
    stream: Literal["out", "err"] = "out"


class ContentBlock(msgspec.Struct, frozen=True):
    type: str
    text: str = ""
    mime_type: str = ""
    data: str = ""


class ToolResult(Received, frozen=True):
    id: str
    content: tuple[ContentBlock, ...] = ()
    is_error: bool = False


class Panel(msgspec.Struct, frozen=True):
    id: PanelId
    title: str = ""
    lines: tuple[str, ...] = ()
    footer: str = ""


class CommandResponse(Received, frozen=True):
    id: str
    action: str = "noop"
    prompt: str = ""
    insert: str = ""
    display: str = ""
    open_panel: Panel | None = None
    error: str = ""


class EventInterceptResponse(Received, frozen=True):
    id: str
    block: bool = False
    reason: str = ""
    modified_args: dict[str, Any] | UnsetType = UNSET
    replace_text: str | UnsetType = UNSET


class PanelRender(Received, frozen=True):
    panel_id: PanelId
    title: str = ""
    lines: tuple[str, ...] = ()
    footer: str = ""
    session: str = ""


class PanelClose(Received, frozen=True):
    panel_id: PanelId
    session: str = ""


class Notify(Received, frozen=True):
    message: str
    level: Literal["info", "success", "warn", "error"] = "info"
    session: str = ""


class Log(Received, frozen=True):
    message: str
    level: str = "info"


class StateGet(Received, frozen=True):
    id: str
    key: str
    session: str = ""


class StateSet(Received, frozen=True):
    key: str
    value: Any = None
    id: str = ""
    session: str = ""


class StateDelete(Received, frozen=True):
    key: str
    id: str = ""
    session: str = ""


class StateList(Received, frozen=True):
    id: str
    session: str = ""


class ShutdownAck(Received, frozen=True):
    """It has read `shutdown` and is about to exit."""


AnyReceived = (
    Hello
    | RegisterTool
    | RegisterCommand
    | Subscribe
    | Ready
    | ToolOutput
    | ToolResult
    | CommandResponse
    | EventInterceptResponse
    | PanelRender
    | PanelClose
    | Notify
    | Log
    | StateGet
    | StateSet
    | StateDelete
    | StateList
    | ShutdownAck
)


class Sent(msgspec.Struct, frozen=True, tag_field="type", tag=snake_case):
    """A frame to an extension, with all fields unless the frame says otherwise."""


class HelloAck(Sent, frozen=True):
    ostler_version: str
    cwd: str
    extension_dir: str
    data_dir: str
    protocol_version: int = PROTOCOL_VERSION


class ToolCall(Sent, frozen=True):
    id: str
    name: str
    args: dict[str, Any]
    session: str
    call: str
    """The call's id in the session and in its events."""


class ToolCancel(Sent, frozen=True):
    id: str
    reason: str


class CommandInvoked(Sent, frozen=True):
    id: str
    name: str
    args: str
    session: str


class Event(Sent, frozen=True, omit_defaults=True):
    """An event, with only the fields that belong to it."""

    event: str
    session: str
    step: int = 0
    stop: str = ""
    error: str = ""
    tool_id: str = ""
    tool_name: str = ""
    tool_args: dict[str, Any] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data: Any = None
    """The event as it is in the session."""
    cut: bool = False
    """`data` is left out, since the line would be too long."""


class EventIntercept(Sent, frozen=True, omit_defaults=True):
    """A request for a decision, with only the fields that belong to the event."""

    id: str
    event: Intercepted
    session: str
    step: int = 0
    tool_id: str = ""
    tool_name: str = ""
    tool_args: dict[str, Any] | UnsetType = UNSET
    text: str | UnsetType = UNSET


class PanelKey(Sent, frozen=True):
    panel_id: str
    key: str
    text: str
    session: str


class PanelResize(Sent, frozen=True):
    width: int
    height: int
    session: str


class PanelClosed(Sent, frozen=True, tag="panel_close"):
    panel_id: str
    session: str


class StateResult(Sent, frozen=True, omit_defaults=True):
    """`value` answers `state_get`, `keys` answers `state_list`; `error` says why nothing was done."""

    id: str
    value: Any = None
    keys: tuple[str, ...] | UnsetType = UNSET
    error: str = ""


class Gap(Sent, frozen=True):
    """Subscribed events are missing here."""

    lost: Literal["live", "any"]
    count: int


class Problem(Sent, frozen=True):
    """A frame of the extension could not be used."""

    message: str


class Shutdown(Sent, frozen=True):
    """Acknowledge and exit: the input ends after this line."""


class MalformedFrame(Exception):
    """A line that is not a valid frame, with its `type` and `id` if it has them."""

    def __init__(self, problem: str, type: str = "", id: str = "") -> None:
        super().__init__(problem)
        self.type = type
        self.id = id


_encoder = msgspec.json.Encoder()
_TYPES = {str(kind.__struct_config__.tag) for kind in Received.__subclasses__()}


def line_of(frame: Sent) -> bytes:
    return _encoder.encode(frame) + b"\n"


def read_frame(line: bytes) -> AnyReceived:
    """Raises `MalformedFrame`."""
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise MalformedFrame(f"a line is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise MalformedFrame("a line is not a JSON object")
    kind, id = fields.get("type"), fields.get("id")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise MalformedFrame(f"there is no frame of the type {kind!r:.60}")
    fields = _without_nulls(fields)
    if isinstance(panel := fields.get("open_panel"), dict):
        fields["open_panel"] = _without_nulls(panel)
    try:
        frame: AnyReceived = msgspec.convert(fields, AnyReceived)
        return frame
    except msgspec.ValidationError as error:
        problem = f"a frame {kind!r} is malformed: {error}"
        raise MalformedFrame(problem, kind, id if isinstance(id, str) else "") from None


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    """Many languages, above all Go, write null for unset fields."""
    return {name: value for name, value in fields.items() if value is not None}
