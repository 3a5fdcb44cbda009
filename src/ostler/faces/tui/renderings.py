"""Lines that extensions draw, for a face that cannot wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable

_RENDERINGS_KEPT = 64


class Renderings:
    """What was drawn last is shown, and drawn anew behind it, as often as it is meant to be.

    Nothing is asked that nobody looks at: each look at a text brings about the next.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._made: dict[Hashable, tuple[str | None, float]] = {}
        self._asking: dict[Hashable, asyncio.Task[None]] = {}
        self._beats: dict[Hashable, asyncio.TimerHandle] = {}

    def look(
        self, key: Hashable, ask: Callable[[], Awaitable[str | None]], hz: float = 0.0
    ) -> tuple[bool, str | None]:
        """Whether it was drawn, and what came of it."""
        loop = asyncio.get_running_loop()
        made = self._made.get(key)
        is_old = made is None or (hz > 0 and loop.time() - made[1] >= 1 / hz)
        if is_old and key not in self._asking:
            self._asking[key] = asyncio.ensure_future(self._ask(key, ask, loop.time()))
        if hz > 0 and key not in self._beats:
            self._beats[key] = loop.call_later(1 / hz, self._beat, key)
        return (False, None) if made is None else (True, made[0])

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[str | None]], since: float) -> None:
        before = self._made.get(key, (None, 0.0))[0]
        is_first = key not in self._made
        try:
            text = await ask()
        finally:
            del self._asking[key]
        while len(self._made) >= _RENDERINGS_KEPT and key not in self._made:
            del self._made[next(iter(self._made))]
        self._made[key] = text, since
        if is_first or text != before:
            self._changed()

    def _beat(self, key: Hashable) -> None:
        del self._beats[key]
        self._changed()

    def stop(self) -> None:
        for task in self._asking.values():
            task.cancel()
        for beat in self._beats.values():
            beat.cancel()
        self._beats.clear()
