"""Hubs: everybody sees the same facts in the same order, and what is open, however slowly they read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from random import Random

import pytest

from ostler.core.processes import current_process
from ostler.core.store import Lease
from ostler.schema import events
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.schema.messages import Text
from ostler.sessions import streams
from ostler.sessions.streams import SessionStream
from ostler.store.memory import MemoryStore
from tests.sessions.watched_stream import Reader, as_lines


class Wire:
    """A session that is written and streamed by hand."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.seq = 0
        self.messages = 0
        self.text = ""
        self.lease: Lease

    async def begin(self) -> SessionStream:
        first = self._fact(events.SessionStarted("/x", "1"))
        self.lease = await self.store.create(first, current_process())
        self.session_stream = SessionStream("ses", self.store, as_lines, last_seq=1)
        return self.session_stream

    def _fact(self, event: Event) -> Fact:
        self.seq += 1
        return Fact.of(event, seq=self.seq, session="ses", run="run", time_ms=self.seq)

    def say(self, text: str) -> None:
        self.session_stream.publish([events.TextDelta(f"m{self.messages}", 0, len(self.text), text)])
        self.text += text

    async def close_message(self) -> None:
        message = events.AssistantMessage(f"m{self.messages}", (Text(self.text),), "end")
        self.messages, self.text = self.messages + 1, ""
        await self.commit(message)

    async def commit(self, *all_of: Event) -> None:
        facts = [self._fact(event) for event in all_of]
        await self.store.append(self.lease, facts)
        self.session_stream.publish(facts)


async def read_some(stream: AsyncGenerator[bytes, None], reader: Reader, until: int) -> None:
    async with asyncio.timeout(60):
        while reader.seq < until or not reader.caught_up:
            reader.read(await anext(stream))


@pytest.mark.parametrize("seed", range(40))
async def test_late_and_slow_subscribers_lose_and_repeat_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(streams, "MAX_UNREAD_FRAMES", random.choice([1, 3, 32]))
    monkeypatch.setattr(streams.Subscriber, "limit", random.choice([300, 3_000, 1_000_000]))
    monkeypatch.setattr(streams, "PAGE", random.choice([1, 3, 500]))
    wire = Wire()
    session_stream = await wire.begin()
    reading: list[tuple[Reader, AsyncGenerator[bytes, None]]] = []
    for _ in range(300):
        match random.randrange(8):
            case 0 if len(reading) < 6:
                after = random.randint(0, wire.seq)
                reading.append((Reader(after), session_stream.subscribe(after).stream()))
            case 1:
                await wire.close_message()
            case 2:
                await wire.commit(events.Warned("one", about="tool"), events.Warned("two", about="tool"))
            case 3:
                session_stream.publish([events.LiveValue("widget:a", random.choice([None, 1, 2]))])
            case 4 if reading:
                reader, stream = random.choice(reading)
                if reader.seq < wire.seq:
                    reader.read(await anext(stream))
            case _:
                wire.say("word " * random.randint(1, 20))
    await wire.close_message()
    wire.say("the end")
    await wire.commit(events.Warned("last", about="tool"))
    for reader, stream in reading:
        await read_some(stream, reader, wire.seq)
        session_stream.publish([events.LiveValue("beat", seed)])  # all that is missing comes before it
        async with asyncio.timeout(60):
            while "beat" not in reader.values:
                reader.read(await anext(stream))
        assert reader.open == {("text_delta", f"m{wire.messages}", 0): "the end"}
        stored = await wire.store.read("ses", wire.seq - len(reader.facts))
        assert [fact["seq"] for fact in reader.facts] == [fact.seq for fact in stored]
        session_stream.publish([events.LiveValue("beat")])


async def test_a_frame_is_encoded_once_for_all() -> None:
    wire = Wire()
    await wire.begin()
    encoded: list[int] = []

    def counting(batch: object) -> bytes:
        encoded.append(1)
        return as_lines(batch)  # type: ignore[arg-type]

    wire.session_stream.encode = counting
    streams = [wire.session_stream.subscribe(1).stream() for _ in range(50)]
    for stream in streams:
        await anext(stream)
    encoded.clear()
    wire.say("hello")
    for stream in streams:
        assert b"hello" in await anext(stream)
    assert len(encoded) == 1


async def test_a_subscriber_that_does_not_read_uses_no_memory_and_catches_up() -> None:
    wire = Wire()
    session_stream = await wire.begin()
    follower = session_stream.subscribe()
    stream = follower.stream()
    reader = Reader()
    reader.read(await anext(stream))
    reader.read(await anext(stream))
    for _ in range(200):
        wire.say("x" * 20_000)
        await wire.close_message()
    wire.say("still open")
    assert follower._size <= streams.MAX_UNREAD_BYTES + 30_000
    await read_some(stream, reader, wire.seq)
    while reader.caught_up < 2:
        reader.read(await anext(stream))
    assert len(reader.facts) == wire.seq
    assert list(reader.open.values()) == ["still open"]


async def test_closing_a_stream_ends_its_subscribers() -> None:
    wire = Wire()
    session_stream = await wire.begin()
    stream = session_stream.subscribe().stream()
    await anext(stream)
    session_stream.close()
    async with asyncio.timeout(60):
        assert [data async for data in stream] == []
    assert not session_stream.subscribers
