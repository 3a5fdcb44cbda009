"""Problems with the file or its disk raise the right error, with a message of one line."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ostler.schema.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreNewer, StoreReadOnly
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_connection import translate_errors
from tests.support.small_session import HERE, first, numbers, user_fact

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@contextmanager
def refused(kind: type[StoreError], path: Path) -> Iterator[None]:
    """The block must raise exactly this kind of error, with a message of one line that names the file."""
    with pytest.raises(kind) as caught:
        yield
    assert type(caught.value) is kind
    assert "\n" not in caught.value.message
    assert str(path) in caught.value.message


async def filled(path: Path, size: int = 2000) -> None:
    """A store of several pages, with an empty write-ahead log."""
    store = SqliteStore(path)
    lease = await store.create(first(), HERE)
    for seq in range(2, 52):
        await store.append(lease, [user_fact(seq, "x" * size)])
    await store.search("hello")
    await store.close()
    assert_alone(path)


def assert_alone(path: Path) -> None:
    assert not Path(f"{path}-wal").exists()


def content(file: str | Path) -> bytes:
    return Path(file).read_bytes()


def write(file: str | Path, data: bytes) -> None:
    Path(file).write_bytes(data)


def allow(place: Path, mode: int) -> None:
    place.chmod(mode)


def open_files(path: Path) -> list[str]:
    """The files that this process has open there (only on Linux)."""
    links = [link.readlink() for link in Path("/proc/self/fd").glob("*") if link.is_symlink()]
    return [str(link) for link in links if str(link).startswith(str(path))]


# --- the file ---------------------------------------------------------------------------------------


async def test_a_store_of_a_newer_version_is_refused_and_not_changed(path: Path) -> None:
    await filled(path)
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version = 99")
    db.close()
    with refused(StoreNewer, path):
        SqliteStore(path)
    assert open_files(path) == []


async def test_a_database_of_another_program_is_refused_and_not_changed(path: Path) -> None:
    for version in (0, 1):
        theirs = path.with_name(f"theirs-{version}.db")
        db = sqlite3.connect(theirs)
        db.execute("create table theirs (x)")
        db.execute(f"pragma user_version = {version}")
        db.commit()
        db.close()
        before = content(theirs)
        with refused(StoreError, theirs):
            SqliteStore(theirs)
        assert content(theirs) == before
        assert open_files(theirs) == []


async def test_a_file_that_is_no_database_is_refused_and_not_changed(path: Path) -> None:
    write(path, b"this is no database, " * 1000)
    with refused(StoreCorrupt, path):
        SqliteStore(path)
    assert content(path) == b"this is no database, " * 1000
    assert open_files(path) == []


async def test_a_truncated_file_is_reported(path: Path) -> None:
    await filled(path)
    write(path, content(path)[: len(content(path)) // 2])
    with refused(StoreCorrupt, path):
        store = SqliteStore(path)
        try:
            await store.read("ses_1")
        finally:
            await store.close()
    assert open_files(path) == []


async def test_reading_an_overwritten_page_raises(path: Path) -> None:
    await filled(path)
    write(path, content(path)[: 3 * 4096].ljust(len(content(path)), b"\xff"))
    store = SqliteStore(path)
    with refused(StoreCorrupt, path):
        await store.read("ses_1")
    with refused(StoreCorrupt, path):
        await store.create(first("ses_2"), HERE)
    await store.close()


async def test_a_truncated_write_ahead_log_loses_only_its_end(path: Path) -> None:
    """As after a power cut during a write: exactly the earlier commits are there."""
    store = SqliteStore(path)
    lease = await store.create(first(), HERE)
    for seq in range(2, 20):
        await store.append(lease, [user_fact(seq)])
    whole, log = content(path), content(f"{path}-wal")
    await store.close()
    lengths = set()
    for cut in range(0, len(log), 1999):
        copy = path.with_name(f"copy{cut}.db")
        write(copy, whole)
        write(f"{copy}-wal", log[:cut])
        torn = SqliteStore(copy)
        last = max((summary.last_seq for summary in await torn.sessions()), default=0)
        assert last == 0 or await numbers(torn) == list(range(1, last + 1))
        lengths.add(last)
        await torn.close()
    assert len(lengths) > 10


async def test_an_empty_file_becomes_a_store(path: Path) -> None:
    write(path, b"")
    store = SqliteStore(path)
    await store.create(first(), HERE)
    assert await numbers(store) == [1]
    await store.close()


@pytest.mark.parametrize("place", ["a folder", "a file/store.db"])
def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a file").touch()
    with pytest.raises(StoreError) as caught:
        SqliteStore(tmp_path / place)
    assert "\n" not in caught.value.message
    assert str(tmp_path / place) in caught.value.message
    assert "; check " in caught.value.message


# --- permissions ------------------------------------------------------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can enter, which may not be true of $TMPDIR."""
    folder = Path(tempfile.mkdtemp(prefix="ostler-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Root may write anywhere, so it becomes another user for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_a_read_only_file_can_be_read_but_not_written(open_folder: Path) -> None:
    path = open_folder / "store.db"
    await filled(path)
    allow(path, 0o444)
    if os.geteuid() == 0:
        os.chown(open_folder, NOBODY, NOBODY)
    with as_ordinary_user():
        store = SqliteStore(path)
        assert len(await store.read("ses_1")) == 51
        with refused(StoreReadOnly, path):
            await store.acquire("ses_1", HERE)
        with refused(StoreReadOnly, path):
            await store.create(first("ses_2"), HERE)
        assert [summary.id for summary in await store.sessions()] == ["ses_1"]
        await store.close()


async def test_a_read_only_folder_is_reported(open_folder: Path) -> None:
    path = open_folder / "store.db"
    await filled(path)
    allow(open_folder, 0o555)
    with as_ordinary_user():
        with refused(StoreReadOnly, path):
            SqliteStore(path)
        with refused(StoreReadOnly, open_folder / "new" / "store.db"):
            SqliteStore(open_folder / "new" / "store.db")
        assert open_files(open_folder) == []


# --- a full disk ------------------------------------------------------------------------------------


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "tiny"
    place.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("only root can mount a small disk, and only on Linux: run this test with sudo")
    yield place
    subprocess.run(["umount", str(place)], check=True)


async def test_a_full_disk_is_reported_and_loses_nothing(tiny_disk: Path) -> None:
    path = tiny_disk / "store.db"
    store = SqliteStore(path)
    lease = await store.create(first(), HERE)
    written = 1
    with refused(StoreFull, path):
        while written < 1000:
            await store.append(lease, [user_fact(written + 1, "x" * 20_000), user_fact(written + 2)])
            written += 2
    assert written > 10
    assert await numbers(store) == list(range(1, written + 1))
    with refused(StoreFull, path):
        await store.append_blob("ses_1", "out", b"x" * 2_000_000)
    assert await store.blob("ses_1", "out") is None
    await store.close()
    again = SqliteStore(path)
    assert await numbers(again) == list(range(1, written + 1))
    await again.close()


async def test_a_store_continues_when_a_full_disk_has_room_again(path: Path) -> None:
    store = SqliteStore(path)
    lease = await store.create(first(), HERE)
    pages = store._writer._connection.execute("pragma page_count").fetchone()[0]
    store._writer._connection.execute(f"pragma max_page_count = {pages + 2}")
    with refused(StoreFull, path):
        await store.append(lease, [user_fact(2), user_fact(3, "x" * 50_000)])
    assert await numbers(store) == [1]
    store._writer._connection.execute("pragma max_page_count = 100000")
    await store.append(lease, [user_fact(2), user_fact(3, "x" * 50_000)])
    assert await numbers(store) == [1, 2, 3]
    await store.close()


async def test_a_store_whose_close_is_cancelled_leaves_no_open_file(path: Path) -> None:
    store = SqliteStore(path)
    await store.create(first(), HERE)
    following = asyncio.ensure_future(anext(store.follow("ses_1", 1)))
    await asyncio.sleep(0)  # it waits now, and a poller checks the file
    closing = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    assert not closing.done()
    closing.cancel()
    await asyncio.wait({closing, following}, timeout=60)
    assert closing.cancelled()
    assert isinstance(following.exception(), StoreError)
    assert open_files(path) == []


# --- translation of errors --------------------------------------------------------------------------


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("as SQLite says it")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (sqlite_error(sqlite3.SQLITE_BUSY), StoreBusy),
        (sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT), StoreBusy),
        (sqlite_error(sqlite3.SQLITE_LOCKED), StoreBusy),
        (sqlite_error(sqlite3.SQLITE_READONLY_DBMOVED), StoreReadOnly),
        (sqlite_error(sqlite3.SQLITE_CANTOPEN), StoreReadOnly),
        (sqlite_error(sqlite3.SQLITE_FULL), StoreFull),
        (sqlite_error(sqlite3.SQLITE_IOERR_READ), StoreError),
        (sqlite_error(sqlite3.SQLITE_CORRUPT), StoreCorrupt),
        (sqlite_error(sqlite3.SQLITE_NOTADB), StoreCorrupt),
        (sqlite_error(sqlite3.SQLITE_MISUSE), StoreError),
        (sqlite3.ProgrammingError("closed"), StoreError),
        (OSError(errno.EROFS, "read-only file system"), StoreReadOnly),
        (OSError(errno.EACCES, "permission denied"), StoreReadOnly),
        (OSError(errno.ENOSPC, "no space left"), StoreFull),
        (OSError(errno.EDQUOT, "over quota"), StoreFull),
        (OSError(errno.ENAMETOOLONG, "too long"), StoreError),
    ],
    ids=repr,
)
def test_each_sqlite_error_becomes_a_store_error(
    path: Path, error: Exception, kind: type[StoreError]
) -> None:
    with refused(kind, path), translate_errors(path):
        raise error


def test_an_io_error_on_a_full_disk_is_reported_as_full(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statvfs: Callable[[object], os.statvfs_result] = os.statvfs
    full = os.statvfs_result((*statvfs(path.parent)[:3], 0, 0, *statvfs(path.parent)[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with refused(StoreFull, path), translate_errors(path):
        raise sqlite_error(sqlite3.SQLITE_IOERR_WRITE)
