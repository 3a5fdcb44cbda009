"""All sessions on one stream: each fact once, and a cursor that marks an exact position."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from random import Random

import pytest

from ostler.core.processes import current_process
from ostler.core.store import Lease
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.sessions import all_sessions as everything_module
from ostler.sessions.all_sessions import AllSessionsStream, AllSessionsSubscriber
from ostler.sessions.streams import Subscriber
from ostler.store.sqlite import SqliteStore


class Clock:
    def __init__(self) -> None:
        self.now = 10_000_000

    def __call__(self) -> int:
        return self.now


class House:
    """A store with many sessions, written by hand."""

    def __init__(self, folder: Path) -> None:
        self.store = SqliteStore(folder / "ostler.db")
        self.elsewhere = SqliteStore(folder / "ostler.db")
        self.clock = Clock()
        self.leases: dict[str, Lease] = {}
        self.seqs: dict[str, int] = {}
        self.order: list[tuple[str, int]] = []

    def everything(self) -> AllSessionsStream:
        return AllSessionsStream(self.store, _encode, _encode_live, self.clock, lambda cursor: b"")

    async def write(self, session: str, *, count: int = 1, by_others: bool = False) -> None:
        store = self.elsewhere if by_others else self.store
        self.clock.now += 1
        if session not in self.leases:
            first = self._fact(session, events.SessionStarted("/x", "1"))
            self.leases[session] = await store.create(first, current_process())
        facts = [self._fact(session, events.Warned("x", about="tool")) for _ in range(count)]
        await store.append(self.leases[session], facts)

    def _fact(self, session: str, event: Event) -> Fact:
        seq = self.seqs[session] = self.seqs.get(session, 0) + 1
        self.order.append((session, seq))
        return Fact.of(event, seq=seq, session=session, run="", time_ms=self.clock.now)


def _encode(fact: Fact, cursor: str) -> bytes:
    return json.dumps([fact.session, fact.seq, cursor]).encode() + b"\n"


def _encode_live(session: str, batch: object) -> bytes:
    return json.dumps([session, "live", ""]).encode() + b"\n"


async def read(follower: AllSessionsSubscriber, count: int) -> list[list[object]]:
    seen: list[list[object]] = []
    async with asyncio.timeout(60), aclosing(follower.stream()) as stream:
        while len(seen) < count:
            seen += [json.loads(line) for line in (await anext(stream)).splitlines()]
    return seen


@pytest.fixture
async def house(tmp_path: Path):  # type: ignore[no-untyped-def]
    house = House(tmp_path)
    yield house
    await house.store.close()
    await house.elsewhere.close()


@pytest.mark.parametrize("seed", range(8))
async def test_a_subscriber_that_reconnects_continues_after_its_cursor(house: House, seed: int) -> None:
    random = Random(seed)
    for session in "abcde":
        await house.write(session, by_others=random.random() < 0.5)
    everything = house.everything()
    cursor = (await everything.subscribe()).cursor
    house.order.clear()
    seen: list[tuple[object, object]] = []
    for _ in range(12):
        for _ in range(random.randint(1, 5)):
            await house.write(
                random.choice("abcdefgh"), count=random.randint(1, 3), by_others=random.random() < 0.5
            )
        if random.random() < 0.3:  # a server that was started anew
            everything = house.everything()
        if random.random() < 0.3:
            house.clock.now += everything_module.WINDOW_MS
        follower = await everything.subscribe(cursor)
        some = await read(follower, random.randint(1, len(house.order) - len(seen)))
        some = some[: random.randint(1, len(some))]  # the connection broke before all of it arrived
        seen += [(session, seq) for session, seq, _ in some]
        cursor = str(some[-1][2])
    left = len(house.order) - len(seen)
    if left:
        seen += [(session, seq) for session, seq, _ in await read(await everything.subscribe(cursor), left)]
    assert sorted(seen) == sorted(house.order)  # type: ignore[type-var]
    for session in "abcdefgh":
        numbers = [seq for one, seq in seen if one == session]
        assert numbers == sorted(numbers)  # type: ignore[type-var]


async def test_a_slow_subscriber_catches_up_from_the_log(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Subscriber, "limit", 2_000)
    await house.write("a")
    everything = house.everything()
    follower = await everything.subscribe()
    house.order.clear()
    reading = follower.stream()
    first = asyncio.ensure_future(anext(reading))
    seen: list[tuple[object, object]] = []
    for number in range(200):
        await house.write("ab"[number % 2])
    async with asyncio.timeout(60):
        data = await first
        while True:
            seen += [(session, seq) for session, seq, _ in map(json.loads, data.splitlines())]
            if len(seen) == len(house.order):
                break
            data = await anext(reading)
    await reading.aclose()
    assert sorted(seen) == sorted(house.order)  # type: ignore[type-var]


async def test_live_events_of_local_sessions_go_to_live_subscribers(house: House) -> None:
    await house.write("a")
    everything = house.everything()
    with_deltas, without = await everything.subscribe(live=True), await everything.subscribe()
    for follower in (with_deltas, without):
        await follower._catch_up()
    everything.publish_live("a", [events.TextDelta("m", 0, 0, "x")])
    house.order.clear()
    await house.write("a")
    assert [kind for _, kind, _ in await read(with_deltas, 2)] == ["live", 3]
    assert [kind for _, kind, _ in await read(without, 1)] == [3]


async def test_an_invalid_cursor_is_refused(house: House) -> None:
    with pytest.raises(UsageError, match="not a cursor"):
        await house.everything().subscribe("nonsense")
