"""An extension: its origin, status and registrations; and its summary for lists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import field

from ostler.context.providers import ContextProvider
from ostler.core.hooks import TIME_LIMIT, Point
from ostler.core.tool import Tool
from ostler.extensions.executor import Handler, Worker
from ostler.extensions.loader.discovery import Origin


class HookHandler(msgspec.Struct, frozen=True):
    point: Point
    handler: Handler
    guard: bool = False
    time_limit: float = TIME_LIMIT


class Observer(msgspec.Struct, frozen=True):
    """Handles events of some types, one by one or in batches."""

    handler: Handler
    batch: bool = False


class RegisteredProvider(msgspec.Struct, frozen=True):
    provider: ContextProvider
    handler: Handler
    time_limit: float = TIME_LIMIT


class Command(msgspec.Struct, frozen=True):
    """`/name arguments`. What it returns is printed."""

    name: str
    handler: Handler
    description: str = ""
    complete: Handler | None = None
    """Returns completions for the text typed so far."""


class Shortcut(msgspec.Struct, frozen=True):
    """A key: a front end in the same process calls the handler."""

    key: str
    handler: Handler
    description: str = ""
    is_repeated: bool = False
    """The same extension has registered the key twice."""


class Option(msgspec.Struct, frozen=True):
    """A setting of the extension's own."""

    name: str
    description: str = ""
    default: str = ""


class ToolRenderer(msgspec.Struct, frozen=True):
    """How calls of a tool are rendered. If a function returns nothing, the front end uses its default."""

    tool: str
    title: str = ""
    color: str = ""
    background: str = ""
    markdown: bool = False
    """The body is Markdown."""
    header: Callable[[dict[str, Any], int], str | Awaitable[str | None] | None] | None = None
    body: Callable[[str, bool, int], str | Awaitable[str | None] | None] | None = None


class MessageRenderer(msgspec.Struct, frozen=True):
    """A named renderer of texts; see `context.render_message`."""

    name: str
    function: Callable[[str, int], str | Awaitable[str]]


class Registrations(msgspec.Struct):
    """Everything that one extension has registered, in order."""

    hooks: list[HookHandler] = field(default_factory=list)
    observers: dict[type, list[Observer]] = field(default_factory=dict)
    custom: dict[str, list[Handler]] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    providers: dict[str, RegisteredProvider] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)
    shortcuts: dict[str, Shortcut] = field(default_factory=dict)
    options: dict[str, Option] = field(default_factory=dict)
    tool_renderers: dict[str, ToolRenderer] = field(default_factory=dict)
    message_renderers: dict[str, MessageRenderer] = field(default_factory=dict)


ExtensionStatus = Literal["loaded", "failed", "untrusted", "changed", "disabled"]


class Extension:
    """An extension, loaded or with the problem that prevents it. A reload makes a new object of that name."""

    def __init__(
        self,
        name: str,
        origin: Origin,
        path: Path | None = None,
        registered: Registrations | None = None,
        *,
        status: ExtensionStatus = "loaded",
        problem: str = "",
        version: str = "",
    ) -> None:
        self.name = name
        self.origin = origin
        self.path = path
        self.registered = registered or Registrations()
        self.status = status
        self.problem = problem
        self.version = version
        self.worker = Worker(name)

    @property
    def events(self) -> tuple[str, ...]:
        """The names of the events that it handles."""
        return (*(one.__name__ for one in self.registered.observers), *self.registered.custom)

    def panel_key(self, session: str, panel: str, key: str, text: str) -> bool:
        """Passes a key to a panel of the extension; False if it has none."""
        return False

    async def close(self) -> None:
        """Stops calling its code."""
        self.worker.abandon()


class ExtensionSummary(msgspec.Struct, frozen=True):
    """An extension in lists, and the result of a trial."""

    name: str
    origin: Origin
    path: str
    version: str
    state: ExtensionStatus
    package: str = ""
    """The package of `ostler ext install` that contains it."""
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    fences: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    problem: str = ""


def summary_of(extension: Extension) -> ExtensionSummary:
    registered = extension.registered
    return ExtensionSummary(
        name=extension.name,
        origin=extension.origin,
        path=str(extension.path or ""),
        version=extension.version,
        state=extension.status,
        tools=tuple(registered.tools),
        commands=tuple(registered.commands),
        fences=tuple(registered.providers),
        hooks=tuple(dict.fromkeys(one.point for one in registered.hooks)),
        events=extension.events,
        problem=extension.problem,
    )
