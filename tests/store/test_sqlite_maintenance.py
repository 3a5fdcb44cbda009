"""Check, repair and clean-up of a file that was damaged on purpose."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from ostler.core.function_tool import tool
from ostler.core.journal import World
from ostler.core.processes import current_process
from ostler.models.scripted import Call
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.requests import Prompt
from ostler.store import sqlite_maintenance
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_maintenance import (
    STORE_INVARIANTS,
    check,
    collect_output,
    repair,
    shrink,
    unnamed_output,
)
from tests.support.running import run
from tests.support.small_session import HERE, first, user_fact

WORLD = World()


@tool
async def long(word: str) -> str:
    """Repeats a word very often."""
    return f"{word} " * 20_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ostler.db"


@pytest.fixture
async def session(path: Path) -> AsyncIterator[str]:
    """A session with a large output and indexed messages, beside another one."""
    store = SqliteStore(path)
    ran = await run([Call("long", {"word": "walrus"}), "found the walrus"], tools=[long], store=store)
    await ran.session.close()
    other = await run(["hello"], store=store)
    await other.session.close()
    assert await store.search("walrus")
    await store.close()
    assert check(path) == []
    yield ran.session.id


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("pragma writable_schema = on")
        for statement in statements:
            db.execute(statement)


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def overwrite(path: Path, place: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data)


def facts_in(path: Path) -> list[tuple[object, ...]]:
    return rows(path, "select session, seq, type, parent, run, time, origin, body from facts order by 1, 2")


def numbers(path: Path) -> set[str]:
    return {problem.number for problem in check(path)}


MENDED = {
    "a title that nobody gave": ("S2", "update sessions set title = 'x' where id = '{id}'"),
    "a wrong status": ("S2", "update sessions set status = 'running' where id = '{id}'"),
    "a last number that is too low": (
        "S2",
        "update sessions set last_seq = 2, indexed_seq = 0 where id = '{id}'",
    ),
    "a tail that is too late": ("S3", "update sessions set tail_seq = 99 where id = '{id}'"),
    "a mark that is gone": ("S3", "update facts set opening = 0 where type = 'assistant_message'"),
    "a mark too many": ("S3", "update facts set opening = 1 where type = 'usage'"),
    "an index that lost messages": ("S4", "delete from messages where session = '{id}'"),
    "an index with other words": ("S4", "update messages set words = 'oyster' where session = '{id}'"),
    "an index that knows a message twice": (
        "S4",
        "insert into messages select words, session, seq from messages",
    ),
    "an index ahead of its log": ("S4", "update sessions set indexed_seq = 999"),
    "an index that knows a session that is gone": ("S4", "insert into messages values ('x', 'ses_gone', 2)"),
    "an index whose words are lost": ("S4", "delete from messages_data where id > 10"),
    "output without a session": ("S6", "insert into blobs values (77, 999, 'out', 'text/plain', 0)"),
    "pieces without their output": ("S6", "insert into blob_parts values (999, 0, x'00')"),
    "a request without a session": ("S6", "insert into inbox values (99, 999, 'req', x'', null)"),
}


@pytest.mark.parametrize("what", MENDED)
async def test_derived_rows_are_checked_and_repaired(path: Path, session: str, what: str) -> None:
    number, statement = MENDED[what]
    before = facts_in(path)
    execute(path, statement.format(id=session))
    assert number in numbers(path)
    outcome = repair(path, WORLD)
    assert outcome.left == () and number in {problem.number for problem in outcome.mended}
    assert check(path) == [] and facts_in(path) == before
    assert outcome.copy is not None and number in numbers(outcome.copy), "the copy is of the store before"
    assert outcome.copy.stat().st_mode & 0o777 == 0o600
    store = SqliteStore(path)
    assert {hit.session for hit in await store.search("walrus")} == {session}
    await store.close()


async def test_a_damaged_sqlite_index_is_rebuilt(path: Path, session: str) -> None:
    define = (
        "update sqlite_master set sql = 'create index sessions_by_use on sessions ({})'"
        " where name = 'sessions_by_use'"
    )
    execute(path, define.format("created"))
    store = SqliteStore(path)
    await store.import_session([first("ses_misfiled"), user_fact(2, "a message", "ses_misfiled")])
    await store.close()
    execute(path, define.format("updated desc"))
    assert "S1" in numbers(path)
    assert repair(path, WORLD).left == () and check(path) == []


@pytest.mark.parametrize(
    ("statement", "number", "words"),
    [
        ("update facts set body = substr(body, 1, 20) where type = 'tool_result'", "L1", "is damaged"),
        ("delete from facts where type = 'tool_result'", "L2", "should be"),
        ("update facts set parent = 999 where type = 'tool_result'", "L3", "no earlier entry"),
        ("delete from blobs", "S5", "is lost"),
        ("delete from blob_parts", "S5", "has a hole at byte 0 of"),
        ("update blobs set size = 10", "S5", "has 10 of"),
    ],
)
async def test_lost_data_is_reported_and_not_changed(
    path: Path, session: str, statement: str, number: str, words: str
) -> None:
    path = shutil.copy(path, path.with_name("damaged.db"))
    execute(path, statement)
    before = facts_in(path)
    problems = [problem for problem in check(path, [session]) if problem.number == number]
    assert problems and words in problems[0].problem and problems[0].session == session
    outcome = repair(path, WORLD)
    assert number in {problem.number for problem in outcome.left}
    assert facts_in(path) == before


async def test_each_unreadable_part_is_reported_in_one_line(path: Path, session: str) -> None:
    path = shutil.copy(path, path.with_name("damaged.db"))
    (page,) = rows(path, "select rootpage from sqlite_master where name = 'facts'")[0]
    (size,) = rows(path, "pragma page_size")[0]
    assert isinstance(page, int) and isinstance(size, int)
    overwrite(path, (page - 1) * size, b"\xff" * size)
    problems = check(path)
    assert {problem.number for problem in problems} >= {"S1"}
    assert session in {problem.session for problem in problems}
    assert repair(path, WORLD).left


async def test_facts_without_a_session_get_a_new_session(path: Path, session: str) -> None:
    before = facts_in(path)
    execute(path, f"delete from sessions where id = '{session}'")
    assert "S6" in numbers(path)
    assert repair(path, WORLD).left == ()
    assert facts_in(path) == before
    store = SqliteStore(path)
    (hit,) = {hit.session for hit in await store.search("found the walrus")}
    assert hit != session
    summary = await store.summary(hit)
    assert (summary.status, summary.preview) == ("completed", "go")
    (result,) = [fact for fact in await store.read(hit) if fact.type == "tool_result"]
    assert len(await store.read_blob(hit, result.event.output.id)) == result.event.output.size  # type: ignore[union-attr]
    await store.close()


async def test_repairing_a_sound_store_makes_no_copy(path: Path, session: str) -> None:
    outcome = repair(path, WORLD)
    assert (outcome.mended, outcome.left, outcome.copy) == ((), (), None)
    assert [one.name for one in path.parent.glob("ostler.db*") if "repair" in one.name] == []


async def test_a_running_or_interrupted_run_is_not_reported(path: Path) -> None:
    store = SqliteStore(path)
    lease = await store.create(first(), HERE)
    started = events.RunStarted("0", "/", "scripted/model")
    await store.append(lease, [Fact.of(started, seq=2, session="ses_1", run="run_1", time_ms=2)])
    assert check(path) == []
    await store.release(lease)
    assert check(path, ["ses_1"]) == []
    await store.close()


async def test_a_session_can_be_repaired_while_another_process_writes_to_it(path: Path) -> None:
    store = SqliteStore(path)
    lease = await store.create(first(), HERE)
    await store.append(lease, [user_fact(2, "walrus")])
    execute(path, "update sessions set preview = 'wrong', tail_seq = 7")
    assert repair(path, WORLD).left == ()
    await store.append(lease, [user_fact(3, "carpenter")])
    assert check(path) == []
    assert (await store.summary("ses_1")).preview == "walrus"
    assert [hit.seq for hit in await store.search("carpenter")] == [3]
    await store.close()


async def test_unnamed_output_is_deleted_once_its_run_has_ended(path: Path, session: str) -> None:
    store = SqliteStore(path)
    lease = await store.acquire(session, HERE)
    await store.append_blob(session, "out_cut", b"x" * 300_000)
    assert unnamed_output(path, WORLD) == [], "the process that holds the session may still name it"
    await store.release(lease)
    (output,) = unnamed_output(path, WORLD)
    assert (output.session, output.blob, output.size) == (session, "out_cut", 300_000)
    execute(path, "update sessions set status = 'waiting'")
    assert collect_output(path, WORLD) == []
    execute(path, "update sessions set status = 'completed'")
    assert collect_output(path, WORLD) == [output]
    assert collect_output(path, WORLD) == []
    assert await store.blob(session, "out_cut") is None
    await store.close()
    assert check(path) == []


async def test_shrink_makes_the_file_smaller_after_sessions_are_deleted(path: Path) -> None:
    store = SqliteStore(path)
    await store.import_session([first("ses_large"), user_fact(2, "x" * 2_000_000, "ses_large")])
    await store.import_session([first("ses_small")])
    await store.delete("ses_large", current_process())
    freed = shrink(path, WORLD)
    assert freed is not None and freed > 1_000_000
    assert shrink(path, WORLD) == 0
    await store.submit("ses_small", Prompt(id="req_1", content=()))
    assert len(await store.pending("ses_small")) == 1, "those who had it open go on"
    await store.close()


async def test_shrink_leaves_a_large_file_in_use_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_maintenance, "SMALL", 1)
    store = SqliteStore(path)
    await store.import_session([first("ses_large"), user_fact(2, "x" * 2_000_000, "ses_large")])
    lease = await store.create(first(), HERE)
    await store.delete("ses_large", current_process())
    assert shrink(path, WORLD) is None
    await store.release(lease)
    assert shrink(path, WORLD)
    await store.close()


def test_store_invariants_have_fixed_numbers() -> None:
    assert list(STORE_INVARIANTS) == [f"S{number}" for number in range(1, 7)]
