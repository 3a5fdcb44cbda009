"""Hubs for sessions, wherever they are driven: here, in another process of this machine, or by nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

from ostler.kernel.journal import Journal
from ostler.kernel.store import Store
from ostler.runs.watching.channel import Listening, listen
from ostler.runs.watching.hub import Encode, Follower, Hub
from ostler.vocabulary.errors import NotFound, StoreError
from ostler.vocabulary.events import Event, StreamIncomplete
from ostler.vocabulary.facts import Fact

LOOK_AGAIN = 5.0
"""Seconds until it is looked again who drives a session that is silent."""


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
        """Raises `NotFound`."""
        hub = self._hubs.get(session)
        if hub is None:
            last_seq = await self.store.last_seq(session)
            hub = self._hubs.get(session) or self._new_hub(session, last_seq)
        follower = hub.follow(after)
        if self._is_closed:
            follower.close()
        self._relay_where_needed(hub)
        return follower

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
        while True:
            owner = await self.store.holder(hub.session)
            heard = await listen(hub.session, self.store.meeting_place, owner) if owner else ""
            if isinstance(heard, Listening):
                hub.notices.clear()
                await self._relay_owner(hub, heard)
                continue
            is_running = heard and (await self.store.summary(hub.session)).status == "running"
            self._say_incomplete(hub, heard if is_running else "")
            await self._follow_log(hub)

    async def _relay_owner(self, hub: Hub, owner: Listening) -> None:
        try:
            await self._catch_up(hub, owner.last_seq)
            hub.see(owner.tail)
            async for batch in owner.batches():
                first = next((one.seq for one in batch if isinstance(one, Fact)), 0)
                await self._catch_up(hub, first - 1)
                hub.see(batch)
        finally:
            owner.close()
            hub.lose_source()

    def _say_incomplete(self, hub: Hub, reason: str) -> None:
        """Once: to those who are there, and to whoever comes."""
        if not reason:
            hub.notices.clear()
        elif not hub.notices:
            hub.notices.append(StreamIncomplete(reason))
            hub.see(hub.notices)

    async def _catch_up(self, hub: Hub, last_seq: int) -> None:
        """Facts that were committed before their owner's stream began."""
        if hub.last_seq < last_seq:
            facts = await self.store.read(hub.session, hub.last_seq, last_seq - hub.last_seq)
            hub.see(facts)

    async def _follow_log(self, hub: Hub) -> None:
        """Until something happened, or some time passed: then somebody may drive the session."""
        async with aclosing(self.store.follow(hub.session, hub.last_seq)) as followed:  # type: ignore[type-var]
            try:
                async with asyncio.timeout(LOOK_AGAIN):
                    hub.see(await anext(followed))
            except TimeoutError:
                return

    def close(self) -> None:
        """All streams end, and no new one begins."""
        self._is_closed = True
        for hub in self.hubs():
            hub.close()
        for relay in self._relays.values():
            relay.cancel()
