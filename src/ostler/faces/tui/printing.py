"""Printing closed blocks in their order, also when an extension takes a moment to draw one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.blocks import Block, CallBlock
from ostler.faces.tui.extension_ui import ExtensionUi


class Printing:
    """What needs nobody's help is printed at once."""

    def __init__(
        self,
        draw: BlockRows,
        extensions: ExtensionUi,
        width: Callable[[], int],
        out: Callable[[Sequence[str]], None],
    ) -> None:
        self._draw = draw
        self._extensions = extensions
        self._width = width
        self._out = out
        self._waiting: deque[Block] = deque()
        self._work: asyncio.Task[None] | None = None

    def take(self, blocks: Sequence[Block]) -> None:
        if not self._waiting and not any(map(self._extensions.renderer, blocks)):
            width = self._width()
            self._out([row for block in blocks for row in self._draw.closed(block, width)])
            return
        self._waiting += blocks
        if self._work is None or self._work.done():
            self._work = asyncio.ensure_future(self._print())

    async def _print(self) -> None:
        while self._waiting:
            block, width = self._waiting[0], self._width()
            dress = await self._extensions.dress(block, width) if isinstance(block, CallBlock) else None
            self._out(self._draw.closed(block, width, dress))
            self._waiting.popleft()

    async def finish(self) -> None:
        if self._work is not None:
            await self._work
