"""What happens in a session that somebody else drives: from its owner's socket, or from the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from ostler.kernel.processes import ProcessId
from ostler.kernel.store import Store
from ostler.runs.watching.channel import Listening, listen
from ostler.runs.watching.tail import Key, key_of
from ostler.vocabulary.events import Event, ToolInputStarted
from ostler.vocabulary.facts import Fact

Batch = list[Fact | Event]

LOOK_AGAIN = 5.0
"""Seconds of silence until it is looked again who drives a session."""
A_MOMENT = 0.01
"""Seconds before an owner is asked again whose stream has ended."""


class Relay:
    """Each fact comes exactly once, in order. Live events are those of the owner that was found last: whoever
    joins them passes what came before through `Unrepeated`."""

    def __init__(self, store: Store, session: str, after: int, *, look_again: float = LOOK_AGAIN) -> None:
        self._store = store
        self._session = session
        self.last_seq = after
        self._look_again = look_again
        self.owner: ProcessId | None = None
        """Who held it when it was looked last."""
        self.problem = ""
        """Why there are only facts, although a run is under way."""

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """An empty one whenever it was looked anew, or an owner's stream has ended: then what it showed live
        and never closed is gone."""
        while True:
            self.owner = await self._store.holder(self._session)
            place = self._store.meeting_place
            heard = await listen(self._session, place, self.owner) if self.owner else ""
            if isinstance(heard, Listening):
                self.problem = ""
                async with aclosing(self._heard(heard)) as batches:
                    async for batch in batches:
                        yield batch
                yield []
                await asyncio.sleep(A_MOMENT)
                continue
            is_running = heard and (await self._store.summary(self._session)).status == "running"
            self.problem = heard if is_running else ""
            if facts := await self._written():
                yield facts
            yield []
            await self._silence()

    async def _heard(self, owner: Listening) -> AsyncGenerator[Batch, None]:
        coming: asyncio.Future[Batch | None] | None = None
        try:
            if owner.last_seq < self.last_seq:  # it has committed what it has not told yet: its tail is older
                return
            if facts := await self._written(owner.last_seq):
                yield facts
            if owner.tail:
                yield [*owner.tail]
            batches = owner.batches()
            while True:
                coming = coming or asyncio.ensure_future(_next(batches))
                await asyncio.wait({coming}, timeout=self._look_again)
                if not coming.done():
                    if await self._is_taken_over():
                        return
                    continue
                batch, coming = coming.result(), None
                if batch is None:
                    return
                first = next((one.seq for one in batch if isinstance(one, Fact)), 0)
                if facts := await self._written(first - 1):
                    yield facts
                if fresh := [one for one in batch if self._is_fresh(one)]:
                    yield fresh
        finally:
            owner.close()
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})

    def _is_fresh(self, one: Fact | Event) -> bool:
        if not isinstance(one, Fact):
            return True
        if one.seq <= self.last_seq:
            return False
        self.last_seq = one.seq
        return True

    async def _is_taken_over(self) -> bool:
        """An owner that rests keeps its socket, also when others have the session meanwhile."""
        holder = await self._store.holder(self._session)
        if holder is not None:
            return holder != self.owner
        return await self._store.last_seq(self._session) > self.last_seq

    async def _written(self, last_seq: int | None = None) -> Batch:
        """Facts that were not seen yet, up to a number."""
        if last_seq is not None and last_seq <= self.last_seq:
            return []
        limit = None if last_seq is None else last_seq - self.last_seq
        facts = await self._store.read(self._session, self.last_seq, limit)
        if facts:
            self.last_seq = facts[-1].seq
        return [*facts]

    async def _silence(self) -> None:
        """Until something is written, or it is time to look again."""
        async with aclosing(self._store.follow(self._session, self.last_seq)) as followed:  # type: ignore[type-var]
            try:
                async with asyncio.timeout(self._look_again):
                    await anext(followed)
            except TimeoutError:
                return


async def _next(batches: Any) -> Batch | None:
    """A future can hold no `StopAsyncIteration`."""
    return await anext(batches, None)


class Unrepeated:
    """Passes on what is new of live events: an owner that is found again tells all that is open once more."""

    def __init__(self) -> None:
        self._reached: dict[Key, int] = {}

    def among(self, batch: Sequence[Fact | Event]) -> Batch:
        fresh = [one if isinstance(one, Fact) else self._fresh(one) for one in batch]
        if any(isinstance(one, Fact) and one.type == "run_ended" for one in batch):
            self._reached.clear()
        return [one for one in fresh if one is not None]

    def _fresh(self, event: Any) -> Event | None:
        key = key_of(event)
        if isinstance(event, ToolInputStarted):
            return None if key in self._reached else self._at(key, 0, event)
        if not hasattr(event, "offset"):
            return event  # type: ignore[no-any-return]
        seen = self._reached.get(key, 0)
        end = event.offset + len(event.text)
        if end <= seen and event.text:
            return None
        if event.offset >= seen:
            return self._at(key, end, event)
        rest = event.text[seen - event.offset :]
        return self._at(key, end, msgspec.structs.replace(event, offset=seen, text=rest))

    def _at(self, key: Key, reached: int, event: Event) -> Event:
        self._reached[key] = reached
        return event
