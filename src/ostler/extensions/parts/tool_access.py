"""Tools, as an extension sees them: which there are, and which of them are on offer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from ostler.kernel.hooks import StepPlan
from ostler.kernel.tool import Tool, ToolKind

if TYPE_CHECKING:
    from ostler.extensions.attending import Attending
    from ostler.extensions.context import ExtensionContext
    from ostler.extensions.host import ExtensionHost

ToolSource = Literal["built-in", "mcp", "extension", "host"]

_PACKAGES: dict[str, ToolSource] = {
    "ostler.tools": "built-in",
    "ostler.context": "built-in",
    "ostler.runs": "built-in",
    "ostler.protocols": "mcp",
}


class ToolDescription(msgspec.Struct, frozen=True):
    """A tool that the model may be offered."""

    name: str
    description: str
    source: ToolSource
    """Where it comes from: Ostler, an MCP server, an extension, or the program that embeds Ostler."""
    enabled: bool
    kind: ToolKind = "other"


class Tools:
    """`context.tools`."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context
        self.allowed: frozenset[str] | None = None
        """What this extension lets be offered; None: everything."""

    def all(self) -> list[ToolDescription]:
        """Every tool of the session, on offer or not, by name."""
        context = self._context
        tools = context.calls.do(lambda: dict(context.session.harness.tools))
        offered = set(offered_tools(context.attending, tools))
        brought = {id(tool) for one in context.host.loaded for tool in one.registered.tools.values()}
        return [
            ToolDescription(
                name,
                tool.spec.description,
                _source(tool, id(tool) in brought),
                name in offered,
                tool.spec.kind,
            )
            for name, tool in sorted(tools.items())
        ]

    def set_active(self, names: Iterable[str] | None) -> tuple[str, ...]:
        """From the next step on only these tools are offered, also to children; None ends that.

        Each extension has its own list, and what all of them allow is offered. It holds while the session
        is open, until the extension is loaded anew. Returns those of the names that no tool has now.
        """
        allowed = None if names is None else frozenset(names)

        def change() -> None:
            self.allowed = allowed
            if allowed is not None:
                self._context.host.limit_tools()

        self._context.calls.do(change)
        return tuple(sorted((allowed or frozenset()) - set(self._context.session.harness.tools)))


def offered_tools(attending: Attending, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the tools that the extensions allow in a session, and in those that it is a child of."""
    left = tuple(names)
    present: Attending | None = attending
    while present is not None:
        for channel in present.channels.values():
            allowed = channel.context.tools.allowed
            if allowed is not None:
                left = tuple(name for name in left if name in allowed)
        present = attending.host.sessions.get(present.session.journal.state.child_of)
    return left


def limited(host: ExtensionHost, session: str, plan: StepPlan) -> StepPlan | None:
    """The plan of a step without the tools that extensions have switched off."""
    attending = host.sessions.get(session)
    tools = offered_tools(attending, plan.tools) if attending else plan.tools
    return None if tools == plan.tools else msgspec.structs.replace(plan, tools=tools)


def _source(tool: Tool, is_brought: bool) -> ToolSource:
    if is_brought:
        return "extension"
    made_of = getattr(tool, "function", None) or (tool if isinstance(tool, type) else type(tool))
    package = ".".join(made_of.__module__.split(".")[:2])
    return _PACKAGES.get(package, "host")
