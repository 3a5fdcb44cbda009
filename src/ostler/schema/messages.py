"""Messages and their content blocks: what people say, what models answer, what tools return."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

Role = Literal["user", "assistant", "tool"]


StopReason = Literal[
    "end",  # the model had said what it wanted to say
    "tool_calls",  # it asked for tools
    "length",  # its output limit cut it
    "stop_sequence",
    "refusal",  # the vendor or the model declined on grounds of policy
    "cancelled",  # we cut it; the content is what had arrived
    "other",
]


class Opaque(msgspec.Struct, frozen=True, omit_defaults=True):
    """A provider's own data, replayed losslessly to the provider and wire it came from, and to no other."""

    wire: str
    data: Any
    provider: str = ""
    """Empty in what was stored before there was one: then the wire decides."""


class BlobRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names bytes kept beside the log. They are durable before any fact that names them."""

    id: str
    size: int
    media_type: str = "application/octet-stream"


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text", omit_defaults=True):
    text: str
    opaque: Opaque | None = None


class Image(msgspec.Struct, frozen=True, tag_field="type", tag="image", omit_defaults=True):
    """A picture, in base64 (`data`) or at an address the vendor can fetch."""

    media_type: str
    data: str = ""
    url: str = ""


class File(msgspec.Struct, frozen=True, tag_field="type", tag="file", omit_defaults=True):
    """A document given to the model as it is, such as a PDF."""

    media_type: str
    name: str = ""
    data: str = ""
    url: str = ""


class Reasoning(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning", omit_defaults=True):
    """What the model thought: `text` for people, `opaque` (a signature, an encrypted copy) for its vendor."""

    text: str = ""
    opaque: Opaque | None = None


class ToolCall(msgspec.Struct, frozen=True, tag_field="type", tag="tool_call", omit_defaults=True):
    """A request to run a tool. `arguments` is the JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str
    opaque: Opaque | None = None


class ToolResult(msgspec.Struct, frozen=True, tag_field="type", tag="tool_result", omit_defaults=True):
    """What came of a call, as the model is told it."""

    call: str
    name: str
    content: tuple[Text | Image | File, ...] = ()
    failed: bool = False


Block = Text | Image | File | Reasoning | ToolCall | ToolResult

PlainBlock = Text | Image | File


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of the conversation as the model is told it.

    A `tool` message holds the results of all the calls of the assistant message before it, in the order
    of the calls.
    """

    role: Role
    content: tuple[Block, ...] = ()

    @property
    def text(self) -> str:
        return text_of(self.content)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple([block for block in self.content if isinstance(block, ToolCall)])


def text_of(content: Sequence[Block]) -> str:
    """All text blocks of a content, joined by a newline."""
    if len(content) == 1 and type(content[0]) is Text:  # nearly always, in sessions of thousands of them
        return content[0].text
    return "\n".join([block.text for block in content if isinstance(block, Text)])


def user(*content: str | PlainBlock) -> Message:
    """A user message from strings and blocks."""
    return Message("user", as_content(content))


def as_content(parts: str | Iterable[str | PlainBlock]) -> tuple[PlainBlock, ...]:
    """Content blocks from a string, or from strings and blocks; empty strings are left out."""
    if isinstance(parts, str):
        parts = (parts,)
    return tuple(Text(part) if isinstance(part, str) else part for part in parts if part != "")
