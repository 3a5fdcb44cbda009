"""Messages and their content blocks, of users, models and tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

Role = Literal["user", "assistant", "tool"]

StopReason = Literal[
    "end",  # the model finished
    "tool_calls",  # it called tools
    "length",  # it reached its output limit
    "stop_sequence",
    "refusal",  # the vendor or the model declined for policy reasons
    "cancelled",  # we cancelled it; the content is what had arrived
    "other",
]


class Opaque(msgspec.Struct, frozen=True, omit_defaults=True):
    """A provider's own data, sent back unchanged to the provider and wire it came from, and to no other."""

    wire: str
    data: Any
    provider: str = ""
    """Empty in old sessions: then the wire decides."""


class BlobRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names bytes stored beside the log, before any fact that names them."""

    id: str
    size: int
    media_type: str = "application/octet-stream"


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text", omit_defaults=True):
    text: str
    opaque: Opaque | None = None


class Image(msgspec.Struct, frozen=True, tag_field="type", tag="image", omit_defaults=True):
    """An image, in base64 (`data`) or at a URL that the vendor can fetch."""

    media_type: str
    data: str = ""
    url: str = ""


class File(msgspec.Struct, frozen=True, tag_field="type", tag="file", omit_defaults=True):
    """A document for the model, such as a PDF."""

    media_type: str
    name: str = ""
    data: str = ""
    url: str = ""


class Reasoning(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning", omit_defaults=True):
    """The model's reasoning: `text` for users, `opaque` (a signature, an encrypted copy) for its vendor."""

    text: str = ""
    opaque: Opaque | None = None


class ToolCall(msgspec.Struct, frozen=True, tag_field="type", tag="tool_call", omit_defaults=True):
    """A request to run a tool. `arguments` is the JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str
    opaque: Opaque | None = None


class ToolResult(msgspec.Struct, frozen=True, tag_field="type", tag="tool_result", omit_defaults=True):
    """The result of a call, as the model gets it."""

    call: str
    name: str
    content: tuple[Text | Image | File, ...] = ()
    failed: bool = False


Block = Text | Image | File | Reasoning | ToolCall | ToolResult
PlainBlock = Text | Image | File


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of the conversation as the model gets it.

    A `tool` message contains the results of all calls of the assistant message before it, in their order.
    """

    role: Role
    content: tuple[Block, ...] = ()

    @property
    def text(self) -> str:
        return text_of(self.content)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple([block for block in self.content if isinstance(block, ToolCall)])


class TodoItem(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    text: str
    status: Literal["open", "active", "done", "dropped"] = "open"


def text_of(content: Sequence[Block]) -> str:
    """All text blocks of a content, joined by a newline."""
    if len(content) == 1 and type(content[0]) is Text:  # the usual case, thousands of times in a session
        return content[0].text
    return "\n".join([block.text for block in content if isinstance(block, Text)])


def user(*content: str | PlainBlock) -> Message:
    return Message("user", as_content(content))


def as_content(parts: str | Iterable[str | PlainBlock]) -> tuple[PlainBlock, ...]:
    """Content blocks from a string, or from strings and blocks; empty strings are left out."""
    if isinstance(parts, str):
        parts = (parts,)
    return tuple(Text(part) if isinstance(part, str) else part for part in parts if part != "")
