"""The four kinds of events, and the live ones: deltas, which a fact completes, and live values."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from ostler.schema.errors import Failure


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class Event(msgspec.Struct, frozen=True, tag_field="type", tag=snake_case, omit_defaults=True):
    """Something that happened, or is happening."""

    @property
    def type(self) -> str:
        return type(self).__struct_config__.tag  # type: ignore[return-value]


class Entry(Event, frozen=True):
    """A fact on the tree."""


class Record(Event, frozen=True):
    """A fact of the whole session."""


class Delta(Event, frozen=True):
    """A live fragment; never stored."""


class LiveEvent(Event, frozen=True):
    """Current state; never stored."""


class TextDelta(Delta, frozen=True, gc=False, omit_defaults=False):
    """`message` is the id of the `model_called`; `offset` counts characters of this block before it."""

    message: str
    block: int
    offset: int
    text: str


class ReasoningDelta(Delta, frozen=True, gc=False, omit_defaults=False):
    """Like `text_delta`, of a reasoning block."""

    message: str
    block: int
    offset: int
    text: str


class ToolInputStarted(Delta, frozen=True, gc=False, omit_defaults=False):
    """The model begins to write the arguments of a call."""

    message: str
    block: int
    call: str
    name: str


class ToolInputDelta(Delta, frozen=True, gc=False, omit_defaults=False):
    """A fragment of the arguments' JSON text; the fragments of a call join to the whole."""

    message: str
    block: int
    call: str
    offset: int
    text: str


class ToolInputEnded(Delta, frozen=True, gc=False, omit_defaults=False):
    """The arguments of this call are complete."""

    message: str
    block: int
    call: str


class ToolOutput(Delta, frozen=True):
    """Output of a running tool. `offset` counts characters of this call's output before it."""

    call: str
    offset: int
    text: str
    stream: Literal["out", "err"] = "out"


class ChildEvent(Delta, frozen=True):
    """An event of a child run, live in the parent's session; the child's own log is authoritative."""

    call: str
    child: str
    """The child's session."""
    event: Any
    """A fact with its envelope, or a live event."""

    def line(self) -> bytes:
        """`event` as JSON, even if it was decoded on its way here."""
        return bytes(self.event) if isinstance(self.event, msgspec.Raw) else msgspec.json.encode(self.event)


class LiveValue(LiveEvent, frozen=True):
    """A widget, a status entry, a terminal agent's screen or status. `None` removes it."""

    name: str
    value: Any = None


class Printed(LiveEvent, frozen=True):
    """An extension's message to the user: plain, information, an error, or a block of its own."""

    text: str
    level: Literal["plain", "info", "error", "block"] = "plain"
    extension: str = ""
    title: str = ""
    """Of a block."""
    color: str = ""
    """Of a block's border, as `#rrggbb`."""


class StoreFailed(LiveEvent, frozen=True):
    """The log cannot be written: the run stops, and recovery records its end later."""

    failure: Failure


class StreamIncomplete(LiveEvent, frozen=True):
    """This subscriber gets facts only, because the owner's live socket cannot be reached."""

    reason: str


class CaughtUp(LiveEvent, frozen=True):
    """The subscriber has everything up to this fact, and the open messages: what follows is new."""

    after: int
    """The fact's number, after which a client that reconnects continues."""


class SessionListed(LiveEvent, frozen=True):
    """In the stream of all sessions: a change of their list that is no fact."""

    change: Literal["imported", "deleted"]
