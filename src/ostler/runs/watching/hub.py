"""A hub: one session's events, encoded once for all who follow it, however slowly they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ostler.kernel.store import Store
from ostler.runs.watching.any_follower import AnyFollower
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
MOST_SAID = 100
"""Events that stand by themselves, kept for a follower that catches up."""


class Frame(msgspec.Struct, eq=False):
    """A batch as all followers get it."""

    batch: Batch
    data: bytes
    first_seq: int
    """Of its facts; 0 if it has none."""
    last_seq: int
    _kept: tuple[Batch, dict[Key, int]] | None = None

    def without_deltas(self) -> tuple[Batch, dict[Key, int]]:
        """What remains of it for those who get deltas joined, and from which offset on they miss what."""
        if self._kept is None:
            kept: Batch = []
            missed: dict[Key, int] = {}
            for one in self.batch:
                if key := () if isinstance(one, Fact) else key_of(one):
                    offset = getattr(one, "offset", 0)
                    missed[key] = min(missed.get(key, offset), offset)
                else:
                    kept.append(one)
            self._kept = kept, missed
        return self._kept


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


class Follower(AnyFollower):
    """Gives encoded bytes: the facts after a number, the open tail, `caught_up`, and then what happens.

    - Each fact comes exactly once, in order; the deltas of what is open join to the whole.
    - One that reads slowly gets deltas joined, then its facts from the log, and the tail again.
    - Whoever has it must `leave`, also if it never read.
    """

    def __init__(self, hub: Hub, after: int) -> None:
        super().__init__()
        self._hub = hub
        self._seq = after
        self._queue: list[Frame] = []
        self._bytes = 0
        self._missed: dict[Key, int] = {}
        """Deltas that were not kept: from which offset on."""
        self._said: Batch = []
        """What came while it was behind, and is neither in the log nor in the tail."""
        self._is_behind = True

    def put(self, frame: Frame) -> None:
        if self._is_behind:
            alone = [one for one in frame.without_deltas()[0] if not isinstance(one, Fact)]
            self._said = [*self._said, *alone][-MOST_SAID:]
            return
        if self._missed or len(self._queue) >= COALESCED_FROM:
            self._keep_facts(frame)
        else:
            self._keep(frame)
        self._wake()

    def _keep(self, frame: Frame) -> None:
        self._queue.append(frame)
        self._bytes += len(frame.data)
        if self._bytes > MOST_BYTES:
            self._fall_behind()

    def _keep_facts(self, frame: Frame) -> None:
        kept, missed = frame.without_deltas()
        for key, offset in missed.items():
            self._missed[key] = min(self._missed.get(key, offset), offset)
        if not missed:
            self._keep(frame)
        elif kept:
            self._keep(Frame(kept, self._hub.encode(kept), frame.first_seq, frame.last_seq))

    def _fall_behind(self) -> None:
        self._is_behind = True
        self._queue = []
        self._bytes = 0
        self._missed = {}

    def leave(self) -> None:
        self._is_closed = True
        self._hub.leave(self)

    async def next(self) -> bytes | None:
        while not self._is_closed:
            if self._is_behind:
                return await self._catch_up()
            if data := self._take():
                return data
            if self._is_behind:
                continue
            if self._is_due:
                self._is_due = False
                return b""
            await self._until_woken()
        return None

    def _take(self) -> bytes:
        """Everything that came since, at once."""
        frames, self._queue, self._bytes = self._queue, [], 0
        ready: list[bytes] = []
        for frame in frames:
            if not frame.first_seq or frame.first_seq == self._seq + 1:
                ready.append(frame.data)
            elif frame.first_seq > self._seq:  # there is a gap: whatever lies in it is in the log
                self._fall_behind()
                return b"".join(ready)
            elif rest := self._not_seen(frame.batch):
                ready.append(self._hub.encode(rest))
            self._seq = max(self._seq, frame.last_seq)
        if self._missed:
            missed, self._missed = self._missed, {}
            ready.append(self._hub.encode(self._hub.tail.since(missed)))
        if ready:
            self._is_due = False
        return b"".join(ready)

    def _not_seen(self, batch: Batch) -> Batch:
        return [one for one in batch if not isinstance(one, Fact) or one.seq > self._seq]

    async def _catch_up(self) -> bytes:
        """Facts from the log as far as the hub has seen them, and then the tail as it is at that moment:
        whatever came meanwhile is in either of them."""
        hub = self._hub
        if self._seq < hub.last_seq:
            facts = await hub.store.read(hub.session, self._seq, min(PAGE, hub.last_seq - self._seq))
            self._seq = facts[-1].seq
            return hub.encode(facts)
        self._is_behind = False
        said, self._said = [one for one in self._said if one not in hub.notices], []
        return hub.encode([*said, *hub.tail.events(), *hub.notices, events.CaughtUp(self._seq)])
