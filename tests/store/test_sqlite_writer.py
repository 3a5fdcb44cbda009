"""Appends of several sessions in the same turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ostler.core.store import Lease
from ostler.schema.errors import LeaseLost, StoreBusy, StoreError
from ostler.store.sqlite import SqliteStore
from tests.store.other_processes import LOCKS, other_process
from tests.support.small_session import HERE, first, numbers, user_fact


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "store.db")
    yield store
    await store.close()


async def leases_of(store: SqliteStore, count: int) -> list[Lease]:
    return [await store.create(first(f"ses_{number}"), HERE) for number in range(count)]


def append(store: SqliteStore, lease: Lease, seq: int = 2) -> bool | asyncio.Future[None]:
    return store.append_now(lease, [user_fact(seq, session=lease.session)])


async def is_written(*appends: bool | asyncio.Future[None]) -> None:
    async with asyncio.timeout(60):
        await asyncio.gather(*(one for one in appends if not isinstance(one, bool)))


async def test_appends_of_one_turn_are_committed_together(store: SqliteStore) -> None:
    leases = await leases_of(store, 20)
    for seq in (2, 3):
        before = store._writer.commits
        appends = [append(store, lease, seq) for lease in leases]
        await is_written(*appends)
        assert store._writer.commits - before <= 3
        assert False not in appends
    for lease in leases:
        assert await numbers(store, lease.session) == [1, 2, 3]


async def test_the_appends_of_a_single_session_are_committed_immediately(store: SqliteStore) -> None:
    one, other = await leases_of(store, 2)
    assert append(store, one) is True
    await asyncio.sleep(0)
    for seq in range(2, 6):
        assert append(store, other, seq) is True, "the other session wrote in a turn before"
        await asyncio.sleep(0)


async def test_a_refused_append_does_not_affect_others_in_the_same_commit(store: SqliteStore) -> None:
    leases = await leases_of(store, 5)
    await store.release(leases[3])
    appends = [append(store, lease, 7 if lease is leases[2] else 2) for lease in leases]
    async with asyncio.timeout(60):
        outcomes = await asyncio.gather(
            *(one for one in appends if not isinstance(one, bool)), return_exceptions=True
        )
    assert [type(outcome) for outcome in outcomes] == [type(None), StoreError, LeaseLost, type(None)]
    written = [await numbers(store, lease.session) for lease in leases]
    assert written == [[1, 2], [1, 2], [1], [1], [1, 2]]


async def test_operations_after_an_append_see_it(store: SqliteStore) -> None:
    """Otherwise releasing a lease would lose the facts that still wait."""
    one, other = await leases_of(store, 2)
    appends = append(store, one), append(store, other)
    assert not isinstance(appends[1], bool)
    await store.release(other)
    assert appends[1].done()
    await is_written(*appends)
    assert await numbers(store, other.session) == [1, 2]


async def test_a_common_commit_wakes_followers(store: SqliteStore) -> None:
    leases = await leases_of(store, 3)
    following = [asyncio.ensure_future(anext(store.follow(lease.session, after=1))) for lease in leases]
    await asyncio.sleep(0)
    await is_written(*(append(store, lease) for lease in leases))
    async with asyncio.timeout(60):
        assert [[fact.seq for fact in facts] for facts in await asyncio.gather(*following)] == [[2]] * 3


async def test_close_commits_queued_appends(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    leases = await leases_of(store, 3)
    appends = [append(store, lease) for lease in leases]
    await store.close()
    await is_written(*appends)
    with pytest.raises(StoreError, match="closed"):
        append(store, leases[0], 3)
    again = SqliteStore(store.path)
    for lease in leases:
        assert await numbers(again, lease.session) == [1, 2]
    await again.close()


async def test_queued_appends_wait_while_another_process_writes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    leases = await leases_of(store, 3)
    async with other_process(LOCKS, store.path) as other:
        appends = [append(store, lease) for lease in leases]
        for _ in range(20):
            await asyncio.sleep(0)
        assert not any(one is True or one.done() for one in appends)  # type: ignore[union-attr]
        assert await other.request("") == "unlocked"
        await is_written(*appends)
    for lease in leases:
        assert await numbers(store, lease.session) == [1, 2]
    await store.close()


async def test_a_lock_held_too_long_fails_all_queued_appends(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", patience=0.05)
    leases = await leases_of(store, 3)
    async with other_process(LOCKS, store.path) as other:
        appends = [append(store, lease) for lease in leases]
        for one in appends:
            with pytest.raises(StoreBusy, match="locked by another process"):
                await is_written(one)
        assert await other.request("") == "unlocked"
    await is_written(*(append(store, lease) for lease in leases))
    await store.close()


def test_the_writer_survives_a_loop_abandoned_before_the_end_of_its_turn(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    leases = asyncio.run(leases_of(store, 3))
    dropped = asyncio.new_event_loop()
    left: list[Any] = []

    async def begin() -> None:
        left.extend(append(store, lease) for lease in leases)
        for one in left[1:]:
            one.add_done_callback(left.remove)
        dropped.stop()
        await asyncio.sleep(0)

    task = dropped.create_task(begin())
    dropped.call_soon(dropped.stop)
    dropped.run_forever()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    dropped.close()

    async def use() -> None:
        await is_written(*[append(store, lease, 3) for lease in reversed(leases)])
        for lease in leases:
            assert await numbers(store, lease.session) == [1, 2, 3]
        await store.close()

    asyncio.run(use())
