"""The built-in tools by name; each is imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from ostler.kernel.tool import Tool
from ostler.vocabulary.errors import UnknownTool

BUILTIN_TOOLS = {
    "read": "ostler.tools.read:read",
    "write": "ostler.tools.write:write",
    "edit": "ostler.tools.edit:edit",
    "bash": "ostler.tools.bash:bash",
    "grep": "ostler.tools.grep:grep",
    "find": "ostler.tools.find:find",
    "ls": "ostler.tools.ls:ls",
    "todo": "ostler.tools.todo:todo",
}


def builtin_tool(name: str) -> Tool:
    """One built-in tool; raises `UnknownTool`, which lists those there are."""
    if name not in BUILTIN_TOOLS:
        raise UnknownTool(f"no built-in tool {name!r}; there are: {', '.join(BUILTIN_TOOLS)}")
    module, _, attribute = BUILTIN_TOOLS[name].partition(":")
    found: Tool = getattr(import_module(module), attribute)
    return found


def builtin_tools(names: Iterable[str] | None = None) -> list[Tool]:
    """The named built-in tools, or all of them."""
    return [builtin_tool(name) for name in (BUILTIN_TOOLS if names is None else names)]
