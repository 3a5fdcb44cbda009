"""Live events: deltas, which the fact that follows holds or names, and live values, replaced whole."""
# MERGED: The four kinds of events.

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
    """Present state; never stored."""


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
    """What a running tool prints. `offset` counts characters of this call's output before it."""

    call: str
    offset: int
    text: str
    stream: Literal["out", "err"] = "out"


class ChildEvent(Delta, frozen=True):
    """An event of a child run, seen live under the parent's call; its own log is the truth."""

    call: str
    child: str
    """The child's session."""
    event: Any
    """As a line of its own: a fact with its envelope, or a live event."""

    def line(self) -> bytes:
        """What `event` tells, also where this one came over a wire, and has it decoded."""
        return bytes(self.event) if isinstance(self.event, msgspec.Raw) else msgspec.json.encode(self.event)


class LiveValue(LiveEvent, frozen=True):
    """A widget, a status entry, a terminal agent's screen or status. `None` removes it."""

    name: str
    value: Any = None


class Printed(LiveEvent, frozen=True):
    """What an extension says to people: plain, as information or as an error, or as a block of its own."""

    text: str
    level: Literal["plain", "info", "error", "block"] = "plain"
    extension: str = ""
    title: str = ""
    """Of a block: under its text."""
    color: str = ""
    """Of a block's border, as `#rrggbb`."""


class StoreFailed(LiveEvent, frozen=True):
    """The log cannot be written: nothing more is acted on. Recovery writes the end later."""

    failure: Failure


class StreamIncomplete(LiveEvent, frozen=True):
    """This follower sees facts only: the owner's live channel cannot be reached."""

    reason: str


class CaughtUp(LiveEvent, frozen=True):
    """A follower has been sent everything up to this fact, and what is open: what comes now is new."""

    after: int
    """Its number: whoever is cut off now goes on behind it."""


class SessionListed(LiveEvent, frozen=True):
    """In the stream of all sessions: the list of them has changed, and no fact of theirs says so."""

    change: Literal["imported", "deleted"]
