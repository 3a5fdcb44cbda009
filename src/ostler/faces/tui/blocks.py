"""What a person sees of a session, piece by piece: closed blocks, which never change, and the open tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.vocabulary.display import Display
from ostler.vocabulary.events import Printed
from ostler.vocabulary.messages import Image

if TYPE_CHECKING:  # loaded when there is an answer
    from ostler.faces.tui.drawing.growing_markdown import Part

Level = Literal["info", "warning", "error"]
CallStage = Literal["writing", "waiting", "running", "done", "failed", "refused", "stopped"]


class UserBlock(msgspec.Struct, frozen=True):
    """What a person said."""

    text: str
    attachments: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    """That are among them."""
    is_steer: bool = False


class TextBlock(msgspec.Struct, frozen=True):
    """A part of an answer: a paragraph, a list, a piece of code."""

    part: Part


class ReasoningBlock(msgspec.Struct, frozen=True):
    """What the model thought, folded."""

    text: str
    seconds: float = 0.0


class ChildLine(msgspec.Struct, frozen=True):
    """What a child does, in one line."""

    name: str
    line: str = ""
    is_growing: bool = False
    """It is being said: its end is what is new."""


class CallBlock(msgspec.Struct, frozen=True):
    """A call of a tool, from the first letter of its arguments to its result."""

    call: str
    name: str
    stage: CallStage
    arguments: dict[str, Any] = {}
    kind: str = "other"
    display: Display | None = None
    result: str = ""
    details: dict[str, Any] | None = None
    summary: str = ""
    seconds: float = 0.0
    children: tuple[ChildLine, ...] = ()
    images: tuple[Image, ...] = ()
    """In its result."""


class NoticeBlock(msgspec.Struct, frozen=True):
    """Something a person should know."""

    text: str
    level: Level = "info"


class PrintedBlock(msgspec.Struct, frozen=True):
    """What an extension says."""

    printed: Printed


class ReceiptBlock(msgspec.Struct, frozen=True):
    """The end of a run: how it went, what it took."""

    status: str
    reason: str = ""
    tools: int = 0
    tokens: int | None = 0
    """None, if a model has answered and nobody says how many."""
    cost: float | None = None
    seconds: float = 0.0


Item = UserBlock | TextBlock | ReasoningBlock | CallBlock | NoticeBlock | PrintedBlock | ReceiptBlock
