"""Publish/subscribe for sessions: one stream for each session, read by subscribers with bounded queues."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Generic, TypeVar

import msgspec

from ostler.core.journal import Journal
from ostler.core.store import Store
from ostler.schema.errors import NotFound, StoreError, UsageError
from ostler.schema.events import CaughtUp, Event, StreamIncomplete
from ostler.schema.facts import Fact
from ostler.sessions.live_socket import Relay
from ostler.sessions.live_tail import Key, LiveTail, key_of

MAX_UNREAD_BYTES = 1_000_000
"""A subscriber that leaves more unread falls behind: it drops its queue and catches up from the source."""

Item = TypeVar("Item")


class Subscriber(ABC, Generic[Item]):
    """One reader of a stream: a bounded queue, keep-alives, and catching up after it fell behind.

    The stream calls `put`, and `finish` or `close` at its end. The reader calls `next` until it returns None,
    and always `unsubscribe`, even if it never read. Subclasses say how items become bytes (`_take`) and how
    to catch up (`_catch_up`).
    """

    limit = MAX_UNREAD_BYTES

    def __init__(self) -> None:
        self.on_unsubscribe: list[Callable[[Any], None]] = []
        self._queue: list[Item] = []
        self._size = 0
        self._is_behind = False
        self._is_finished = False
        self._is_closed = False
        self._needs_keep_alive = False
        self._wake_up: asyncio.Future[None] | None = None

    # --- for the stream -------------------------------------------------------------------------------
    def put(self, item: Item) -> None:
        if not self._is_behind:
            self._queue.append(item)
            self._size += self._size_of(item)
            if self._size > self.limit:
                self._fall_behind()
        self._wake()

    def keep_alive(self) -> None:
        """Makes `next` return empty bytes, unless there is something to send."""
        self._needs_keep_alive = True
        self._wake()

    def finish(self) -> None:
        """The stream has ended: the reader gets what is in the queue, then None."""
        self._is_finished = True
        self._wake()

    def close(self) -> None:
        """The reader gets None next, even if the queue is not empty."""
        self._is_closed = True
        self._wake()

    # --- for the reader -------------------------------------------------------------------------------
    async def next(self) -> bytes | None:
        """The next bytes; empty for a keep-alive; None at the end."""
        while not self._is_closed:
            data = await self._catch_up() if self._is_behind else self._take()
            if data:
                self._needs_keep_alive = False
                return data
            if self._is_behind:
                continue
            if self._is_finished:
                self._is_closed = True
                return self._last()
            if self._needs_keep_alive:
                self._needs_keep_alive = False
                return b""
            self._wake_up = asyncio.get_running_loop().create_future()
            await self._wake_up
        return None

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Everything until the end, or until the reader stops."""
        try:
            while (data := await self.next()) is not None:
                yield data
        finally:
            self.unsubscribe()

    def unsubscribe(self) -> None:
        self.close()
        self._leave()

    # --- for subclasses -------------------------------------------------------------------------------
    @abstractmethod
    def _size_of(self, item: Item) -> int: ...

    @abstractmethod
    def _take(self) -> bytes:
        """Empties the queue into bytes; empty if there is nothing."""

    async def _catch_up(self) -> bytes:
        """Called while the subscriber is behind; clears `_is_behind` when it no longer is."""
        self._is_behind = False
        return b""

    def _last(self) -> bytes | None:
        """What a finished stream ends with."""
        return None

    def _fall_behind(self) -> None:
        self._is_behind = True
        self._drain()
        self._wake()

    def _leave(self) -> None:
        callbacks, self.on_unsubscribe = self.on_unsubscribe, []
        for callback in callbacks:
            callback(self)

    def _drain(self) -> list[Item]:
        items, self._queue, self._size = self._queue, [], 0
        return items

    def _wake(self) -> None:
        if self._wake_up is not None and not self._wake_up.done():
            self._wake_up.set_result(None)


class Deadlines:
    """Timeouts that all expire together at `end`, when no more events will come."""

    def __init__(self) -> None:
        self._timeouts: set[asyncio.Timeout] = set()
        self._has_ended = False

    def __len__(self) -> int:
        """How many are waiting."""
        return len(self._timeouts)

    @asynccontextmanager
    async def of(self, seconds: float | None) -> AsyncIterator[None]:
        """Raises `TimeoutError`, as `asyncio.timeout` does."""
        async with asyncio.timeout(0 if self._has_ended else seconds) as timeout:
            self._timeouts.add(timeout)
            try:
                yield
            finally:
                self._timeouts.discard(timeout)

    def end(self) -> None:
        self._has_ended = True
        for timeout in self._timeouts:
            if not timeout.expired():
                timeout.reschedule(asyncio.get_running_loop().time())


Batch = list[Fact | Event]
Encode = Callable[[Sequence[Fact | Event]], bytes]

MAX_UNREAD_FRAMES = 32
"""With more unread frames, a subscriber gets no single deltas: they come joined when it reads."""

PAGE = 500

MAX_MISSED_EVENTS = 100
"""Live events without a key that are stored for a subscriber while it catches up."""


class Frame(msgspec.Struct, eq=False):
    """A batch, encoded once for all subscribers."""

    batch: Batch
    data: bytes
    first_seq: int
    """Of its facts; 0 if it has none."""
    last_seq: int
    _split: tuple[Batch, dict[Key, int]] | None = None

    def without_deltas(self) -> tuple[Batch, dict[Key, int]]:
        """The batch without its deltas, and the lowest offset of those, by key."""
        if self._split is None:
            others: Batch = []
            offsets: dict[Key, int] = {}
            for item in self.batch:
                if key := () if isinstance(item, Fact) else key_of(item):
                    offset = getattr(item, "offset", 0)
                    offsets[key] = min(offsets.get(key, offset), offset)
                else:
                    others.append(item)
            self._split = others, offsets
        return self._split


class SessionStream:
    """The events of one session, for any number of subscribers. Its source, the journal or a relay, publishes
    batches without a gap after `last_seq`. Facts that were published before are skipped, so sources may
    overlap."""

    def __init__(self, session: str, store: Store, encode: Encode, last_seq: int) -> None:
        self.session = session
        self.store = store
        self.encode = encode
        self.tail = LiveTail()
        self.last_seq = last_seq
        self.notices: list[Event] = []
        """Sent to every new subscriber, for instance that no deltas are available."""
        self.subscribers: set[SessionSubscriber] = set()
        self.on_idle: Callable[[], None] = lambda: None

    def publish(self, batch: Sequence[Fact | Event]) -> None:
        fresh: Batch = []
        first = 0
        for item in batch:
            if isinstance(item, Fact):
                if item.seq <= self.last_seq:
                    continue
                self.last_seq = item.seq
                first = first or item.seq
            fresh.append(item)
        self.tail.see(fresh)
        if fresh and self.subscribers:
            frame = Frame(fresh, self.encode(fresh), first, self.last_seq if first else 0)
            for subscriber in tuple(self.subscribers):
                subscriber.put(frame)

    def lose_source(self) -> None:
        """Nothing drives the session any more: removes its open live values."""
        if removed := self.tail.clear():
            self.publish(removed)

    def subscribe(self, after: int = 0) -> SessionSubscriber:
        subscriber = SessionSubscriber(self, after)
        subscriber.on_unsubscribe.append(self._remove)
        self.subscribers.add(subscriber)
        return subscriber

    def _remove(self, subscriber: SessionSubscriber) -> None:
        self.subscribers.discard(subscriber)
        if not self.subscribers:
            self.on_idle()

    def close(self) -> None:
        for subscriber in tuple(self.subscribers):
            subscriber.close()


class SessionSubscriber(Subscriber[Frame]):
    """Gives the facts after a number, the open tail, `caught_up`, and then what happens.

    - Each fact comes exactly once, in order; the deltas of an open message join to the whole message.
    - A slow reader gets deltas joined, then its facts from the log and the tail again.
    """

    def __init__(self, stream: SessionStream, after: int) -> None:
        super().__init__()
        self._stream = stream
        self._seq = after
        self._is_behind = True
        self._skipped: dict[Key, int] = {}
        """Deltas that were not queued: from which offset on."""
        self._missed: Batch = []
        """Events that came while it was behind, and are neither in the log nor in the tail."""

    def put(self, frame: Frame) -> None:
        if self._is_behind:
            live = [item for item in frame.without_deltas()[0] if not isinstance(item, Fact)]
            self._missed = [*self._missed, *live][-MAX_MISSED_EVENTS:]
        elif not self._skipped and len(self._queue) < MAX_UNREAD_FRAMES:
            super().put(frame)
        else:
            self._put_without_deltas(frame)

    def _put_without_deltas(self, frame: Frame) -> None:
        others, offsets = frame.without_deltas()
        for key, offset in offsets.items():
            self._skipped[key] = min(self._skipped.get(key, offset), offset)
        if not offsets:
            super().put(frame)
        elif others:
            super().put(Frame(others, self._stream.encode(others), frame.first_seq, frame.last_seq))
        else:
            self._wake()

    def _size_of(self, item: Frame) -> int:
        return len(item.data)

    def _fall_behind(self) -> None:
        self._skipped = {}
        super()._fall_behind()

    def _take(self) -> bytes:
        parts: list[bytes] = []
        for frame in self._drain():
            if not frame.first_seq or frame.first_seq == self._seq + 1:
                parts.append(frame.data)
            elif frame.first_seq > self._seq:  # the facts in this gap are in the log
                self._fall_behind()
                return b"".join(parts)
            elif new := [item for item in frame.batch if not isinstance(item, Fact) or item.seq > self._seq]:
                parts.append(self._stream.encode(new))
            self._seq = max(self._seq, frame.last_seq)
        if self._skipped:
            skipped, self._skipped = self._skipped, {}
            parts.append(self._stream.encode(self._stream.tail.since(skipped)))
        return b"".join(parts)

    async def _catch_up(self) -> bytes:
        """Reads facts from the log up to the stream's last one, then the tail as it is at that moment:
        everything that came meanwhile is in one of them."""
        stream = self._stream
        if self._seq < stream.last_seq:
            facts = await stream.store.read(stream.session, self._seq, min(PAGE, stream.last_seq - self._seq))
            self._seq = facts[-1].seq
            return stream.encode(facts)
        self._is_behind = False
        missed, self._missed = [event for event in self._missed if event not in stream.notices], []
        return stream.encode([*missed, *stream.tail.events(), *stream.notices, CaughtUp(self._seq)])


class SessionStreams:
    """One stream for each session that has subscribers or is driven in this process.

    - A session that is driven here publishes to its stream itself; call `attach` when it is opened.
    - Any other is relayed while it has subscribers: from its owner's socket, or from the log if there is no
      owner or its socket cannot be reached (subscribers get a notice that they see facts only).
    """

    def __init__(self, store: Store, encode: Encode) -> None:
        self.store = store
        self._encode = encode
        self._streams: dict[str, SessionStream] = {}
        self._journals: dict[str, Journal] = {}
        self._relays: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False
        self.on_live: Callable[[str, Sequence[Event]], None] = lambda session, events: None
        """Receives the live events of sessions that are driven here."""

    def streams(self) -> list[SessionStream]:
        return list(self._streams.values())

    async def subscribe(self, session: str, after: int = 0) -> SessionSubscriber:
        """Raises `NotFound`, and `UsageError` if there is no fact `after` yet."""
        stream = self._streams.get(session)
        if stream is None:
            last_seq = await self.store.last_seq(session)
            stream = self._streams.get(session) or self._new_stream(session, last_seq)
        if after > stream.last_seq:
            await self._read_log(stream)
        if after > stream.last_seq:
            self._remove_idle(stream)
            raise no_such_fact(after, stream.last_seq)
        subscriber = stream.subscribe(after)
        if self._is_closed:
            subscriber.close()
        self._start_relay(stream)
        return subscriber

    async def _read_log(self, stream: SessionStream) -> None:
        """A caller that read the log may know more than the stream. A relay is started again, because the
        owner's next events may be older than the log."""
        stream.publish(await self.store.read(stream.session, stream.last_seq))
        if self._cancel_relay(stream.session):
            stream.lose_source()

    def _new_stream(self, session: str, last_seq: int) -> SessionStream:
        stream = self._streams[session] = SessionStream(session, self.store, self._encode, last_seq)
        stream.on_idle = lambda: self._remove_idle(stream)
        return stream

    def _remove_idle(self, stream: SessionStream) -> None:
        if stream.subscribers or stream.session in self._journals:
            return
        if self._streams.get(stream.session) is stream:
            del self._streams[stream.session]
        self._cancel_relay(stream.session)

    # --- sessions driven in this process --------------------------------------------------------------
    def attach(self, journal: Journal) -> None:
        """Publishes what this journal records, until it is closed."""
        session = journal.session
        stream = self._streams.get(session) or self._new_stream(session, journal.state.last_seq)
        self._journals[session] = journal
        if self._cancel_relay(session):
            stream.lose_source()
        stream.notices.clear()

        def publish(batch: Sequence[Fact | Event]) -> None:
            if self._journals.get(session) is journal:
                stream.publish(batch)
                if live := [item for item in batch if not isinstance(item, Fact)]:
                    self.on_live(session, live)

        journal.subscribe(publish)
        journal.on_close.append(lambda: self._detach(journal))

    def _detach(self, journal: Journal) -> None:
        session = journal.session
        if self._journals.get(session) is not journal:
            return
        del self._journals[session]
        stream = self._streams[session]
        stream.lose_source()
        self._start_relay(stream)
        self._remove_idle(stream)

    # --- sessions driven elsewhere --------------------------------------------------------------------
    def _start_relay(self, stream: SessionStream) -> None:
        session = stream.session
        if stream.subscribers and session not in self._journals and session not in self._relays:
            relay = self._relays[session] = asyncio.ensure_future(self._relay(stream))
            relay.add_done_callback(lambda task: self._relay_ended(stream, task))

    def _cancel_relay(self, session: str) -> bool:
        """False if there was none."""
        if (relay := self._relays.pop(session, None)) is None:
            return False
        relay.cancel()
        return True

    def _relay_ended(self, stream: SessionStream, task: asyncio.Task[None]) -> None:
        if self._relays.get(stream.session) is task:
            del self._relays[stream.session]
        if task.cancelled():
            return
        error = task.exception()
        stream.close()  # the session is deleted or the log unreadable: the next subscriber gets the error
        if error is not None and not isinstance(error, StoreError | NotFound):
            raise error

    async def _relay(self, stream: SessionStream) -> None:
        relay = Relay(self.store, stream.session, stream.last_seq)
        owner = None
        async with aclosing(relay.batches()) as batches:
            async for batch in batches:
                if batch:
                    stream.publish(batch)
                elif self._relays.get(stream.session) is asyncio.current_task():
                    stream.lose_source()
                self._publish_problem(stream, relay.problem)
                if owner is not None and relay.owner is None:  # its run may have died without a fact
                    stream.publish([CaughtUp(stream.last_seq)])
                owner = relay.owner

    def _publish_problem(self, stream: SessionStream, reason: str) -> None:
        """Publishes it once to the current subscribers, and to each new one."""
        if not reason:
            stream.notices.clear()
        elif not stream.notices:
            stream.notices.append(StreamIncomplete(reason))
            stream.publish(stream.notices)

    def close(self) -> None:
        """Ends all streams; a later subscriber gets nothing."""
        self._is_closed = True
        for stream in self.streams():
            stream.close()
        for relay in self._relays.values():
            relay.cancel()


def no_such_fact(after: int, last: int) -> UsageError:
    return UsageError(f"the session has no fact {after}: its last one is {last}")
