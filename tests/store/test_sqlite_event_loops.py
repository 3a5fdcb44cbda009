"""The SQLite store across event loops, cancellation and closing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ostler.schema import requests
from ostler.schema.errors import StoreError
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_connection import Durability
from tests.store.other_processes import LOCKS, other_process
from tests.support.small_session import DURABILITIES, HERE, first, numbers, user_fact


@pytest.mark.parametrize("durability", DURABILITIES)
def test_one_store_serves_one_event_loop_after_the_other(tmp_path: Path, durability: Durability) -> None:
    store = SqliteStore(tmp_path / "store.db", durability=durability)
    lease = asyncio.run(store.create(first(), HERE))
    left: list[asyncio.Future[Any]] = []
    """A task that still waits when its loop ends."""

    async def use(seq: int) -> None:
        following = store.follow("ses_1", after=seq - 1)
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        await asyncio.gather(store.append(lease, [user_fact(seq)]), store.append_blob("ses_1", "out", b"x"))
        async with asyncio.timeout(60):
            assert [fact.seq for fact in await waiting] == [seq]
        left.append(asyncio.ensure_future(anext(following)))
        left.append(asyncio.ensure_future(store.arrivals("ses_1", await store.arrivals("ses_1", -1))))
        await asyncio.sleep(0)

    for seq in (2, 3, 4):
        asyncio.run(use(seq))
    assert asyncio.run(numbers(store)) == [1, 2, 3, 4]
    asyncio.run(store.close())


def test_a_store_survives_an_abandoned_event_loop(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    another = SqliteStore(tmp_path / "store.db")
    lease = asyncio.run(store.create(first(), HERE))
    dropped = asyncio.new_event_loop()
    left: list[asyncio.Task[Any]] = []

    async def begin() -> None:
        left.append(asyncio.ensure_future(anext(store.follow("ses_1", after=1))))
        await asyncio.sleep(0)

    dropped.run_until_complete(begin())
    dropped.close()

    async def use() -> None:
        await store.append(lease, [user_fact(2)])
        waiting = asyncio.ensure_future(anext(store.follow("ses_1", after=2)))
        await asyncio.sleep(0)
        await another.append(lease, [user_fact(3)])  # needs a new poller: the abandoned loop has the old one
        async with asyncio.timeout(60):
            assert [fact.seq for fact in await waiting] == [3]
        await store.close()
        await another.close()

    asyncio.run(use())
    for task in left:
        task._log_destroy_pending = False  # type: ignore[attr-defined]


async def test_a_cancelled_append_that_waits_for_a_lock_is_written_or_not_when_it_returns(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "store.db")
    lease = await store.create(first(), HERE)
    following = asyncio.ensure_future(anext(store.follow("ses_1", after=1)))
    async with other_process(LOCKS, store.path) as other:
        appending = asyncio.ensure_future(store.append(lease, [user_fact(2)]))
        await asyncio.sleep(0.01)
        appending.cancel()
        await asyncio.sleep(0.01)
        assert not appending.done()
        assert await other.request("") == "unlocked"
        with pytest.raises(asyncio.CancelledError):
            await appending
        assert await numbers(store) == [1, 2]
        async with asyncio.timeout(60):
            assert [fact.seq for fact in await following] == [2]
        await store.append(lease, [user_fact(3)])
    await store.close()


async def test_a_store_survives_an_event_loop_that_ends_during_an_append(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", patience=0.3)
    lease = await store.create(first(), HERE)

    async def gives_up() -> None:
        appending = asyncio.ensure_future(store.append(lease, [user_fact(2)]))
        await asyncio.sleep(0.01)
        assert not appending.done()

    async with other_process(LOCKS, store.path) as other:
        await asyncio.to_thread(asyncio.run, gives_up())
        assert await other.request("") == "unlocked"
        seq = await store.last_seq("ses_1") + 1
        async with asyncio.timeout(60):
            await store.append(lease, [user_fact(seq)])
    assert await numbers(store) == list(range(1, seq + 1))
    await store.close()


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_close_waits_for_started_appends_and_can_be_called_twice(
    tmp_path: Path, durability: Durability
) -> None:
    store = SqliteStore(tmp_path / "store.db", durability=durability)
    lease = await store.create(first(), HERE)
    appending = asyncio.ensure_future(store.append(lease, [user_fact(2)]))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    await appending
    for work in (
        store.append(lease, [user_fact(3)]),
        store.read("ses_1"),
        store.submit("ses_1", requests.Pause(id="req_1")),
        store.search("hello"),
    ):
        with pytest.raises(StoreError, match="closed"):
            await work
    again = SqliteStore(store.path)
    assert await numbers(again) == [1, 2]
    await again.close()


async def test_a_failing_disk_ends_followers_with_an_error(tmp_path: Path) -> None:
    """Otherwise they would wait forever for a poller that cannot read the file."""
    store = SqliteStore(tmp_path / "store.db")
    await store.create(first(), HERE)
    following = asyncio.ensure_future(anext(store.follow("ses_1", after=1)))
    await asyncio.sleep(0)
    store._writer._connection.close()
    async with asyncio.timeout(60):
        with pytest.raises(StoreError):
            await following
    await store.close()


async def test_an_error_in_one_transaction_does_not_stop_the_thread(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", durability="power")
    await store.create(first(), HERE)

    def stumbles(db: object) -> None:
        raise ValueError("stumbled")

    work = [store._writer.run(stumbles), store.append_blob("ses_1", "out", b"x"), store._writer.run(stumbles)]
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ValueError, type(None), ValueError]
    with pytest.raises(ValueError, match="stumbled"):
        await store._writer.run(stumbles)
    assert await store.read_blob("ses_1", "out") == b"x"
    await store.close()
