"""A hub: one session's events, encoded once for all who follow it, however slowly they read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec

from ostler.kernel.store import Store
from ostler.runs.watching.tail import Key, LiveTail, key_of
from ostler.vocabulary import events
from ostler.vocabulary.events import Event
from ostler.vocabulary.facts import Fact

Batch = list[Fact | Event]
Encode = Callable[[Sequence[Fact | Event]], bytes]

COALESCED_FROM = 32
"""Batches that a follower has not read: beyond, deltas are not kept for it, and come joined when it reads."""
MOST_BYTES = 1_000_000
"""Of facts that a follower has not read: beyond, it reads them from the log."""
PAGE = 500


class Frame(msgspec.Struct, eq=False):
    """A batch as all followers get it."""

    batch: Batch
    data: bytes
    first_seq: int
    """Of its facts; 0 if it has none."""
    last_seq: int


class Hub:
    """Whoever drives the session, or relays it, lets the hub `see` each batch, without a gap behind
    `last_seq`. Facts that it has seen are passed over, so two sources that overlap are one stream."""

    def __init__(self, session: str, store: Store, encode: Encode, last_seq: int) -> None:
        self.session = session
        self.store = store
        self.encode = encode
        self.tail = LiveTail()
        self.last_seq = last_seq
        self.notices: list[Event] = []
        """What everybody is told who comes: that deltas cannot be had, for instance."""
        self.followers: set[Follower] = set()
        self.on_idle: Callable[[], None] = lambda: None
        """The last follower left."""

    def see(self, batch: Sequence[Fact | Event]) -> None:
        fresh: Batch = []
        first = 0
        for one in batch:
            if isinstance(one, Fact):
                if one.seq <= self.last_seq:
                    continue
                self.last_seq = one.seq
                first = first or one.seq
            fresh.append(one)
        if not fresh:
            return
        self.tail.see(fresh)
        if self.followers:
            frame = Frame(fresh, self.encode(fresh), first, self.last_seq if first else 0)
            for follower in tuple(self.followers):
                follower.put(frame)

    def lose_source(self) -> None:
        """Nobody drives the session any more: what it showed live is gone."""
        if gone := self.tail.clear():
            self.see(gone)

    def follow(self, after: int = 0) -> Follower:
        follower = Follower(self, after)
        self.followers.add(follower)
        return follower

    def leave(self, follower: Follower) -> None:
        self.followers.discard(follower)
        if not self.followers:
            self.on_idle()

    def close(self) -> None:
        """All streams end."""
        for follower in tuple(self.followers):
            follower.close()


class Follower:
    """Yields encoded bytes: the facts after a number, the open tail, `caught_up`, and then what happens.

    - Each fact comes exactly once, in order; the deltas of what is open join to the whole.
    - One that reads slowly gets deltas joined, then its facts from the log, and the tail again.
    """

    def __init__(self, hub: Hub, after: int) -> None:
        self._hub = hub
        self._seq = after
        self._queue: deque[Frame] = deque()
        self._bytes = 0
        self._missed: dict[Key, int] = {}
        """Deltas that were not kept: from which offset on."""
        self._is_behind = True
        self._is_closed = False
        self._woken: asyncio.Future[None] | None = None
        self._is_due = False
        """A sign of life, because nothing was sent for a while."""

    def put(self, frame: Frame) -> None:
        if self._is_behind and not frame.first_seq:
            return  # the tail, which it gets when it has caught up, holds these
        if self._missed or len(self._queue) >= COALESCED_FROM:
            self._keep_facts(frame)
        else:
            self._keep(frame)
        self.wake()

    def _keep(self, frame: Frame) -> None:
        self._queue.append(frame)
        self._bytes += len(frame.data)
        if self._bytes > MOST_BYTES:
            self._queue.clear()
            self._missed.clear()
            self._bytes = 0
            self._is_behind = True

    def _keep_facts(self, frame: Frame) -> None:
        kept: Batch = []
        for one in frame.batch:
            key = () if isinstance(one, Fact) else key_of(one)
            if not key:
                kept.append(one)
            elif key not in self._missed or getattr(one, "offset", 0) < self._missed[key]:
                self._missed[key] = getattr(one, "offset", 0)
        if len(kept) == len(frame.batch):
            self._keep(frame)
        elif kept:
            self._keep(msgspec.structs.replace(frame, batch=kept, data=self._hub.encode(kept)))

    def wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def keep_alive(self) -> None:
        self._is_due = True
        self.wake()

    def close(self) -> None:
        self._is_closed = True
        self.wake()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Empty bytes when it is time for a sign of life."""
        try:
            while not self._is_closed:
                if self._is_behind:
                    async for data in self._catch_up():
                        yield data
                elif data := self._next():
                    yield data
                elif self._is_due:
                    self._is_due = False
                    yield b""
                elif not self._is_behind and not self._is_closed:
                    self._woken = asyncio.get_running_loop().create_future()
                    await self._woken
        finally:
            self._hub.leave(self)

    def _next(self) -> bytes:
        """Everything that came since, at once."""
        ready: list[bytes] = []
        while self._queue:
            frame = self._queue.popleft()
            self._bytes -= len(frame.data)
            if frame.first_seq == self._seq + 1 or not frame.first_seq:
                ready.append(frame.data)
            elif frame.first_seq > self._seq:  # there is a gap: whatever lies in it is in the log
                self._is_behind = True
                self._queue.clear()
                self._bytes = 0
                return b"".join(ready)
            elif rest := self._not_seen(frame.batch):
                ready.append(self._hub.encode(rest))
            self._seq = max(self._seq, frame.last_seq)
        if self._missed:
            missed, self._missed = self._missed, {}
            ready.append(self._hub.encode(self._hub.tail.since(missed)))
        self._is_due = False
        return b"".join(ready)

    def _not_seen(self, batch: Batch) -> Batch:
        return [one for one in batch if not isinstance(one, Fact) or one.seq > self._seq]

    async def _catch_up(self) -> AsyncGenerator[bytes, None]:
        """Facts from the log as far as the hub has seen them, and then the tail as it is at that moment:
        whatever came meanwhile is in either of them."""
        self._is_behind = False
        hub = self._hub
        while self._seq < hub.last_seq and not self._is_closed:
            facts = await hub.store.read(hub.session, self._seq, min(PAGE, hub.last_seq - self._seq))
            self._seq = facts[-1].seq
            yield hub.encode(facts)
        if self._is_closed:
            return
        said = [one for frame in self._queue for one in frame.batch if not isinstance(one, Fact)]
        self._queue.clear()
        self._bytes = 0
        self._missed.clear()
        self._is_behind = False
        alone = [one for one in said if not key_of(one)]
        yield hub.encode([*alone, *hub.tail.events(), *hub.notices, events.CaughtUp(self._seq)])
