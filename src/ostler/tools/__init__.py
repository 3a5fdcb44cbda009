"""The built-in tools by name; each is imported when it is first used."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ostler.core.lazy import load
from ostler.core.tool import BeforeCall, Tool, ToolContext, ToolSpec
from ostler.schema.errors import UnknownTool

BUILTIN_TOOLS = {
    "read": "ostler.tools.read:read",
    "write": "ostler.tools.write:write",
    "edit": "ostler.tools.edit:edit",
    "bash": "ostler.tools.bash:bash",
    "grep": "ostler.tools.grep:grep",
    "find": "ostler.tools.find:find",
    "ls": "ostler.tools.find:ls",
    "todo": "ostler.tools.todo:todo",
}


def builtin_tool(name: str) -> Tool:
    """One built-in tool; raises `UnknownTool`, which lists the available ones."""
    if name not in BUILTIN_TOOLS:
        raise UnknownTool(f"there is no built-in tool {name!r}; choose from: {', '.join(BUILTIN_TOOLS)}")
    tool: Tool = load(BUILTIN_TOOLS[name])
    return tool


@cache
def builtin_specs() -> dict[str, ToolSpec]:
    """The specs of the built-in tools by name, from `specs.json`: the first request needs them, and reading
    them from the tools would import all of them. `scripts/generate_docs.py` writes the file."""
    content = Path(__file__).with_name("specs.json").read_bytes()
    return {spec.name: spec for spec in msgspec.json.decode(content, type=list[ToolSpec])}


class LazyTool:
    """A built-in tool that is imported when it is first called."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def load(self) -> Tool:
        return builtin_tool(self.__name__)

    @property
    def spec(self) -> ToolSpec:
        return builtin_specs()[self.__name__]

    def validate(self, arguments: dict[str, Any]) -> Any:
        return self.load().validate(arguments)

    async def precheck(self, arguments: Any, before: BeforeCall) -> str:
        precheck = getattr(self.load(), "precheck", None)
        return await precheck(arguments, before) if precheck else ""

    async def run(self, arguments: Any, context: ToolContext) -> Any:
        return await self.load().run(arguments, context)


def builtin_tools(names: Iterable[str] | None = None) -> list[Tool]:
    """The named built-in tools, or all of them."""
    return [builtin_tool(name) for name in (BUILTIN_TOOLS if names is None else names)]
