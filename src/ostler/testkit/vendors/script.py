"""What a fake vendor answers, in one format for every wire."""

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
    """Reasoning. `redacted` stands for one that only its vendor can read."""

    pieces: tuple[str, ...] = ()
    signature: str = ""
    redacted: str = ""


class Call(msgspec.Struct, frozen=True, tag_field="type", tag="call", forbid_unknown_fields=True):
    """A tool call. `pieces` are the arguments' JSON text as it is streamed, valid or not."""

    name: str
    pieces: tuple[str, ...] = ()
    id: str = ""


class Cite(msgspec.Struct, frozen=True, tag_field="type", tag="cite", forbid_unknown_fields=True):
    """A source for the text before it, as the wire names one."""

    url: str
    title: str = ""


class Trouble(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What goes wrong after so many frames of the stream have been sent.

    `cut` drops the connection, `end` closes the body as if it were whole, `silence` sends nothing more until
    the client leaves, `malformed` sends a frame that is no JSON, `error` reports one in the stream.
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
    """Without one the wire reports none, where it lets a vendor do so."""
    trouble: Trouble | None = None
    delay: float = 0.0
    """Seconds before each frame."""

    @property
    def stop_reason(self) -> StopReason:
        calls = any(isinstance(part, Call) for part in self.parts)
        return self.stop or ("tool_calls" if calls else "end")


class Refusal(msgspec.Struct, frozen=True, tag_field="type", tag="refusal", forbid_unknown_fields=True):
    """An HTTP error. Without a `body` the wire's own shape carries `code` and `message`."""

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
    """A call whose arguments, given as a value or as JSON text, are streamed in pieces of `size`."""
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return Call(name, tuple(text[i : i + size] for i in range(0, len(text), size)), id)


def turn(*parts: str | Say | Think | Call | Cite, **rest: Any) -> Turn:
    return Turn(parts, **rest)


def read_script(path: Path) -> list[Answer]:
    """A script from a file: a JSON list of answers, each with its `type`."""
    return msgspec.json.decode(path.read_bytes(), type=list[Answer])
