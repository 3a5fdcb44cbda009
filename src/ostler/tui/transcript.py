"""The end of the conversation that still changes, in the rows that there are for it."""
# MERGED: What is shown of a conversation when it is opened: its end. No more of the log is read than that
# MERGED: takes.
# MERGED: Printing closed blocks in their order, also when one takes a moment: an extension's, or a picture.

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ostler.core.journal import Journal
from ostler.schema.facts import Fact
from ostler.schema.messages import Image
from ostler.tui.call_items import OpenCall
from ostler.tui.extension_ui import ExtensionViews
from ostler.tui.item_builder import Transcript
from ostler.tui.items import CallItem, Item, UserItem
from ostler.tui.render.items import ItemRenderer
from ostler.tui.render.spans import apart, height

if TYPE_CHECKING:
    from ostler.tui.render.images import Way


LINES = 3
"""Calls that wait for others, and have a line of their own."""

_LEAST = 5
"""Rows of a call that something is seen of: its edges, a blank one, and two."""


def tail_rows(
    tail: Sequence[Item | OpenCall], draw: ItemRenderer, width: int, most: int, *, after_blank: bool
) -> list[str]:
    """Calls that run share the room, so that one sees of each what it is; those that wait behind them have a
    line each, as far as they are few."""
    runs = any(isinstance(one, OpenCall) and one.block.stage == "running" for one in tail)
    behind = [one for one in tail if runs and isinstance(one, OpenCall) and one.block.stage == "waiting"]
    seen = [one for one in tail if one not in behind]
    lines = [draw.waiting_call(one, width) for one in behind[:LINES]]
    if len(behind) > LINES:
        lines.append(draw.note(f"{len(behind) - LINES} more wait", width)[0])
    room = most - len(lines) - bool(lines)
    share = max(_LEAST, room // max(1, len(seen)))
    shown = apart((draw.opened(one, width, share) for one in seen), after_blank=after_blank)
    kept = shown[-room:] if room > 0 else []
    return apart([kept, ["", *lines]] if lines else [kept], after_blank=after_blank)


FACTS = 300
"""That are read at first; four times as many whenever that was too little."""


_UNSEEN = frozenset(
    {"model_called", "usage", "step_started", "step_ended", "run_started", "audited", "request_refused"}
)
"""Types that sessions are full of, and nobody sees: they are not decoded. That something was refused is news
for whoever asked, and for nobody later."""


async def restored_facts(journal: Journal, blocks: int) -> tuple[list[Fact], bool]:
    """Facts on the path to the present leaf that make at least so many blocks, and whether more lie before
    them."""
    last, window = journal.state.last_seq, FACTS
    while True:
        after = max(0, last - window)
        facts = [fact for fact in await journal.history(after) if fact.seq <= last]
        on_path = visible_facts(facts, journal.state.leaf)
        if after == 0 or len(Transcript().take(on_path)) >= blocks:
            return on_path, after > 0
        window *= 4


def visible_facts(facts: Sequence[Fact], leaf: int) -> list[Fact]:
    """The entries on the path to the leaf, and the records of their runs."""
    entries = {fact.seq: fact for fact in facts if fact.parent is not None}
    path: set[int] = set()
    while (entry := entries.get(leaf)) is not None and entry.parent is not None:
        path.add(leaf)
        leaf = entry.parent
    runs = {entries[seq].run for seq in path} | {""}
    return [
        fact
        for fact in facts
        if fact.type not in _UNSEEN and (fact.seq in path if fact.parent is not None else fact.run in runs)
    ]


def last_rows(blocks: Iterable[Item], draw: Callable[[Item], list[str]], most: int, width: int) -> list[str]:
    """The rows of as many blocks from the end as fill so many rows of a terminal."""
    drawn: list[list[str]] = []
    count = 0
    for block in reversed(list(blocks)):
        if count >= most:
            break
        drawn.append(draw(block))
        count += sum(height(row, width) for row in drawn[-1])
    return apart(reversed(drawn), after_blank=False)


class TranscriptPrinter:
    """What needs nobody's help is printed at once."""

    def __init__(
        self,
        draw: ItemRenderer,
        extensions: ExtensionViews,
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
            dress = await self._extensions.dress(block, width) if isinstance(block, CallItem) else None
            rows = [*self._draw.closed(block, width, dress), *await self._pictures_of(block, width)]
            self._out(apart([rows], after_blank=self._ends_blank()))
            self._waiting.popleft()

    def _takes_time(self, block: Item) -> bool:
        return self._extensions.renderer(block) is not None or bool(self._pictures and _images(block))

    async def _pictures_of(self, block: Item, width: int) -> list[str]:
        if not self._pictures or not (images := _images(block)):
            return []
        from ostler.tui.render.images import picture_rows

        made = [await asyncio.to_thread(picture_rows, one, self._pictures, width) for one in images]
        return [row for rows in made if rows for row in (*rows, "")]

    async def finish(self) -> None:
        if self._work is not None:
            await self._work


def _images(block: Item) -> tuple[Image, ...]:
    return block.images if isinstance(block, CallItem | UserItem) else ()
