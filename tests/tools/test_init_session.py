"""The built-in tools in a session with a real store."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ostler import Agent
from ostler.core.model import ModelRequest
from ostler.models.scripted import Call, Script, ScriptedModel
from ostler.schema.messages import ToolResult, text_of
from ostler.store.sqlite import SqliteStore
from ostler.tools import builtin_tools


def last_result(request: ModelRequest) -> str:
    block = request.transcript[-1].content[-1]
    assert isinstance(block, ToolResult)
    return text_of(block.content)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "store.db")
    yield opened
    await opened.close()


async def results_of(
    script: Script, cwd: Path, store: SqliteStore, session: str = ""
) -> tuple[list[str], str]:
    """The result of each call for the model, and the session's id."""
    texts: list[str] = []

    def final(request: ModelRequest) -> str:
        texts.extend(
            text_of(block.content)
            for message in request.transcript
            for block in message.content
            if isinstance(block, ToolResult)
        )
        return "done"

    agent = Agent(
        ScriptedModel([*script, final]), tools=builtin_tools(), cwd=cwd, store=store, session=session
    )
    try:
        result = await agent.run("go")
    finally:
        await agent.close()
    return texts, result.session


async def test_the_full_output_can_be_read_at_the_address_in_the_result(
    tmp_path: Path, store: SqliteStore
) -> None:
    def read_what_it_names(request: ModelRequest) -> Call:
        named = re.search(r"read (blob:\S+) for", last_result(request))
        assert named
        return Call("read", {"path": named[1], "limit": 1})

    texts, _ = await results_of(
        [Call("bash", {"command": "seq 1 30000"}), read_what_it_names],
        tmp_path,
        store,
    )
    assert texts[0].endswith("\n30000\n")
    assert texts[1] == "1\t1\n[lines 1-1 of 30000; use offset=2 to continue]"


async def test_a_reopened_session_knows_which_files_were_read(tmp_path: Path, store: SqliteStore) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("kept", "changed"):
        (work / name).write_text("one\n")
    _, session = await results_of(
        [Call("read", {"path": "kept"}), Call("read", {"path": "changed"})], work, store
    )
    (work / "changed").write_text("one more\n")
    edits = [{"old_text": "one", "new_text": "two"}]
    texts, _ = await results_of(
        [Call("edit", {"path": "kept", "edits": edits}), Call("edit", {"path": "changed", "edits": edits})],
        work,
        store,
        session,
    )
    assert texts[-2].startswith("edited kept")
    assert texts[-1] == "changed has changed since you last read it: read it again, then change it"
    assert (work / "kept").read_text() == "two\n"
    assert (work / "changed").read_text() == "one more\n"


async def test_a_failure_is_one_line_without_the_name_of_an_exception(
    tmp_path: Path, store: SqliteStore
) -> None:
    texts, _ = await results_of([Call("read", {"path": "nope"})], tmp_path, store)
    assert texts == ["nope: no such file or directory"]
