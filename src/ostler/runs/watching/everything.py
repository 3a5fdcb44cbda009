"""The facts of all sessions as one stream, with a cursor of its own that says exactly where it stands."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress

import msgspec

from ostler.kernel.store import Store
from ostler.vocabulary.errors import StoreError, UsageError
from ostler.vocabulary.events import Event
from ostler.vocabulary.facts import Fact

WINDOW_MS = 600_000
"""A cursor names the sessions in which something happened so lately. The others need no place in it: what
happens in them from now on is newer. Clocks of processes on one store may differ by less than this."""
MOST_BYTES = 1_000_000
"""That a follower has not read: beyond, it reads from the log."""
FEW = 32
"""Frames that a follower has not read: beyond, it gets no deltas."""

EncodeFact = Callable[[Fact, str], bytes]
"""With the cursor behind it."""
EncodeLive = Callable[[str, Sequence[Event]], bytes]
"""Of the session with that id."""


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


class Everything:
    """Reads once for all who follow; deltas come from the sessions that are driven in this process."""

    def __init__(
        self, store: Store, encode: EncodeFact, encode_live: EncodeLive, now_ms: Callable[[], int]
    ) -> None:
        self.store = store
        self.encode = encode
        self._encode_live = encode_live
        self._now_ms = now_ms
        self.positions = Positions(0, {})
        self.followers: set[EverythingFollower] = set()
        self._reading: asyncio.Task[None] | None = None
        self._is_closed = False

    async def follow(self, cursor: str = "", *, live: bool = False) -> EverythingFollower:
        """Behind that cursor; without one, from now on."""
        here = await present(self.store, self._now_ms())
        if self._reading is None or self._reading.done():
            self.positions = here.copy()
            self._reading = asyncio.ensure_future(self._read())
        follower = EverythingFollower(self, Positions.of_cursor(cursor) if cursor else here, live)
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
            async with asyncio.timeout(wait or None):
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
                for fact in await facts_after(self.store, self.positions):
                    self.positions.advance(fact)
                    data = self.encode(fact, self.positions.cursor())
                    for follower in tuple(self.followers):
                        follower.put(fact, data)
                await self._forget_the_old()
        except StoreError:  # whoever comes again is told why
            for follower in tuple(self.followers):
                follower.close()

    async def _forget_the_old(self) -> None:
        if self._now_ms() - self.positions.since_ms < 2 * WINDOW_MS:
            return
        recent = await present(self.store, self._now_ms())
        kept = {name: seq for name, seq in self.positions.seqs.items() if name in recent.seqs}
        self.positions = Positions(recent.since_ms, kept)

    def see_live(self, session: str, events: Sequence[Event]) -> None:
        listening = [follower for follower in self.followers if follower.takes_live]
        if listening and events:
            data = self._encode_live(session, events)
            for follower in listening:
                follower.put(None, data)

    def leave(self, follower: EverythingFollower) -> None:
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


class EverythingFollower:
    """Yields encoded bytes: each fact once, and empty ones when it is time for a sign of life."""

    def __init__(self, everything: Everything, positions: Positions, live: bool) -> None:
        self._everything = everything
        self._positions = positions
        self._wants_live = live
        self._queue: deque[tuple[Fact | None, bytes]] = deque()
        self._bytes = 0
        self._is_behind = True
        self._is_closed = False
        self._is_due = False
        self._woken: asyncio.Future[None] | None = None

    @property
    def cursor(self) -> str:
        return self._positions.cursor()

    @property
    def takes_live(self) -> bool:
        return self._wants_live and not self._is_behind and len(self._queue) < FEW

    def put(self, fact: Fact | None, data: bytes) -> None:
        self._queue.append((fact, data))
        self._bytes += len(data)
        if self._bytes > MOST_BYTES:
            self._forget_queue()
            self._is_behind = True
        self._wake()

    def _forget_queue(self) -> None:
        self._queue.clear()
        self._bytes = 0

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def keep_alive(self) -> None:
        self._is_due = True
        self._wake()

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        try:
            while not self._is_closed:
                if self._is_behind:
                    self._is_behind = False
                    async for data in self._catch_up():
                        yield data
                elif data := self._next():
                    yield data
                elif self._is_due:
                    self._is_due = False
                    yield b""
                else:
                    self._woken = asyncio.get_running_loop().create_future()
                    await self._woken
        finally:
            self._everything.leave(self)

    def _next(self) -> bytes:
        ready: list[bytes] = []
        for fact, data in self._queue:
            if fact is None:
                ready.append(data)
            elif not self._positions.has(fact):
                self._positions.advance(fact)
                ready.append(data)
        self._forget_queue()
        self._is_due = False
        return b"".join(ready)

    async def _catch_up(self) -> AsyncGenerator[bytes, None]:
        """What came into the queue meanwhile is passed over there."""
        everything = self._everything
        for fact in await facts_after(everything.store, self._positions):
            self._positions.advance(fact)
            yield everything.encode(fact, self.cursor)
