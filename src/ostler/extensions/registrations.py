"""What an extension has registered: plain data that the host puts to use, and forgets on reload."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import field

from ostler.context.fences import Fence
from ostler.kernel.hooks import TIME_LIMIT, Point
from ostler.kernel.tool import Tool

Function = Callable[..., Any]
"""Takes its subject, or its subject and the context; plain or async."""


class HookHandler(msgspec.Struct, frozen=True):
    point: Point
    function: Function
    guard: bool = False
    time_limit: float = TIME_LIMIT


class Observer(msgspec.Struct, frozen=True):
    """Sees events of some types, one by one or as a batch."""

    function: Function
    batch: bool = False
    is_async: bool = False


class BroughtFence(msgspec.Struct, frozen=True):
    fence: Fence
    time_limit: float = TIME_LIMIT


class Command(msgspec.Struct, frozen=True):
    """`/name arguments`. What it returns is printed."""

    name: str
    function: Function
    description: str = ""
    complete: Callable[..., Any] | None = None
    """Suggestions for what was typed so far."""


class Shortcut(msgspec.Struct, frozen=True):
    """A key that a face in the same process calls the function for."""

    key: str
    function: Function
    description: str = ""
    is_repeated: bool = False
    """The same extension had registered the key before."""


class Option(msgspec.Struct, frozen=True):
    """A setting of the extension's own."""

    name: str
    description: str = ""
    default: str = ""


class ToolRenderer(msgspec.Struct, frozen=True):
    """How calls of a tool are shown. A function that returns nothing leaves it to the face."""

    tool: str
    title: str = ""
    color: str = ""
    background: str = ""
    markdown: bool = False
    """The body is Markdown."""
    header: Callable[[dict[str, Any], int], str | Awaitable[str | None] | None] | None = None
    body: Callable[[str, bool, int], str | Awaitable[str | None] | None] | None = None


class MessageRenderer(msgspec.Struct, frozen=True):
    """A named way to show a text; see `context.render_message`."""

    name: str
    function: Callable[[str, int], str | Awaitable[str]]


class Registrations(msgspec.Struct):
    """Of one extension, in the order in which they were made."""

    hooks: list[HookHandler] = field(default_factory=list)
    observers: dict[type, list[Observer]] = field(default_factory=dict)
    custom: dict[str, list[Function]] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    fences: dict[str, BroughtFence] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)
    shortcuts: dict[str, Shortcut] = field(default_factory=dict)
    options: dict[str, Option] = field(default_factory=dict)
    tool_renderers: dict[str, ToolRenderer] = field(default_factory=dict)
    message_renderers: dict[str, MessageRenderer] = field(default_factory=dict)
