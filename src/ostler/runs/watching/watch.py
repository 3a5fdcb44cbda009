"""Hubs for sessions, wherever they are driven: here, in another process of this machine, or by nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

from ostler.kernel.journal import Journal
from ostler.kernel.store import Store
from ostler.runs.watching.hub import Encode, Follower, Hub
from ostler.runs.watching.relay import Relay
from ostler.vocabulary.errors import NotFound, StoreError, UsageError
from ostler.vocabulary.events import CaughtUp, Event, StreamIncomplete
from ostler.vocabulary.facts import Fact


class Watch:
    """One hub for each session that is followed or driven here.

    - A session that is driven here feeds its hub itself: `attend` is for whoever opens it.
    - Any other is relayed while somebody follows: from the socket of its owner; from the log if there is no
      owner, or none that can be reached (then followers are told that they see facts only).
    """

    def __init__(self, store: Store, encode: Encode) -> None:
        self.store = store
        self._encode = encode
        self._hubs: dict[str, Hub] = {}
        self._driven: dict[str, Journal] = {}
        self._relays: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False
        self.on_live: Callable[[str, Sequence[Event]], None] = lambda session, events: None
        """Sees the live events of sessions that are driven here."""

    @property
    def followers(self) -> int:
        return sum(len(hub.followers) for hub in self._hubs.values())

    def hubs(self) -> list[Hub]:
        return list(self._hubs.values())

    async def follow(self, session: str, after: int = 0) -> Follower:
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

    async def _learn_from_log(self, hub: Hub) -> None:
        """Whoever read the log may know more than the hub. A relay begins anew: what its owner's stream tells
        next may be older."""
        hub.see(await self.store.read(hub.session, hub.last_seq))
        if (relay := self._relays.pop(hub.session, None)) is not None:
            relay.cancel()
            hub.lose_source()

    def _new_hub(self, session: str, last_seq: int) -> Hub:
        hub = self._hubs[session] = Hub(session, self.store, self._encode, last_seq)
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
                hub.see(batch)
                if live := [one for one in batch if not isinstance(one, Fact)]:
                    self.on_live(session, live)

        journal.observe(see)
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

    def _forget_idle(self, hub: Hub) -> None:
        if hub.followers or hub.session in self._driven:
            return
        if self._hubs.get(hub.session) is hub:
            del self._hubs[hub.session]
        if (relay := self._relays.pop(hub.session, None)) is not None:
            relay.cancel()

    # --- driven elsewhere -----------------------------------------------------------------------------

    def _relay_where_needed(self, hub: Hub) -> None:
        session = hub.session
        if hub.followers and session not in self._driven and session not in self._relays:
            relay = self._relays[session] = asyncio.ensure_future(self._relay(hub))
            relay.add_done_callback(lambda task: self._relay_ended(hub, task))

    def _relay_ended(self, hub: Hub, task: asyncio.Task[None]) -> None:
        if self._relays.get(hub.session) is task:
            del self._relays[hub.session]
        if task.cancelled():
            return
        error = task.exception()
        hub.close()  # the session is gone, or the log cannot be read: whoever comes again is told
        if error is not None and not isinstance(error, StoreError | NotFound):
            raise error

    async def _relay(self, hub: Hub) -> None:
        relay = Relay(self.store, hub.session, hub.last_seq)
        owner = None
        async with aclosing(relay.batches()) as batches:
            async for batch in batches:
                if batch:
                    hub.see(batch)
                elif self._relays.get(hub.session) is asyncio.current_task():
                    hub.lose_source()
                self._say_incomplete(hub, relay.problem)
                if owner is not None and relay.owner is None:  # its run may have been cut: no fact says so
                    hub.see([CaughtUp(hub.last_seq)])
                owner = relay.owner

    def _say_incomplete(self, hub: Hub, reason: str) -> None:
        """Once: to those who are there, and to whoever comes."""
        if not reason:
            hub.notices.clear()
        elif not hub.notices:
            hub.notices.append(StreamIncomplete(reason))
            hub.see(hub.notices)

    def close(self) -> None:
        """All streams end, and no new one begins."""
        self._is_closed = True
        for hub in self.hubs():
            hub.close()
        for relay in self._relays.values():
            relay.cancel()


def no_such_fact(after: int, last: int) -> UsageError:
    return UsageError(f"the session has no fact {after}: its last one is {last}")
