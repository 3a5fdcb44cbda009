"""A store with a little of everything in it, and its dump: `python -m tests.store.golden_store > FILE`."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from pathlib import Path

from ostler.core.journal import World
from ostler.core.processes import ProcessId
from ostler.core.store import BlobPart
from ostler.schema import requests
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_connection import version_of
from tests.support.paths import GOLDEN

NOW_MS = 1_700_000_000_000
OWNER = ProcessId(pid=4711, started="190", boot="1b4e28ba-2fa1-11d2-883f-0016d3cca427", host="stable")
TOOL = ProcessId(pid=4712, started="191", boot=OWNER.boot, host=OWNER.host)
PROMPT = requests.Prompt(id="req_2", content=as_content("And the lexer."))
OUTPUT = b"12 passed\n" * 3

# As bytes, because these must stay readable however newer versions encode events.
BODIES: tuple[tuple[bytes, int | None], ...] = (
    (b'{"type":"session_started","cwd":"/home/ada","version":"0.1.0"}', None),
    (b'{"type":"run_started","version":"0.1.0","cwd":"/home/ada","model":"scripted/model"}', None),
    (b'{"type":"user_message","content":[{"type":"text","text":"Fix the na\xc3\xafve parser."}]}', 0),
    (b'{"type":"step_started","number":1,"tools":["bash"]}', None),
    (b'{"type":"model_called","id":"mc_1","model":"scripted/model","digest":"d1"}', None),
    (
        b'{"type":"usage","call":"mc_1","model":"scripted/model","usage":{"input_tokens":10,"output_tokens":5},'
        b'"cumulative":{"input_tokens":10,"output_tokens":5}}',
        None,
    ),
    (
        b'{"type":"assistant_message","call":"mc_1","content":[{"type":"text","text":"I run the tests."},'
        b'{"type":"tool_call","id":"call_1","name":"bash","arguments":"{}"}],"stop_reason":"tool_calls"}',
        3,
    ),
    (b'{"type":"tool_called","call":"call_1","name":"bash","arguments":{},"step":1}', 7),
    (b'{"type":"tool_started","call":"call_1","name":"bash"}', None),
    (
        b'{"type":"tool_result","call":"call_1","name":"bash","content":[{"type":"text","text":"12 passed"}],'
        b'"output":{"id":"out_call_1","size":30,"media_type":"text/plain"}}',
        8,
    ),
    (b'{"type":"step_ended","number":1}', None),
    (b'{"type":"run_ended","status":"completed"}', None),
    (b'{"type":"session_renamed","title":"The parser","request":"req_1"}', None),
    (b'{"type":"of_a_later_version", "kept" : "byte for byte", "n":1.50}', None),
)


def facts(session: str, count: int = len(BODIES)) -> list[Fact]:
    return [
        Fact(seq, session, "run_1" if 2 <= seq <= 12 else "", NOW_MS + seq, body, parent=parent)
        for seq, (body, parent) in enumerate(BODIES[:count], 1)
    ]


async def write(path: Path) -> None:
    store = SqliteStore(path, world=World(now_ms=lambda: NOW_MS))
    whole = facts("ses_held")
    lease = await store.create(whole[0], OWNER)
    await store.submit("ses_held", requests.Rename(id="req_1", title="The parser"))
    await store.append_blob("ses_held", "out_call_1", OUTPUT[:7])
    await store.append_blob("ses_held", "out_call_1", OUTPUT[7:])
    await store.append(lease, whole[1:12])
    await store.append(lease, whole[12:], {"req_1": 13})
    await store.submit("ses_held", PROMPT)
    await store.own_process(lease, "call_2", TOOL)
    await store.import_session(facts("ses_cut", 8), [BlobPart("out_call_1", b"of another session")])
    await store.search("parser")
    await store.close()
    db = sqlite3.connect(path)
    with db:
        db.execute("update store set id = 'store_golden'")
    db.close()


def dump(path: Path) -> str:
    """The store as SQL, row by row. SQLite's own dump of full-text tables cannot be read back everywhere."""
    db = sqlite3.connect(path)
    lines = [f"pragma application_id = {db.execute('pragma application_id').fetchone()[0]};"]
    tables = db.execute(
        "select name, sql from sqlite_master where sql is not null and name not like 'sqlite_%'"
        " and name not like 'messages_%' order by rowid"
    ).fetchall()
    lines += [f"{sql};" for _, sql in tables]
    for name, sql in tables:
        if sql.lower().startswith("create index"):
            continue
        columns = [row[1] for row in db.execute(f"pragma table_info({name})")]
        quoted = " || ', ' || ".join(f"quote({column})" for column in columns)
        rows = db.execute(f"select {quoted} from {name} order by {', '.join(columns)}").fetchall()
        lines += [f"insert into {name} ({', '.join(columns)}) values ({row});" for (row,) in rows]
    lines.append(f"pragma user_version = {db.execute('pragma user_version').fetchone()[0]};")
    db.close()
    return "\n".join(lines) + "\n"


def restore(path: Path, sql: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.executescript(sql)
    db.close()


def dump_of_today(folder: Path) -> str:
    asyncio.run(write(folder / "store.db"))
    return dump(folder / "store.db")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(dump_of_today(Path(folder)))
    print(f"this is {GOLDEN.name}/store-v{version_of()}.sql", file=sys.stderr)
