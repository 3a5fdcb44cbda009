"""An event loop with a virtual clock and a seeded scheduler, for simulations."""

from __future__ import annotations

import asyncio
import collections
from random import Random
from typing import Any


class Stuck(BaseException):
    """Everything waits, and nothing will ever happen: a deadlock."""


class Cut(BaseException):
    """The moment at which the simulated process dies."""


class _NoInput:
    """A selector that never has input: waiting moves the clock instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck
        self._loop.clock += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Time passes only when everybody waits; who goes first is drawn by lot; it stops at a chosen turn."""

    def __init__(self, random: Random, start: float = 1_000.0) -> None:
        super().__init__()
        self.clock = start
        self.turns = 0
        self.dies_at: int | None = None
        """The number of the turn before which the process dies."""
        self._random = random
        self._selector = _NoInput(self)

    def time(self) -> float:
        return self.clock

    def run_turn(self) -> None:
        """One more turn after a cut, whatever had been asked of the loop before."""
        self.dies_at = None
        self._stopping = True
        self.run_forever()

    def _run_once(self) -> None:
        self.turns += 1
        if self.dies_at is not None and self.turns >= self.dies_at:
            self.dies_at = None
            raise Cut
        ready: collections.deque[Any] = self._ready  # type: ignore[attr-defined]
        if len(ready) > 1:
            # Which of the tasks that can go on goes first is nobody's promise.
            shuffled = list(ready)
            self._random.shuffle(shuffled)
            ready.clear()
            ready.extend(shuffled)
        super()._run_once()  # type: ignore[misc]

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass
