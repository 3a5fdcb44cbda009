"""Stores of every version can be opened; an older one is copied and migrated."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from ostler.core.journal import World
from ostler.core.processes import ProcessId
from ostler.core.state import fold
from ostler.schema.errors import SessionHeld, StoreError, StoreFull, StoreNewer
from ostler.store.rules import LEASE_MS
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_connection import MIGRATIONS, connect, version_of
from tests.store import golden_store
from tests.store.golden_store import GOLDEN, NOW_MS, OUTPUT, OWNER, PROMPT, TOOL, facts
from tests.support.small_session import HERE, first, numbers, user_fact

VERSIONS = {file.stem: file.read_text() for file in sorted(GOLDEN.glob("store-v*.sql"))}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


# --- golden copies ----------------------------------------------------------------------------------


def test_the_current_schema_has_a_golden_copy(tmp_path: Path) -> None:
    """A change of the tables needs a new version, a migration, and a new golden copy beside the old ones."""
    assert golden_store.dump_of_today(tmp_path) == VERSIONS[f"store-v{version_of()}"]


@pytest.mark.parametrize("golden", VERSIONS)
async def test_a_store_of_every_version_can_be_opened(path: Path, golden: str) -> None:
    golden_store.restore(path, VERSIONS[golden])
    store = SqliteStore(path, world=World(now_ms=lambda: NOW_MS + LEASE_MS - 1))
    try:
        await _check_content(store)
    finally:
        await store.close()


async def _check_content(store: SqliteStore) -> None:
    for session, expected in (("ses_held", facts("ses_held")), ("ses_cut", facts("ses_cut", 8))):
        assert await store.read(session) == expected
        opening = await store.read_opening(session)
        assert fold(opening).snapshot() == fold(expected).snapshot()
    assert [summary.id for summary in await store.sessions()] == ["ses_held", "ses_cut"]
    held, cut = await store.summary("ses_held"), await store.summary("ses_cut")
    assert (held.title, held.preview, held.status) == ("The parser", "Fix the naïve parser.", "completed")
    assert (cut.status, cut.last_seq, cut.cwd) == ("running", 8, "/home/ada")
    assert sorted((hit.session, hit.seq) for hit in await store.search("naive")) == [
        ("ses_cut", 3),
        ("ses_held", 3),
    ]
    assert await store.read_blob("ses_held", "out_call_1") == OUTPUT
    assert await store.read_blob("ses_cut", "out_call_1") == b"of another session"
    assert await store.pending("ses_held") == [PROMPT]
    assert await store.settlement("ses_held", "req_1") == 13
    assert await store.owned_processes("ses_held") == [("call_2", TOOL)]
    with pytest.raises(SessionHeld, match=OWNER.host):
        await store.acquire("ses_held", HERE)
    lease = await store.acquire("ses_cut", HERE)
    await store.append(lease, [user_fact(9, session="ses_cut")])
    assert await numbers(store, "ses_cut") == list(range(1, 10))


# --- migrations -------------------------------------------------------------------------------------


def add_colour(db: sqlite3.Connection) -> None:
    db.execute("alter table sessions add column colour text not null default 'grey'")


def paint(db: sqlite3.Connection) -> None:
    db.execute("update sessions set colour = 'red'")


async def stored(path: Path) -> None:
    store = SqliteStore(path)
    lease = await store.create(first(), HERE)
    await store.append(lease, [user_fact(2), user_fact(3)])
    await store.close()


def version(path: Path) -> int:
    db = sqlite3.connect(path)
    number: int = db.execute("pragma user_version").fetchone()[0]
    db.close()
    return number


def others(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir() if file != path)


async def test_an_older_store_is_copied_and_migrated(path: Path) -> None:
    await stored(path)
    db = connect(path, migrations=(*MIGRATIONS, add_colour, paint))
    assert db.execute("select id, last_seq, colour from sessions").fetchall() == [("ses_1", 3, "red")]
    assert db.execute("select count(*) from facts").fetchone() == (3,)
    db.close()
    assert version(path) == version_of() + 2
    assert others(path) == ["store.db.version-2"]
    copy = SqliteStore(path.with_name("store.db.version-2"))
    assert await numbers(copy) == [1, 2, 3]
    await copy.close()
    with pytest.raises(StoreNewer):
        SqliteStore(path)


async def test_the_copy_includes_the_write_ahead_log(path: Path) -> None:
    living = SqliteStore(path)
    lease = await living.create(first(), HERE)
    connect(path, migrations=(*MIGRATIONS, add_colour)).close()
    copy = SqliteStore(path.with_name("store.db.version-2"))
    assert await numbers(copy) == [1]
    await copy.close()
    await living.append(lease, [user_fact(2)])
    await living.close()


async def test_each_migration_runs_once(path: Path) -> None:
    await stored(path)
    connect(path, migrations=(*MIGRATIONS, add_colour)).close()
    connect(path, migrations=(*MIGRATIONS, add_colour)).close()
    db = connect(path, migrations=(*MIGRATIONS, add_colour, paint))
    assert db.execute("select colour from sessions").fetchall() == [("red",)]
    db.close()
    assert others(path) == ["store.db.version-2", "store.db.version-3"]


async def test_a_failed_migration_changes_nothing(path: Path) -> None:
    await stored(path)

    def stumble(db: sqlite3.Connection) -> None:
        db.execute("delete from facts")
        db.execute("select * from nowhere")

    with pytest.raises(StoreError, match="nowhere"):
        connect(path, migrations=(*MIGRATIONS, add_colour, stumble))
    assert version(path) == version_of()
    store = SqliteStore(path)
    assert await numbers(store) == [1, 2, 3]
    await store.close()


CRASHES = """
import os, sys
from pathlib import Path
from ostler.store.sqlite_connection import MIGRATIONS, connect

def crash(db):
    db.execute("delete from facts")
    os._exit(7)

connect(Path(sys.argv[1]), migrations=(*MIGRATIONS, crash))
"""


async def test_a_crash_during_a_migration_changes_nothing(path: Path) -> None:
    await stored(path)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", CRASHES, str(path))
    assert await process.wait() == 7
    assert version(path) == version_of()
    store = SqliteStore(path)
    assert await numbers(store) == [1, 2, 3]
    await store.close()
    connect(path, migrations=(*MIGRATIONS, add_colour)).close()
    assert version(path) == version_of() + 1


async def test_a_migration_without_room_for_the_copy_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(path)

    def no_room(self: Path, mode: int = 0o666, exist_ok: bool = True) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "touch", no_room)
    with pytest.raises(StoreFull):
        connect(path, migrations=(*MIGRATIONS, add_colour))
    assert version(path) == version_of()
    assert others(path) == []


async def test_one_of_several_processes_migrates_an_old_store(path: Path) -> None:
    await stored(path)
    taken: list[ProcessId] = []
    meeting = threading.Barrier(4)

    def count(db: sqlite3.Connection) -> None:
        taken.append(HERE)

    def open_it() -> None:
        meeting.wait(60)
        connect(path, migrations=(*MIGRATIONS, add_colour, count)).close()

    await asyncio.gather(*(asyncio.to_thread(open_it) for _ in range(4)))
    assert len(taken) == 1
    assert version(path) == version_of() + 2


def test_a_new_store_has_the_current_version(path: Path) -> None:
    def must_not_run(db: sqlite3.Connection) -> None:
        raise AssertionError("there is nothing to bring forward")

    connect(path, migrations=(*MIGRATIONS, must_not_run)).close()
    assert version(path) == version_of() + 1
    assert others(path) == []


# --- the id of the store ------------------------------------------------------------------------------


async def test_an_older_store_gets_an_id_once_and_its_copies_keep_it(path: Path) -> None:
    golden_store.restore(path, VERSIONS["store-v1"])
    store = SqliteStore(path)
    own = store.id
    await store.close()
    assert own.startswith("store_") and len(own) > 30
    assert others(path) == ["store.db.version-1"]
    copied = path.with_name("copied.db")
    shutil.copyfile(path, copied)
    for again in (path, copied):
        store = SqliteStore(again)
        assert store.id == own
        await store.close()


async def test_each_new_store_has_an_id_of_its_own(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / name) for name in ("a.db", "b.db")]
    assert stores[0].id != stores[1].id
    for store in stores:
        await store.close()
