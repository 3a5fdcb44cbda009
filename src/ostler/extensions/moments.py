"""Moments: what extensions are told of that is no fact, because nothing of it needs to be kept."""

from __future__ import annotations

from typing import Literal

import msgspec


class Moment(msgspec.Struct, frozen=True):
    """Something that just happened around a session."""


class SessionOpened(Moment, frozen=True):
    """An extension begins to work in a session: it was opened, or the extension was loaded anew."""

    session: str
    reason: Literal["open", "reload"] = "open"


class SessionLeft(Moment, frozen=True):
    """The session is about to be given back, or the extension is about to be replaced or removed."""

    session: str
    reason: Literal["close", "reload"] = "close"


class ModelChanged(Moment, frozen=True):
    """Another model is asked from the next step on."""

    model: str
    previous: str
    by: str = "user"


class ReasoningChanged(Moment, frozen=True):
    """The model shall think more, or less, from the next step on."""

    level: str
    previous: str
    by: str = "user"


class StateChanged(Moment, frozen=True):
    """The session began to work, or came to rest: its run ended or waits."""

    state: Literal["working", "idle"]
    previous: Literal["working", "idle"]


class ReasoningStarted(Moment, frozen=True):
    """The model begins to think, in a block of its answer."""

    message: str
    block: int


class TerminalResized(Moment, frozen=True):
    """The terminal of the face has this size now."""

    width: int
    height: int


MOMENTS: tuple[type[Moment], ...] = (
    SessionOpened,
    SessionLeft,
    ModelChanged,
    ReasoningChanged,
    StateChanged,
    ReasoningStarted,
    TerminalResized,
)
