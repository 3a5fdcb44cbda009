"""What happens in a session of a server, live: each fact once, in order, however often the stream breaks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from urllib.parse import quote

from ostler.faces.attach.remote import API, Away, Remote
from ostler.kernel.processes import ProcessId
from ostler.log.portable import read_line
from ostler.models.sse import Frame
from ostler.runs.watching.relay import Batch
from ostler.vocabulary.events import CaughtUp, StreamIncomplete, Warned
from ostler.vocabulary.facts import Fact, UnknownEvent, decode_event

RECONNECT_DELAY = (0.1, 0.3, 1.0, 2.0, 5.0)
_FACT = re.compile(rb'\{"type":"[^"]+","seq":\d+,"session":"')

Learn = Callable[[str, Sequence[Fact]], None]


class RemoteRelay:
    """See `Relay`. The server is not given up while somebody looks."""

    def __init__(self, remote: Remote, session: str, after: int, owner: ProcessId, learn: Learn) -> None:
        self._remote = remote
        self._session = session
        self._learn = learn
        self.last_seq = after
        self.owner: ProcessId | None = owner
        """The server, for all that is known from here."""
        self.problem = ""

    async def batches(self) -> AsyncGenerator[Batch, None]:
        attempt, is_away = 0, False
        while True:
            try:
                async with aclosing(self._heard()) as heard:
                    async for batch in heard:
                        attempt = 0
                        if is_away:
                            is_away = False
                            yield [Warned(f"{self._remote.host} is back", about="store")]
                        if batch:
                            yield batch
            except Away as error:
                if not is_away and attempt >= 2:  # a server that was only started anew is not worth a word
                    is_away = True
                    away = f"{self._remote.host} is away, and tried again until you leave: {error.message}"
                    yield [Warned(away, about="store")]
            yield []
            await asyncio.sleep(RECONNECT_DELAY[min(attempt, len(RECONNECT_DELAY) - 1)])
            attempt += 1

    async def _heard(self) -> AsyncGenerator[Batch, None]:
        path = f"{API}/sessions/{quote(self._session, safe='')}/events?after={self.last_seq}"
        async with aclosing(self._remote.frames(path)) as batches:
            async for frames in batches:
                batch = self._batch(frames)
                if facts := [one for one in batch if isinstance(one, Fact)]:
                    self._learn(self._session, facts)
                yield batch

    def _batch(self, frames: Sequence[Frame]) -> Batch:
        batch: Batch = []
        for _, data in frames:
            if _FACT.match(data):
                fact = read_line(data, self._session)
                if fact.seq > self.last_seq:
                    self.last_seq = fact.seq
                    batch.append(fact)
                continue
            match decode_event(data):
                case StreamIncomplete(reason=reason):
                    self.problem = reason
                case CaughtUp() | UnknownEvent():
                    continue
                case event:
                    batch.append(event)
        return batch
