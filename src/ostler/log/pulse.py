"""Waking whoever waits for something new, also when another process wrote it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

POLL_SECONDS = 0.025
"""How often another process's writes are looked for while somebody waits; facts are due within 100 ms."""


def inbox_of(session: str) -> str:
    """The topic of a session's requests; its facts are the topic of the session's own name."""
    return f"inbox of {session}"


class Pulse:
    """A version for each topic that grows whenever something happened there."""

    def __init__(self, changed_elsewhere: Callable[[], bool] | None = None) -> None:
        self._changed_elsewhere = changed_elsewhere
        self._versions: dict[str, int] = {}
        self._elsewhere = 0
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._poller: asyncio.Task[None] | None = None

    def version(self, topic: str) -> int:
        return self._versions.get(topic, 0) + self._elsewhere

    def tick(self, topic: str) -> None:
        self._versions[topic] = self._versions.get(topic, 0) + 1
        self._wake(topic)

    async def wait(self, topic: str, seen: int) -> int:
        """Returns as soon as the version is not `seen` any more."""
        while self.version(topic) == seen:
            woken = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(topic, set()).add(woken)
            self._watch_elsewhere()
            try:
                await woken
            finally:
                waiting = self._waiting[topic]
                waiting.discard(woken)
                if not waiting:
                    del self._waiting[topic]
        return self.version(topic)

    async def close(self) -> None:
        if self._poller:
            self._poller.cancel()
            await asyncio.wait({self._poller})

    def _wake(self, topic: str) -> None:
        for woken in self._waiting.get(topic, ()):
            if not woken.done():
                woken.set_result(None)

    def _watch_elsewhere(self) -> None:
        if self._changed_elsewhere and (self._poller is None or self._poller.done()):
            self._poller = asyncio.ensure_future(self._poll(self._changed_elsewhere))

    async def _poll(self, changed_elsewhere: Callable[[], bool]) -> None:
        while self._waiting:
            if changed_elsewhere():
                self._elsewhere += 1
                for topic in list(self._waiting):
                    self._wake(topic)
            await asyncio.sleep(POLL_SECONDS)
