"""The facts of all sessions as one stream, with a cursor that marks an exact position in it."""

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
from ostler.sessions.streams import MAX_UNREAD_FRAMES, Deadlines, Subscriber

WINDOW_MS = 600_000
"""A cursor names only the sessions with facts this recent: new facts of the others are newer anyway. The
clocks of processes that share a store may differ by less than this."""

PAGE = 100


class Positions(msgspec.Struct, array_like=True):
    """How far each session's log was read: for the sessions in `seqs` up to that number, for all others up to
    the time `since_ms`."""

    since_ms: int
    seqs: dict[bytes, int]

    @classmethod
    def of_cursor(cls, cursor: str) -> Positions:
        try:
            return msgspec.msgpack.decode(base64.urlsafe_b64decode(cursor.encode()), type=cls)
        except (ValueError, msgspec.MsgspecError):
            raise UsageError("this is not a cursor of the stream of all sessions") from None

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


async def current_positions(store: Store, now_ms: int) -> Positions:
    """The end of every log."""
    since = now_ms - WINDOW_MS
    sessions = await store.sessions(since_ms=since)
    return Positions(since, {_short(session.id): session.last_seq for session in sessions})


async def facts_after(store: Store, positions: Positions) -> list[Fact]:
    """Sorted by time; the facts of one session stay in their order, even if a clock went back."""
    timed: list[tuple[int, Fact]] = []
    for session in await store.sessions(since_ms=positions.since_ms):
        after = positions.seqs.get(_short(session.id), 0)
        if session.last_seq > after:
            latest = 0
            for fact in await store.read(session.id, after):
                if not positions.has(fact):
                    latest = max(latest, fact.time_ms)
                    timed.append((latest, fact))
    return [fact for _, fact in sorted(timed, key=lambda pair: pair[0])]


class AllSessionsStream:
    """Reads the log once for all subscribers. Deltas come from the sessions driven in this process. `encode`
    gets a fact and the cursor after it, `encode_live` a session and its live events, and `encode_caught_up`
    the cursor after everything that was sent."""

    def __init__(
        self,
        store: Store,
        encode: Callable[[Fact, str], bytes],
        encode_live: Callable[[str, Sequence[Event]], bytes],
        now_ms: Callable[[], int],
        encode_caught_up: Callable[[str], bytes],
        deadlines: Deadlines | None = None,
    ) -> None:
        self.store = store
        self.encode = encode
        self.encode_caught_up = encode_caught_up
        self._encode_live = encode_live
        self._now_ms = now_ms
        self._deadlines = Deadlines() if deadlines is None else deadlines
        self.positions = Positions(0, {})
        """What was read and put into the queues of all subscribers."""
        self.subscribers: set[AllSessionsSubscriber] = set()
        self._reader: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._is_closed = False

    async def subscribe(self, cursor: str = "", *, live: bool = False) -> AllSessionsSubscriber:
        """After that cursor; without one, from now on."""
        after = Positions.of_cursor(cursor) if cursor else None
        async with self._lock:
            if self._reader is None or self._reader.done():
                self.positions = await current_positions(self.store, self._now_ms())
                self._reader = asyncio.ensure_future(self._read_forever())
        await self._read()  # the cursor may be ahead of what was read so far
        subscriber = AllSessionsSubscriber(self, after or self.positions.copy(), live)
        subscriber.on_unsubscribe.append(self._remove)
        self.subscribers.add(subscriber)
        if self._is_closed:
            subscriber.close()
        return subscriber

    async def page(self, cursor: str, wait: float) -> tuple[list[Fact], str]:
        """The facts after a cursor and the cursor after them; waits up to `wait` seconds for the first."""
        if not cursor:
            return [], (await current_positions(self.store, self._now_ms())).cursor()
        positions = Positions.of_cursor(cursor)
        facts: list[Fact] = []
        with suppress(TimeoutError):
            async with self._deadlines.of(wait or None):
                change = -1
                while not facts:
                    change = await self.store.changes(change)
                    facts = await facts_after(self.store, positions)
                    if not wait:
                        break
        for fact in facts:
            positions.advance(fact)
        return facts, positions.cursor()

    async def _read_forever(self) -> None:
        change = -1
        try:
            while True:
                change = await self.store.changes(change)
                await self._read()
                await self._forget_old_sessions()
        except StoreError:  # the next subscriber gets the error
            for subscriber in tuple(self.subscribers):
                subscriber.close()

    async def _read(self) -> None:
        async with self._lock:
            for fact in await facts_after(self.store, self.positions):
                self.positions.advance(fact)
                data = self.encode(fact, self.positions.cursor())
                for subscriber in tuple(self.subscribers):
                    subscriber.put((fact, data))

    async def _forget_old_sessions(self) -> None:
        if self._now_ms() - self.positions.since_ms < 2 * WINDOW_MS:
            return
        async with self._lock:
            current = await current_positions(self.store, self._now_ms())
            seqs = {name: seq for name, seq in self.positions.seqs.items() if name in current.seqs}
            self.positions = Positions(current.since_ms, seqs)

    def publish_live(self, session: str, events: Sequence[Event]) -> None:
        subscribers = [subscriber for subscriber in self.subscribers if subscriber.accepts_live]
        if subscribers and events:
            data = self._encode_live(session, events)
            for subscriber in subscribers:
                subscriber.put((None, data))

    def publish(self, session: str, event: Event) -> None:
        """Sends a live event to every subscriber."""
        data = self._encode_live(session, [event])
        for subscriber in tuple(self.subscribers):
            subscriber.put((None, data))

    def _remove(self, subscriber: AllSessionsSubscriber) -> None:
        self.subscribers.discard(subscriber)
        if not self.subscribers and self._reader is not None:
            self._reader.cancel()
            self._reader = None

    def close(self) -> None:
        """Ends all streams; a later subscriber gets nothing."""
        self._is_closed = True
        for subscriber in tuple(self.subscribers):
            subscriber.close()
        if self._reader is not None:
            self._reader.cancel()


class AllSessionsSubscriber(Subscriber[tuple[Fact | None, bytes]]):
    """Gives the facts after a cursor, `caught_up`, and then each new fact once."""

    def __init__(self, stream: AllSessionsStream, positions: Positions, live: bool) -> None:
        super().__init__()
        self._stream = stream
        self._positions = positions
        self._wants_live = live
        self._is_behind = True
        self._missed: list[Fact] = []
        """From the log, to be sent before the queue."""

    @property
    def cursor(self) -> str:
        return self._positions.cursor()

    @property
    def accepts_live(self) -> bool:
        return self._wants_live and not self._is_behind and len(self._queue) < MAX_UNREAD_FRAMES

    def _size_of(self, item: tuple[Fact | None, bytes]) -> int:
        return len(item[1])

    def _take(self) -> bytes:
        if self._missed:
            return self._take_missed()
        parts: list[bytes] = []
        for fact, data in self._drain():
            if fact is None:
                parts.append(data)
            elif not self._positions.has(fact):
                self._positions.advance(fact)
                parts.append(data)
        return b"".join(parts)

    def _take_missed(self) -> bytes:
        page, self._missed = self._missed[:PAGE], self._missed[PAGE:]
        parts: list[bytes] = []
        for fact in page:
            self._positions.advance(fact)
            parts.append(self._stream.encode(fact, self.cursor))
        if not self._missed and not self._is_behind:
            parts.append(self._stream.encode_caught_up(self.cursor))
        return b"".join(parts)

    async def _catch_up(self) -> bytes:
        """Reads from the log what was put into the queues before this moment, and only that: everything later
        comes through the queue, with cursors after all of this."""
        if self._missed:
            return self._take_missed()
        self._is_behind = False
        published = self._stream.positions.copy()
        facts = await facts_after(self._stream.store, self._positions)
        self._missed = [fact for fact in facts if published.has(fact)]
        return self._take_missed()
