"""The script of a fake vendor, in one format for all APIs, and helpers that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ostler.schema.messages import StopReason
from ostler.schema.usage import Usage


class Say(msgspec.Struct, frozen=True, tag_field="type", tag="say", forbid_unknown_fields=True):
    """Text, streamed in these pieces."""

    pieces: tuple[str, ...]


class Think(msgspec.Struct, frozen=True, tag_field="type", tag="think", forbid_unknown_fields=True):
    """Reasoning. `redacted` is the content of a block that only the vendor can read."""

    pieces: tuple[str, ...] = ()
    signature: str = ""
    redacted: str = ""


class Call(msgspec.Struct, frozen=True, tag_field="type", tag="call", forbid_unknown_fields=True):
    """A tool call. `pieces` are the arguments' JSON text as it is streamed, valid or not."""

    name: str
    pieces: tuple[str, ...] = ()
    id: str = ""


class Cite(msgspec.Struct, frozen=True, tag_field="type", tag="cite", forbid_unknown_fields=True):
    """A source of the text before it."""

    url: str
    title: str = ""


class Trouble(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What goes wrong after so many frames of the stream.

    `cut` drops the connection, `end` closes the body as if it were complete, `silence` sends nothing more
    until the client disconnects, `malformed` sends a frame that is no JSON, `error` reports an error.
    """

    kind: Literal["cut", "end", "silence", "malformed", "error"]
    after: int
    code: str = "overloaded_error"
    message: str = "Overloaded"


class Turn(msgspec.Struct, frozen=True, tag_field="type", tag="turn", forbid_unknown_fields=True):
    """One answer. A plain string among the parts is text in one piece."""

    parts: tuple[str | Say | Think | Call | Cite, ...] = ()
    stop: StopReason | None = None
    """By default `tool_calls` when there is a call, else `end`."""
    usage: Usage | None = Usage(input_tokens=10, output_tokens=5)
    """None: the vendor reports no usage, if its API allows that."""
    trouble: Trouble | None = None
    delay: float = 0.0
    """Seconds before each frame."""

    @property
    def stop_reason(self) -> StopReason:
        calls = any(isinstance(part, Call) for part in self.parts)
        return self.stop or ("tool_calls" if calls else "end")

    @property
    def blocks(self) -> list[Say | Think | Call | Cite]:
        return [Say((part,)) if isinstance(part, str) else part for part in self.parts]


class Refusal(msgspec.Struct, frozen=True, tag_field="type", tag="refusal", forbid_unknown_fields=True):
    """An HTTP error. Without a `body`, `code` and `message` are sent in the vendor's own format."""

    status: int
    message: str = "refused by the script"
    code: str = ""
    headers: dict[str, str] = {}
    body: str | None = None


Answer = Turn | Refusal
Script = Sequence[Answer] | Callable[[dict[str, Any]], Answer]
"""Answers in order, or a function of the request's JSON."""


def say(*pieces: str) -> Say:
    return Say(pieces)


def call(name: str, arguments: dict[str, Any] | str = "", *, id: str = "", size: int = 16) -> Call:
    """A call. Its arguments, a value or JSON text, are streamed in pieces of `size` characters."""
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return Call(name, tuple(text[i : i + size] for i in range(0, len(text), size)), id)


def turn(*parts: str | Say | Think | Call | Cite, **fields: Any) -> Turn:
    return Turn(parts, **fields)


def read_script(path: Path) -> list[Answer]:
    """A script from a file: a JSON list of answers, each with its `type`."""
    return msgspec.json.decode(path.read_bytes(), type=list[Answer])


def event_frame(name: str, /, **fields: Any) -> bytes:
    """A server-sent event with a name, which is also the type of its JSON."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode({"type": name, **fields}))


def is_json_object(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return False
    return True


def prompt_tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
