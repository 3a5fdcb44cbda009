"""The SQLite store with other processes: commits, locks, leases, and crashes."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from ostler.core.store import Lease
from ostler.schema.errors import SessionHeld, StoreBusy
from ostler.store import change_notifier, sqlite_rows, sqlite_writer
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_connection import Durability
from tests.store.other_processes import LOCKS, WRITES, other_process
from tests.support.small_session import DURABILITIES, HERE, first, numbers, user_fact


def size_of(file: str | Path) -> int:
    return Path(file).stat().st_size


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.close()


# --- commits ----------------------------------------------------------------------------------------


async def test_parallel_appends_share_commits(path: Path) -> None:
    store = SqliteStore(path, durability="power")
    leases = [await store.create(first(f"ses_{number}"), HERE) for number in range(50)]
    before = store._writer.commits

    async def write(lease: Lease) -> None:
        for seq in (2, 3, 4, 5):
            await store.append(lease, [user_fact(seq, session=lease.session)])

    await asyncio.gather(*map(write, leases))
    assert store._writer.commits - before < 100, "200 appends"
    await store.close()
    again = SqliteStore(path)
    for lease in leases:
        assert await numbers(again, lease.session) == [1, 2, 3, 4, 5]
    await again.close()


async def test_a_single_append_is_committed_immediately(store: SqliteStore) -> None:
    lease = await store.create(first(), HERE)
    with pytest.raises(StopIteration):  # it never waited for anything
        store.append(lease, [user_fact(2)]).send(None)
    assert await numbers(store) == [1, 2]


async def test_only_the_user_can_read_the_file_and_its_folder(store: SqliteStore, path: Path) -> None:
    await store.create(first(), HERE)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    for file in path.parent.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600, file.name


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_appended_facts_survive_the_sudden_end_of_the_process(
    path: Path, durability: Durability
) -> None:
    async with other_process(WRITES, path, durability) as other:
        assert await other.request("create ses_1") == "done"
        assert await other.request("append hello") == "done"
        other.send("vanish")
        await other.wait()
    assert size_of(f"{path}-wal") > 0, "nobody has tidied up yet"
    store = SqliteStore(path)
    assert await numbers(store) == [1, 2]
    lease = await store.acquire("ses_1", HERE)
    await store.append(lease, [user_fact(3)])
    await store.close()


async def test_the_write_ahead_log_is_moved_into_the_file_when_it_is_large(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "LARGE_WAL", 100_000)
    monkeypatch.setattr(sqlite_writer, "LARGEST_WAL", 200_000)
    monkeypatch.setattr(sqlite_writer, "WRITES_BETWEEN_CHECKS", 10)
    lease = await store.create(first(), HERE)
    for seq in range(2, 400):
        await store.append(lease, [user_fact(seq, "x" * 5_000)])
        if store._writer._checkpoint:
            await asyncio.wrap_future(store._writer._checkpoint)
    assert store._writer.checkpoints > 3
    assert size_of(f"{path}-wal") < 1_000_000, "two megabytes were written"
    assert size_of(path) > 1_000_000
    assert await numbers(store) == list(range(1, 400))


async def test_a_deleted_session_leaves_no_row_behind(store: SqliteStore) -> None:
    lease = await store.create(first(), HERE)
    await store.append(lease, [user_fact(2)], {"req_1": 2})
    await store.append_blob("ses_1", "out", b"x")
    await store.own_process(lease, "call_1", HERE)
    await store.search("hello")
    assert row_counts(store.path) == [1, 2, 1, 1, 1, 1, 1]
    await store.delete("ses_1", HERE)
    assert row_counts(store.path) == [0] * 7


def row_counts(path: Path) -> list[int]:
    tables = ("sessions", "facts", "inbox", "processes", "blobs", "blob_parts", "messages")
    with closing(sqlite3.connect(path)) as db:
        return [db.execute(f"select count(*) from {table}").fetchone()[0] for table in tables]


async def test_the_search_index_is_built_in_pieces(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_rows, "PIECE", 3)
    for number in range(1, 5):
        session = f"ses_{number}"
        lease = await store.create(first(session), HERE)
        await store.append(lease, [user_fact(seq, session=session) for seq in range(2, 2 + 2 * number)])
    before = store._writer.commits
    hits = await store.search("hello")
    assert sorted((hit.session, hit.seq) for hit in hits) == [
        (f"ses_{number}", seq) for number in range(1, 5) for seq in range(2, 2 + 2 * number)
    ]
    assert store._writer.commits - before >= 20 / 3
    before = store._writer.commits
    await store.search("hello")
    assert store._writer.commits == before, "an index that is up to date is not written"


# --- another process writes -------------------------------------------------------------------------


@pytest.mark.parametrize("durability", DURABILITIES)
async def test_an_append_waits_while_another_process_writes(path: Path, durability: Durability) -> None:
    store = SqliteStore(path, durability=durability)
    lease = await store.create(first(), HERE)
    async with other_process(LOCKS, path) as other:
        appending = asyncio.ensure_future(store.append(lease, [user_fact(2)]))
        submitting = asyncio.ensure_future(store.append_blob("ses_1", "out", b"x"))
        for _ in range(20):
            await asyncio.sleep(0.001)
            assert await numbers(store) == [1], "reading goes on, and so does the event loop"
        assert not appending.done()
        assert not submitting.done()
        assert await other.request("") == "unlocked"
        async with asyncio.timeout(60):
            await asyncio.gather(appending, submitting)
    assert await numbers(store) == [1, 2]
    assert await store.read_blob("ses_1", "out") == b"x"
    await store.close()


async def test_a_lock_held_too_long_raises_and_changes_nothing(path: Path) -> None:
    store = SqliteStore(path, patience=0.05)
    lease = await store.create(first(), HERE)
    async with other_process(LOCKS, path) as other:
        with pytest.raises(StoreBusy, match="locked by another process; try again") as caught:
            await store.append(lease, [user_fact(2)])
        assert "\n" not in caught.value.message
        assert await numbers(store) == [1]
        assert await other.request("") == "unlocked"
        await store.append(lease, [user_fact(2)])
    assert await numbers(store) == [1, 2]
    await store.close()


async def test_facts_of_another_process_are_followed_at_once(store: SqliteStore, path: Path) -> None:
    async with other_process(WRITES, path) as other:
        await other.request("create ses_1")
        following = store.follow("ses_1")
        assert [fact.seq for fact in await anext(following)] == [1]
        for seq in (2, 3, 4):
            waiting = asyncio.ensure_future(anext(following))
            began = time.monotonic()
            other.send(f"append text{seq}")
            async with asyncio.timeout(60):
                assert [fact.seq for fact in await waiting] == [seq]
            assert time.monotonic() - began < 30
            assert await other.read_line() == "done"


@pytest.mark.parametrize("can_tell", [True, False])
async def test_an_idle_store_still_notices_writes_of_other_processes(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, can_tell: bool
) -> None:
    """With inotify, or by polling where the system has none."""
    monkeypatch.setattr(change_notifier, "IDLE_SECONDS", 0.0)
    if can_tell:
        if sys.platform != "linux":
            pytest.skip("only Linux tells")
        monkeypatch.setattr(change_notifier, "WATCH_SECONDS", 3600.0)
    else:
        monkeypatch.setattr(change_notifier, "FileWatch", _cannot_be_had)
    lease = await store.create(first(), HERE)
    async with other_process(WRITES, path) as other:
        await other.request("create ses_2")
        following, ours = store.follow("ses_2"), store.follow("ses_1")
        await anext(following)
        await anext(ours)
        for seq in (2, 3, 4):
            waiting = asyncio.ensure_future(anext(following))
            own = asyncio.ensure_future(anext(ours))
            await store.append(lease, [user_fact(seq)])
            async with asyncio.timeout(60):
                assert [fact.seq for fact in await own] == [seq]
            other.send(f"append text{seq}")
            async with asyncio.timeout(60):
                assert [fact.seq for fact in await waiting] == [seq]
            assert await other.read_line() == "done"
    assert (store._notifier._watch is not None) is can_tell


def _cannot_be_had(path: Path) -> None:
    raise OSError("no more watches")


async def test_requests_of_another_process_arrive_at_once(store: SqliteStore, path: Path) -> None:
    await store.create(first(), HERE)
    async with other_process(WRITES, path) as other:
        seen = await store.arrivals("ses_1", -1)
        began = time.monotonic()
        other.send("submit ses_1 req_1")
        async with asyncio.timeout(60):
            while not await store.pending("ses_1"):
                seen = await store.arrivals("ses_1", seen)
        assert time.monotonic() - began < 30


async def test_our_own_commits_do_not_count_as_those_of_other_processes(store: SqliteStore) -> None:
    """Otherwise each of them would wake every follower and every inbox in this process."""
    lease = await store.create(first(), HERE)
    store._changed_elsewhere()
    await store.append(lease, [user_fact(2)])
    await store.search("hello")
    assert not store._changed_elsewhere()
    another = SqliteStore(store.path)
    await another.append_blob("ses_1", "out", b"x")
    assert store._changed_elsewhere()
    assert not store._changed_elsewhere()
    await another.close()


async def test_a_session_is_held_by_one_process_and_free_when_that_is_killed(
    store: SqliteStore, path: Path
) -> None:
    async with other_process(WRITES, path) as other:
        await other.request("create ses_1")
        with pytest.raises(SessionHeld, match=f"process {other.pid} "):
            await store.acquire("ses_1", HERE)
        async with other_process(WRITES, path) as third:
            assert (await third.request("acquire ses_1")).startswith("SessionHeld")
        assert await other.request("append hello") == "done"
        await other.kill()
        lease = await store.acquire("ses_1", HERE)
        await store.append(lease, [user_fact(3)])
        assert await numbers(store) == [1, 2, 3]


async def test_several_processes_can_open_a_new_store_at_once(path: Path) -> None:
    async def use(number: int) -> None:
        async with other_process(WRITES, path) as other:
            assert await other.request(f"create ses_{number}") == "done"

    await asyncio.gather(*(use(number) for number in range(5)))
    store = SqliteStore(path)
    assert len(await store.sessions()) == 5
    await store.close()
