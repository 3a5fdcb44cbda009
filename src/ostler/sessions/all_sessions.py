"""The facts of all sessions as one stream, with a cursor of its own that says exactly where it stands."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from ostler.core.store import Store
from ostler.schema.errors import StoreError, UsageError
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.sessions.streams import Deadlines, Subscriber

WINDOW_MS = 600_000
"""A cursor names the sessions in which something happened so lately. The others need no place in it: what
happens in them from now on is newer. Clocks of processes on one store may differ by less than this."""

MOST_BYTES = 1_000_000
"""That a follower has not read: beyond, it reads from the log."""

FEW = 32
"""Frames that a follower has not read: beyond, it gets no deltas."""

PAGE = 100


EncodeFact = Callable[[Fact, str], bytes]
"""With the cursor behind it."""

EncodeLive = Callable[[str, Sequence[Event]], bytes]
"""Of the session with that id."""

EncodeCaughtUp = Callable[[str], bytes]
"""With the cursor behind everything that was sent."""


class Positions(msgspec.Struct, array_like=True):
    """Up to where the log of each session was seen: in those that are named, up to a number; in all
    others, what is older than `since_ms`."""

    since_ms: int
    seqs: dict[bytes, int]

    @classmethod
    def of_cursor(cls, cursor: str) -> Positions:
        try:
            return msgspec.msgpack.decode(base64.urlsafe_b64decode(cursor.encode()), type=cls)
        except (ValueError, msgspec.MsgspecError):
            raise UsageError("that is no cursor of the stream of all sessions") from None

    def cursor(self) -> str:
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode()

    def copy(self) -> Positions:
        return Positions(self.since_ms, dict(self.seqs))

    def has(self, fact: Fact) -> bool:
        seq = self.seqs.get(_short(fact.session))
        return fact.time_ms < self.since_ms if seq is None else fact.seq <= seq

    def advance(self, fact: Fact) -> None:
        self.seqs[_short(fact.session)] = fact.seq


def _short(session: str) -> bytes:
    return hashlib.sha256(session.encode()).digest()[:8]


async def present(store: Store, now_ms: int) -> Positions:
    """Everything there is has been seen."""
    since = now_ms - WINDOW_MS
    return Positions(since, {_short(one.id): one.last_seq for one in await store.sessions(since_ms=since)})


async def facts_after(store: Store, positions: Positions) -> list[Fact]:
    """In order of time; those of one session in their own order, also where a clock went back."""
    timed: list[tuple[int, Fact]] = []
    for one in await store.sessions(since_ms=positions.since_ms):
        seen = positions.seqs.get(_short(one.id), 0)
        if one.last_seq > seen:
            latest = 0
            for fact in await store.read(one.id, seen):
                if not positions.has(fact):
                    latest = max(latest, fact.time_ms)
                    timed.append((latest, fact))
    return [fact for _, fact in sorted(timed, key=lambda pair: pair[0])]


class AllSessionsStream:
    """Reads once for all who follow; deltas come from the sessions that are driven in this process."""

    def __init__(
        self,
        store: Store,
        encode: EncodeFact,
        encode_live: EncodeLive,
        now_ms: Callable[[], int],
        encode_caught_up: EncodeCaughtUp,
        patience: Deadlines | None = None,
    ) -> None:
        self.store = store
        self.encode = encode
        self.encode_caught_up = encode_caught_up
        self._encode_live = encode_live
        self._now_ms = now_ms
        self._patience = Deadlines() if patience is None else patience
        self.positions = Positions(0, {})
        """What was read, and handed to all followers."""
        self.followers: set[AllSessionsSubscriber] = set()
        self._reading: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._is_closed = False

    async def follow(self, cursor: str = "", *, live: bool = False) -> AllSessionsSubscriber:
        """Behind that cursor; without one, from now on."""
        given = Positions.of_cursor(cursor) if cursor else None
        async with self._turn:
            if self._reading is None or self._reading.done():
                self.positions = await present(self.store, self._now_ms())
                self._reading = asyncio.ensure_future(self._read())
        await self._read_once()  # a cursor may know more than was read so far
        follower = AllSessionsSubscriber(self, given or self.positions.copy(), live)
        self.followers.add(follower)
        if self._is_closed:
            follower.close()
        return follower

    async def page(self, cursor: str, wait: float) -> tuple[list[Fact], str]:
        """The facts behind a cursor, waited for so many seconds, and the cursor behind them."""
        if not cursor:
            return [], (await present(self.store, self._now_ms())).cursor()
        positions = Positions.of_cursor(cursor)
        facts: list[Fact] = []
        with suppress(TimeoutError):
            async with self._patience.of(wait or None):
                seen = -1
                while not facts:
                    seen = await self.store.changes(seen)
                    facts = await facts_after(self.store, positions)
                    if not wait:
                        break
        for fact in facts:
            positions.advance(fact)
        return facts, positions.cursor()

    async def _read(self) -> None:
        seen = -1
        try:
            while True:
                seen = await self.store.changes(seen)
                await self._read_once()
                await self._forget_the_old()
        except StoreError:  # whoever comes again is told why
            for follower in tuple(self.followers):
                follower.close()

    async def _read_once(self) -> None:
        async with self._turn:
            for fact in await facts_after(self.store, self.positions):
                self.positions.advance(fact)
                data = self.encode(fact, self.positions.cursor())
                for follower in tuple(self.followers):
                    follower.put(fact, data)

    async def _forget_the_old(self) -> None:
        if self._now_ms() - self.positions.since_ms < 2 * WINDOW_MS:
            return
        async with self._turn:
            recent = await present(self.store, self._now_ms())
            kept = {name: seq for name, seq in self.positions.seqs.items() if name in recent.seqs}
            self.positions = Positions(recent.since_ms, kept)

    def publish_live(self, session: str, events: Sequence[Event]) -> None:
        listening = [follower for follower in self.followers if follower.takes_live]
        if listening and events:
            data = self._encode_live(session, events)
            for follower in listening:
                follower.put(None, data)

    def publish(self, session: str, event: Event) -> None:
        """Something that everybody must know, and that no fact says."""
        data = self._encode_live(session, [event])
        for follower in tuple(self.followers):
            follower.put(None, data)

    def remove(self, follower: AllSessionsSubscriber) -> None:
        self.followers.discard(follower)
        if not self.followers and self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def close(self) -> None:
        """All streams end, and no new one begins."""
        self._is_closed = True
        for follower in tuple(self.followers):
            follower.close()
        if self._reading is not None:
            self._reading.cancel()


class AllSessionsSubscriber(Subscriber):
    """Gives encoded bytes: the facts behind a cursor, `caught_up`, and then each fact once.

    Whoever has it must `leave`, also if it never read.
    """

    def __init__(self, everything: AllSessionsStream, positions: Positions, live: bool) -> None:
        super().__init__()
        self._everything = everything
        self._positions = positions
        self._wants_live = live
        self._queue: list[tuple[Fact | None, bytes]] = []
        self._bytes = 0
        self._is_behind = True
        self._missed: list[Fact] = []
        """From the log, to be sent before what is in the queue."""

    @property
    def cursor(self) -> str:
        return self._positions.cursor()

    @property
    def takes_live(self) -> bool:
        return self._wants_live and not self._is_behind and len(self._queue) < FEW

    def put(self, fact: Fact | None, data: bytes) -> None:
        if self._is_behind:
            return  # it is in the log
        self._queue.append((fact, data))
        self._bytes += len(data)
        if self._bytes > MOST_BYTES:
            self._is_behind = True
            self._queue = []
            self._bytes = 0
        self._wake()

    def close_now(self) -> None:
        self._is_closed = True
        self._everything.remove(self)

    async def next(self) -> bytes | None:
        while not self._is_closed:
            if self._missed:
                return self._next_missed()
            if self._is_behind:
                await self._look_into_log()
                continue
            if data := self._take():
                return data
            if self._is_due:
                self._is_due = False
                return b""
            await self._until_woken()
        return None

    def _take(self) -> bytes:
        queue, self._queue, self._bytes = self._queue, [], 0
        ready: list[bytes] = []
        for fact, data in queue:
            if fact is None:
                ready.append(data)
            elif not self._positions.has(fact):
                self._positions.advance(fact)
                ready.append(data)
        if ready:
            self._is_due = False
        return b"".join(ready)

    def _next_missed(self) -> bytes:
        everything, part = self._everything, self._missed[:PAGE]
        self._missed = self._missed[PAGE:]
        ready: list[bytes] = []
        for fact in part:
            self._positions.advance(fact)
            ready.append(everything.encode(fact, self.cursor))
        if not self._missed and not self._is_behind:
            ready.append(everything.encode_caught_up(self.cursor))
        return b"".join(ready)

    async def _look_into_log(self) -> None:
        """For what was handed to all before this moment, and only that: what is handed out from now on comes
        through the queue, and its cursors have all of this behind them."""
        self._is_behind = False
        everything = self._everything
        handed_out = everything.positions.copy()
        facts = await facts_after(everything.store, self._positions)
        self._missed = [fact for fact in facts if handed_out.has(fact)]
        if not self._missed:
            self._queue.insert(0, (None, everything.encode_caught_up(self.cursor)))
