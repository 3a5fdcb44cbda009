"""How a tool wants its calls to be shown, so that a face can show tools that it does not know."""

from __future__ import annotations

import re
from typing import Any

import msgspec


class Layout(msgspec.Struct, frozen=True, omit_defaults=True):
    """The frame around what a call shows."""

    padding: bool = True
    border: bool = True
    background: bool = True


class Display(msgspec.Struct, frozen=True, omit_defaults=True):
    """Declared by a tool, carried by each `tool_called`."""

    view: str = "text"
    """What the result is: `text`, `markdown`, `code`, `diff`, `table`, `terminal`, or a host's own word."""
    title: str = ""
    """With the arguments' names in braces: `Search for {query}`."""
    icon: str = ""
    layout: Layout = Layout()

    def title_for(self, arguments: dict[str, Any]) -> str:
        """The title of one call; an argument that is not there is left out."""
        filled = re.sub(r"\{(\w+)\}", lambda found: str(arguments.get(found[1], "")), self.title)
        return " ".join(filled.split())
