"""What extensions show in one session: present values by their names, told of as often as an eye can see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ostler.extensions.showing.ui_data import as_data
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.events import LiveValue
from ostler.vocabulary.facts import storing_problem

BEAT_SECONDS = 1 / 60


class LiveBoard:
    """A change is told at once, those that come right behind it together and a beat later.

    However fast values change, the last one of each name is told. Everything here is called on the loop.
    """

    def __init__(self, publish: Callable[[Sequence[LiveValue]], None]) -> None:
        self._publish = publish
        self._values: dict[str, tuple[object, Any]] = {}
        self._told: dict[str, Any] = {}
        self._changed: dict[str, None] = {}
        self._places: dict[str, int] = {}
        self._next_place = 0
        self._beat: asyncio.TimerHandle | None = None

    def place_of(self, name: str) -> int:
        """Where a value stands among those of the same rank: one that is replaced keeps its place."""
        if name not in self._places:
            self._next_place += 1
            self._places[name] = self._next_place
        return self._places[name]

    def put(self, name: str, value: msgspec.Struct, owner: object) -> None:
        if problem := storing_problem(value):
            raise UsageError(f"{name} cannot be shown: {problem}")
        self._values[name] = (owner, as_data(value))
        self._note(name)

    def remove(self, name: str) -> None:
        if self._values.pop(name, None) is not None:
            self._places.pop(name, None)
            self._note(name)

    def owner_of(self, name: str) -> object:
        return self._values[name][0] if name in self._values else None

    def forget(self, owner: object) -> None:
        """Removes all that somebody shows."""
        for name in [name for name, (whose, _) in self._values.items() if whose is owner]:
            self.remove(name)
        self.tell()

    def values(self) -> dict[str, Any]:
        """For a face that begins to look now."""
        return {name: value for name, (_, value) in self._values.items()}

    def _note(self, name: str) -> None:
        self._changed.pop(name, None)
        self._changed[name] = None
        if self._beat is None:
            self.tell()
            self._beat = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._tell_rest)

    def _tell_rest(self) -> None:
        self._beat = None
        if self._changed:
            self.tell()
            self._beat = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._tell_rest)

    def tell(self) -> None:
        """Tells what has changed, now."""
        changed, self._changed = self._changed, {}
        news = []
        for name in changed:
            value = self._values[name][1] if name in self._values else None
            if self._told.get(name) != value:
                news.append(LiveValue(name, value))
                self._told[name] = value
                if value is None:
                    del self._told[name]
        if news:
            self._publish(news)

    def stop(self) -> None:
        self.tell()
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
