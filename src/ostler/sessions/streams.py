"""What every follower is: bytes as they come, signs of life, and an end."""
# MERGED: Limits of time for those who wait for something new, which end together when nothing more will
# MERGED: come.
# MERGED: A hub: one session's events, encoded once for all who follow it, however slowly they read.
# MERGED: Hubs for sessions, wherever they are driven: here, in another process of this machine, or by
# MERGED: nobody.

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

import msgspec

from ostler.core.journal import Journal
from ostler.core.store import Store
from ostler.schema import events
from ostler.schema.errors import NotFound, StoreError, UsageError
from ostler.schema.events import CaughtUp, Event, StreamIncomplete
from ostler.schema.facts import Fact
from ostler.sessions.live_socket import Relay
from ostler.sessions.live_tail import Key, LiveTail, key_of


class Subscriber(ABC):
    """Whoever has one must `leave`, also if it never read."""

    def __init__(self) -> None:
        self._is_closed = False
        self._is_due = False
        """A sign of life, because nothing was sent for a while."""
        self._woken: asyncio.Future[None] | None = None

    @abstractmethod
    async def next(self) -> bytes | None:
        """Empty bytes when it is time for a sign of life; None at the end."""

    @abstractmethod
    def close_now(self) -> None: ...

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """To its end, or until the reader leaves."""
        try:
            while (data := await self.next()) is not None:
                yield data
        finally:
            self.close_now()

    def keep_alive(self) -> None:
        self._is_due = True
        self._wake()

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _until_woken(self) -> None:
        self._woken = asyncio.get_running_loop().create_future()
        await self._woken


class Deadlines:
    """After `end` nobody waits any more."""

    def __init__(self) -> None:
        self._limits: set[asyncio.Timeout] = set()
        self._is_over = False

    def __len__(self) -> int:
        """How many wait."""
        return len(self._limits)

    @asynccontextmanager
    async def of(self, seconds: float | None) -> AsyncIterator[None]:
        """Raises `TimeoutError`, as `asyncio.timeout` does."""
        async with asyncio.timeout(0 if self._is_over else seconds) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    def end(self) -> None:
        self._is_over = True
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())


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


class SessionStream:
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
        self.followers: set[SessionSubscriber] = set()
        self.on_idle: Callable[[], None] = lambda: None
        """The last follower left."""

    def publish(self, batch: Sequence[Fact | Event]) -> None:
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
            self.publish(gone)

    def follow(self, after: int = 0) -> SessionSubscriber:
        follower = SessionSubscriber(self, after)
        self.followers.add(follower)
        return follower

    def remove(self, follower: SessionSubscriber) -> None:
        self.followers.discard(follower)
        if not self.followers:
            self.on_idle()

    def close(self) -> None:
        """All streams end."""
        for follower in tuple(self.followers):
            follower.close()


class SessionSubscriber(Subscriber):
    """Gives encoded bytes: the facts after a number, the open tail, `caught_up`, and then what happens.

    - Each fact comes exactly once, in order; the deltas of what is open join to the whole.
    - One that reads slowly gets deltas joined, then its facts from the log, and the tail again.
    - Whoever has it must `leave`, also if it never read.
    """

    def __init__(self, hub: SessionStream, after: int) -> None:
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

    def close_now(self) -> None:
        self._is_closed = True
        self._hub.remove(self)

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


class SessionStreams:
    """One hub for each session that is followed or driven here.

    - A session that is driven here feeds its hub itself: `attend` is for whoever opens it.
    - Any other is relayed while somebody follows: from the socket of its owner; from the log if there is no
      owner, or none that can be reached (then followers are told that they see facts only).
    """

    def __init__(self, store: Store, encode: Encode) -> None:
        self.store = store
        self._encode = encode
        self._hubs: dict[str, SessionStream] = {}
        self._driven: dict[str, Journal] = {}
        self._relays: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False
        self.on_live: Callable[[str, Sequence[Event]], None] = lambda session, events: None
        """Sees the live events of sessions that are driven here."""

    @property
    def followers(self) -> int:
        return sum(len(hub.followers) for hub in self._hubs.values())

    def hubs(self) -> list[SessionStream]:
        return list(self._hubs.values())

    async def follow(self, session: str, after: int = 0) -> SessionSubscriber:
        """Raises `NotFound`, and `UsageError` if there is no fact `after` yet."""
        hub = self._hubs.get(session)
        if hub is None:
            last_seq = await self.store.last_seq(session)
            hub = self._hubs.get(session) or self._new_hub(session, last_seq)
        if after > hub.last_seq:
            await self._learn_from_log(hub)
        if after > hub.last_seq:
            self._forget_idle(hub)
            raise no_such_fact(after, hub.last_seq)
        follower = hub.follow(after)
        if self._is_closed:
            follower.close()
        self._relay_where_needed(hub)
        return follower

    async def _learn_from_log(self, hub: SessionStream) -> None:
        """Whoever read the log may know more than the hub. A relay begins anew: what its owner's stream tells
        next may be older."""
        hub.publish(await self.store.read(hub.session, hub.last_seq))
        if (relay := self._relays.pop(hub.session, None)) is not None:
            relay.cancel()
            hub.lose_source()

    def _new_hub(self, session: str, last_seq: int) -> SessionStream:
        hub = self._hubs[session] = SessionStream(session, self.store, self._encode, last_seq)
        hub.on_idle = lambda: self._forget_idle(hub)
        return hub

    # --- driven here ----------------------------------------------------------------------------------

    def attend(self, journal: Journal) -> None:
        """From now on this journal's session is driven here, until it is given back."""
        session = journal.session
        hub = self._hubs.get(session) or self._new_hub(session, journal.state.last_seq)
        self._driven[session] = journal
        if (relay := self._relays.pop(session, None)) is not None:
            relay.cancel()
            hub.lose_source()
        hub.notices.clear()

        def see(batch: Sequence[Fact | Event]) -> None:
            if self._driven.get(session) is journal:
                hub.publish(batch)
                if live := [one for one in batch if not isinstance(one, Fact)]:
                    self.on_live(session, live)

        journal.subscribe(see)
        journal.on_close.append(lambda: self._leave(journal))

    def _leave(self, journal: Journal) -> None:
        session = journal.session
        if self._driven.get(session) is not journal:
            return
        del self._driven[session]
        hub = self._hubs[session]
        hub.lose_source()
        self._relay_where_needed(hub)
        self._forget_idle(hub)

    def _forget_idle(self, hub: SessionStream) -> None:
        if hub.followers or hub.session in self._driven:
            return
        if self._hubs.get(hub.session) is hub:
            del self._hubs[hub.session]
        if (relay := self._relays.pop(hub.session, None)) is not None:
            relay.cancel()

    # --- driven elsewhere -----------------------------------------------------------------------------

    def _relay_where_needed(self, hub: SessionStream) -> None:
        session = hub.session
        if hub.followers and session not in self._driven and session not in self._relays:
            relay = self._relays[session] = asyncio.ensure_future(self._relay(hub))
            relay.add_done_callback(lambda task: self._relay_ended(hub, task))

    def _relay_ended(self, hub: SessionStream, task: asyncio.Task[None]) -> None:
        if self._relays.get(hub.session) is task:
            del self._relays[hub.session]
        if task.cancelled():
            return
        error = task.exception()
        hub.close()  # the session is gone, or the log cannot be read: whoever comes again is told
        if error is not None and not isinstance(error, StoreError | NotFound):
            raise error

    async def _relay(self, hub: SessionStream) -> None:
        relay = Relay(self.store, hub.session, hub.last_seq)
        owner = None
        async with aclosing(relay.batches()) as batches:
            async for batch in batches:
                if batch:
                    hub.publish(batch)
                elif self._relays.get(hub.session) is asyncio.current_task():
                    hub.lose_source()
                self._say_incomplete(hub, relay.problem)
                if owner is not None and relay.owner is None:  # its run may have been cut: no fact says so
                    hub.publish([CaughtUp(hub.last_seq)])
                owner = relay.owner

    def _say_incomplete(self, hub: SessionStream, reason: str) -> None:
        """Once: to those who are there, and to whoever comes."""
        if not reason:
            hub.notices.clear()
        elif not hub.notices:
            hub.notices.append(StreamIncomplete(reason))
            hub.publish(hub.notices)

    def close(self) -> None:
        """All streams end, and no new one begins."""
        self._is_closed = True
        for hub in self.hubs():
            hub.close()
        for relay in self._relays.values():
            relay.cancel()


def no_such_fact(after: int, last: int) -> UsageError:
    return UsageError(f"the session has no fact {after}: its last one is {last}")
