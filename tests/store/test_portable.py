"""Export and import: what the file preserves, and which files are refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.core.function_tool import tool
from ostler.core.journal import World
from ostler.core.processes import current_process
from ostler.core.state import fold
from ostler.core.store import Store
from ostler.models.scripted import Call
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.schema.messages import Image, Text
from ostler.store.fork import fork
from ostler.store.invariants import violations
from ostler.store.memory import MemoryStore
from ostler.store.portable import export_session, import_session, read_line
from ostler.store.sqlite import SqliteStore
from tests.support.event_strategies import any_event
from tests.support.running import run
from tests.support.stored import HOME, facts_of, put

ELSEWHERE = "/home/eve/work"


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "ostler.db")
    yield opened
    await opened.close()


@tool
async def long(word: str) -> str:
    """Repeats a word very often."""
    return f"{word} " * 100_000


async def exported(store: Store, session: str) -> list[bytes]:
    return [line async for line in export_session(store, session)]


async def reimported(store: Store, lines: list[bytes]) -> list[Fact]:
    return await store.read((await import_session(store, lines, ELSEWHERE, World())).session)


def user_message(text: str) -> events.UserMessage:
    return events.UserMessage((Text(text),))


async def test_an_exported_session_can_be_imported(store: Store) -> None:
    ran = await run(
        [Call("long", {"word": "again"}, id="call_1"), "done"],
        tools=[long],
        store=store,
        cwd=Path("/home/ada/secret-project"),
    )
    source = await store.read(ran.session.id)
    whole = await store.read_blob(ran.session.id, "result_call_1")
    lines = await exported(store, ran.session.id)
    await ran.session.close()
    await store.delete(ran.session.id, current_process())
    copy = await reimported(store, lines)

    assert copy[0].session != ran.session.id
    assert [(f.seq, f.run, f.time_ms, f.parent) for f in copy] == [
        (f.seq, f.run, f.time_ms, f.parent) for f in source
    ]
    changed = [f.type for f, original in zip(copy, source, strict=True) if f.body != original.body]
    assert changed == ["session_started", "run_started"]
    assert fold(copy).snapshot() | {"id": ""} == fold(source).snapshot() | {"id": ""}
    assert await store.read_blob(copy[0].session, "result_call_1") == whole
    assert len(whole) == 600_000
    assert violations(copy) == []


async def test_an_export_omits_the_folder_of_the_session(store: Store) -> None:
    unknown = b'{"type":"run_started","mood":{"a":  1},"cwd":"%b","version":"9","model":"m","new":[ ]}'
    facts = facts_of(unknown % HOME.encode(), user_message("hello"))
    lines = await exported(store, await put(store, facts))
    assert HOME.encode() not in b"".join(lines)
    copy = await reimported(store, lines)
    assert (await store.summary(copy[0].session)).cwd == ELSEWHERE
    assert copy[1].body == unknown % ELSEWHERE.encode()


async def test_an_export_omits_folders_of_questions_and_permissions(store: Store) -> None:
    question = (
        b'{"type":"question_asked","id":"q","question":{"text":"?","details":{"project":"%b","tool":"bash"}}}'
    )
    permission = (
        b'{"type":"permission_remembered","rule":"bash","effect":"allow","scope":"project","where":"%b"}'
    )
    facts = facts_of(question % HOME.encode(), permission % HOME.encode(), user_message("hello"))
    lines = await exported(store, await put(store, facts))
    assert HOME.encode() not in b"".join(lines)
    copy = await reimported(store, lines)
    assert copy[1].event.question.details == {"tool": "bash"}  # type: ignore[union-attr]


async def test_the_same_file_can_be_imported_twice(store: Store) -> None:
    lines = await exported(store, await put(store, facts_of(user_message("hello"))))
    first, second = await reimported(store, lines), await reimported(store, lines)
    assert first[0].session != second[0].session
    assert len(await store.sessions()) == 3


async def test_unknown_events_and_fields_survive_byte_for_byte(store: Store) -> None:
    bodies = [
        b'{"type":"entry_of_tomorrow","x" : [1,  2],"critical":true}',
        b'{"type":"record_of_tomorrow"}',
        b'{"type":"user_message","content":[{"type":"text","text":"\\u00e9"}],"mood":{"a":  1}}',
    ]
    facts = facts_of(*bodies)
    facts[3].parent = 2
    copy = await reimported(store, await exported(store, await put(store, facts)))
    assert [fact.body for fact in copy[1:]] == bodies


async def test_an_exported_fork_keeps_its_origins(store: Store) -> None:
    source = await put(store, facts_of(user_message("hello")))
    forked = await store.read(await fork(store, source, None, World()))
    copy = await reimported(store, await exported(store, forked[0].session))
    assert copy[1].origin == f"{source}:2"
    assert isinstance(copy[0].event, events.SessionStarted)
    assert copy[0].event.forked_from == source


async def test_a_fact_of_22_megabytes_can_be_exported_and_imported(tmp_path: Path) -> None:
    picture = Image("image/png", data="QUJD" * (22 * 2**20 // 4))
    store = SqliteStore(tmp_path / "ostler.db")
    facts = facts_of(events.UserMessage((picture,)))
    file = tmp_path / "session.jsonl"
    with file.open("wb") as out:
        async for line in export_session(store, await put(store, facts)):
            out.write(line)
    with file.open("rb") as lines:
        copy = await store.read((await import_session(store, lines, ELSEWHERE, World())).session)
    await store.close()
    assert file.stat().st_size > 22 * 2**20
    assert copy[1].body == facts[1].body


async def test_a_large_blob_is_exported_in_lines_of_bounded_size(store: Store) -> None:
    ran = await run([Call("long", {"word": "x" * 20}, id="call_1"), "done"], tools=[long], store=store)
    lines = await exported(store, ran.session.id)
    pieces = [line for line in lines if line.startswith(b'{"type":"ostler_blob"')]
    assert len(pieces) > 5
    assert max(map(len, pieces)) < 300 * 1024


@given(
    any_event(),
    st.integers(1, 2**50),
    st.integers(0, 4_000_000_000_000),
    st.none() | st.integers(0, 2**50),
    st.sampled_from(["", "ses_0:1"]),
)
def test_read_line_restores_the_fact(
    event: Event, seq: int, time_ms: int, parent: int | None, origin: str
) -> None:
    fact = Fact.of(event, seq=seq, session="ses_1", run="run_1", time_ms=time_ms, parent=parent)
    fact.origin = origin
    assert read_line(fact.line(), "ses_1") == fact


@given(any_event(), st.randoms(use_true_random=False))
def test_read_line_accepts_fields_in_any_order(event: Event, random: object) -> None:
    fact = Fact.of(event, seq=7, session="ses_1", run="run_1", time_ms=1_700_000_000_123, parent=3)
    fields = list(json.loads(fact.line()).items())
    random.shuffle(fields)  # type: ignore[attr-defined]
    read = read_line(json.dumps(dict(fields)).encode(), "ses_1")
    assert (read.seq, read.run, read.time_ms, read.parent) == (7, "run_1", 1_700_000_000_123, 3)
    assert msgspec.json.decode(read.body) == msgspec.json.decode(fact.body)
    assert read.event == fact.event


async def test_an_edited_file_is_imported(store: Store) -> None:
    lines = await exported(
        store, await put(store, facts_of(user_message("hello"), events.SessionRenamed("greeting")))
    )
    spaced = json.dumps(json.loads(lines[2]) | {"content": [{"type": "text", "text": "edited"}]})
    copy = await reimported(store, [lines[0], b"\r\n", lines[1], spaced.encode() + b"\r\n", b"\n", lines[3]])
    assert fold(copy).transcript[0].text == "edited"
    assert fold(copy).title == "greeting"


REFUSED = {
    "nothing": (lambda lines: [], "the file is empty"),
    "no header": (lambda lines: lines[1:], "line 1 .* not the first line of an ostler export"),
    "not JSON": (lambda lines: [b"\x7fELF\xff\n"], "line 1 .* not the first line of an ostler export"),
    "a newer version": (
        lambda lines: [lines[0].replace(b'"version":1', b'"version":2'), *lines[1:]],
        "line 1 .* version 2, and this ostler reads up to 1: upgrade it",
    ),
    "only a header": (lambda lines: [b'{"type":"ostler_export","version":1}'], "it has no facts"),
    "a cut line": (lambda lines: [*lines[:3], lines[3][:-10]], "line 4 cannot be imported"),
    "a missing end": (lambda lines: lines[:3], "truncated at line 3: it has 2 of 4 facts"),
    "more than was promised": (
        lambda lines: [lines[0].replace(b'"facts":4', b'"facts":3'), *lines[1:]],
        "the file has 4 facts, but its first line says 3",
    ),
    "a hole": (lambda lines: [*lines[:2], *lines[3:]], "line 3 .* fact 3, but 2 comes next"),
    "a repeat": (lambda lines: [*lines[:3], lines[2], *lines[3:]], "line 4 .* fact 2, but 3 comes next"),
    "no beginning": (
        lambda lines: [lines[0], lines[2].replace(b'"seq":2', b'"seq":1')],
        "line 2 .* session_started must be the first",
    ),
    "a foreign parent": (
        lambda lines: [*lines[:3], lines[3].replace(b'"parent":2', b'"parent":9'), lines[4]],
        "line 4 .* parent 9 is no entry before it",
    ),
    "an entry without parent": (
        lambda lines: [*lines[:3], lines[3].replace(b',"parent":2', b""), lines[4]],
        "line 4 .* user_message needs a parent",
    ),
    "a record with parent": (
        lambda lines: [*lines[:4], lines[4].replace(b',"title"', b',"parent":3,"title"')],
        "line 5 .* session_renamed has no parent",
    ),
    "a wrong field": (
        lambda lines: [*lines[:4], lines[4].replace(b'"greeting"', b"17")],
        r"line 5 .* `\$.title`",
    ),
    "an unknown event that is broken": (
        lambda lines: [*lines[:4], lines[4].replace(b"session_renamed", b"new").replace(b'g"}', b"}")],
        "line 5 cannot be imported: Input data was truncated",
    ),
    "a wrong time": (
        lambda lines: [*lines[:4], lines[4].replace(b'"time":"2', b'"time":"x')],
        "line 5 .* isoformat",
    ),
    "a time without zone": (
        lambda lines: [*lines[:4], lines[4].replace(b'Z"', b'"')],
        "line 5 .* has no time zone",
    ),
    "a blob that is no base64": (
        lambda lines: [*lines, b'{"type":"ostler_blob","blob":"b","media_type":"t","size":3,"data":"?"}'],
        "line 6 cannot be imported",
    ),
    "a blob that is cut": (
        lambda lines: [
            lines[0].replace(b'"blobs":0', b'"blobs":1'),
            *lines[1:],
            b'{"type":"ostler_blob","blob":"b","media_type":"t","size":9,"data":"QUJD"}',
        ],
        "truncated at line 6: 6 bytes of 'b' are missing",
    ),
    "a missing blob": (
        lambda lines: [lines[0].replace(b'"blobs":0', b'"blobs":1'), *lines[1:]],
        "it has 0 of 1 blobs",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_truncated_or_damaged_file_imports_nothing(case: str) -> None:
    store = MemoryStore()
    facts = facts_of(user_message("hello"), user_message("again"), events.SessionRenamed("greeting"))
    lines = await exported(store, await put(store, facts))
    spoil, complaint = REFUSED[case]
    with pytest.raises(UsageError, match=complaint) as error:
        await import_session(store, spoil(lines), ELSEWHERE, World())
    assert "\n" not in error.value.message
    assert len(await store.sessions()) == 1
