"""What a person sees of a session, piece by piece: closed blocks, which never change, and the open tail."""
# MERGED: A prompt as the person who said it sees it: their words, and by name what was shown with them.

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.schema.events import Printed
from ostler.schema.messages import Block, File, Image, Text
from ostler.schema.outcomes import Display

if TYPE_CHECKING:
    from ostler.tui.render.markdown_stream import Part


Level = Literal["info", "warning", "error"]

CallStage = Literal["writing", "waiting", "running", "done", "failed", "refused", "stopped"]


class UserItem(msgspec.Struct, frozen=True):
    """What a person said."""

    text: str
    attachments: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    """That are among them."""
    is_steer: bool = False


class TextItem(msgspec.Struct, frozen=True):
    """A part of an answer: a paragraph, a list, a piece of code."""

    part: Part


class ReasoningItem(msgspec.Struct, frozen=True):
    """What the model thought, folded."""

    text: str
    seconds: float = 0.0


class ChildItem(msgspec.Struct, frozen=True):
    """What a child does, in one line."""

    name: str
    line: str = ""
    is_growing: bool = False
    """It is being said: its end is what is new."""


class CallItem(msgspec.Struct, frozen=True):
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
    children: tuple[ChildItem, ...] = ()
    images: tuple[Image, ...] = ()
    """In its result."""


class NoticeItem(msgspec.Struct, frozen=True):
    """Something a person should know."""

    text: str
    level: Level = "info"


class PrintedItem(msgspec.Struct, frozen=True):
    """What an extension says."""

    printed: Printed


class RunEndItem(msgspec.Struct, frozen=True):
    """The end of a run: how it went, what it took."""

    status: str
    reason: str = ""
    tools: int = 0
    tokens: int | None = 0
    """None, if a model has answered and nobody says how many."""
    cost: float | None = None
    seconds: float = 0.0


Item = UserItem | TextItem | ReasoningItem | CallItem | NoticeItem | PrintedItem | RunEndItem


_HEADING = re.compile(r"--- (.+), (?:as read shows it|without what is ignored or hidden) ---")
"""What `context/mentions.py` writes above the content of a file or a folder."""


def item_text(content: Sequence[Block]) -> str:
    """What was typed: the first text. Others hold what it mentions."""
    return next((block.text for block in content if isinstance(block, Text)), "")


def attachments_of(content: Sequence[Block]) -> tuple[str, ...]:
    """Files, folders and pictures, a line each. Nobody wants to read a file again that they have named."""
    first = next((block for block in content if isinstance(block, Text)), None)
    names: list[str] = []
    is_captioned = False
    for block in content:
        if block is first:
            continue
        if not (is_captioned and isinstance(block, Image)):
            names.append(_name(block))
        is_captioned = isinstance(block, Text)  # a picture of a file comes behind a text with its name
    return tuple(filter(None, names))


def _name(block: Block) -> str:
    match block:
        case Text(text=text):
            heading, _, body = text.rstrip("\n").partition("\n")
            lines = len(body.splitlines())
            return _HEADING.sub(r"\1", heading) + (f" · {lines} line{'s' * (lines > 1)}" if lines else "")
        case Image():
            from ostler.tui.render.images import image_words

            return image_words(block)
        case File(name=name, media_type=media_type):
            return name or media_type
        case _:
            return ""
