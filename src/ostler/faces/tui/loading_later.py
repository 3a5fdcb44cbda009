"""What the first answer needs and the first frame does not: it is loaded while the person reads, or types."""

from __future__ import annotations

import asyncio
from importlib import import_module

from ostler.kernel.harness import Harness
from ostler.tools.builtin import ToolToLoad

LATER = (
    "ostler.kernel.loop",
    "ostler.models.exchange",
    "ostler.faces.tui.drawing.growing_markdown",
    "ostler.faces.tui.drawing.inline_markdown",
    "markdown_it",
)


async def load_later(harness: Harness) -> None:
    """Piece by piece: a key that is pressed meanwhile waits for one of them at most."""
    for name in LATER:
        import_module(name)
        await asyncio.sleep(0)
    for tool in list(harness.tools.values()):
        if isinstance(tool, ToolToLoad):
            tool.load()
            await asyncio.sleep(0)
