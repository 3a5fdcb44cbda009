"""Printing closed blocks in their order, also when one takes a moment: an extension's, or a picture."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.blocks import CallBlock, Item, UserBlock
from ostler.faces.tui.drawing.spacing import apart
from ostler.faces.tui.extension_ui import ExtensionUi
from ostler.vocabulary.messages import Image

if TYPE_CHECKING:  # loaded when there are pictures
    from ostler.faces.tui.drawing.picture_ways import Way


class Printing:
    """What needs nobody's help is printed at once."""

    def __init__(
        self,
        draw: BlockRows,
        extensions: ExtensionUi,
        width: Callable[[], int],
        out: Callable[[Sequence[str]], None],
        ends_blank: Callable[[], bool],
        pictures: Way = "",
    ) -> None:
        self._draw = draw
        self._extensions = extensions
        self._width = width
        self._out = out
        self._ends_blank = ends_blank
        self._pictures: Way = pictures
        self._waiting: deque[Item] = deque()
        self._work: asyncio.Task[None] | None = None

    def take(self, blocks: Sequence[Item]) -> None:
        if not self._waiting and not any(map(self._takes_time, blocks)):
            width = self._width()
            drawn = (self._draw.closed(block, width) for block in blocks)
            self._out(apart(drawn, after_blank=self._ends_blank()))
            return
        self._waiting += blocks
        if self._work is None or self._work.done():
            self._work = asyncio.ensure_future(self._print())

    async def _print(self) -> None:
        while self._waiting:
            block, width = self._waiting[0], self._width()
            dress = await self._extensions.dress(block, width) if isinstance(block, CallBlock) else None
            rows = [*self._draw.closed(block, width, dress), *await self._pictures_of(block, width)]
            self._out(apart([rows], after_blank=self._ends_blank()))
            self._waiting.popleft()

    def _takes_time(self, block: Item) -> bool:
        return self._extensions.renderer(block) is not None or bool(self._pictures and _images(block))

    async def _pictures_of(self, block: Item, width: int) -> list[str]:
        if not self._pictures or not (images := _images(block)):
            return []
        from ostler.faces.tui.drawing.pictures import picture_rows

        made = [await asyncio.to_thread(picture_rows, one, self._pictures, width) for one in images]
        return [row for rows in made if rows for row in (*rows, "")]

    async def finish(self) -> None:
        if self._work is not None:
            await self._work


def _images(block: Item) -> tuple[Image, ...]:
    return block.images if isinstance(block, CallBlock | UserBlock) else ()
