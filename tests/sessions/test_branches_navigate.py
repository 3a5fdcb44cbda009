"""Navigating in a session: the transcript afterwards, also when the session is opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostler.core.function_tool import tool
from ostler.core.state import fold
from ostler.models.scripted import Call
from ostler.schema.messages import as_content
from ostler.schema.requests import Navigate
from ostler.sessions.session import open_session
from ostler.store.sqlite import SqliteStore
from tests.support.running import started


@tool(kind="read", parallel=True)
async def double(number: int) -> str:
    """Doubles a number."""
    return str(2 * number)


@pytest.mark.parametrize("target", ["user_message", "tool_called", "tool_result"])
async def test_a_session_that_was_navigated_back_opens_with_the_same_state(
    tmp_path: Path, target: str
) -> None:
    store = SqliteStore(tmp_path / "store.db")
    calls = [Call("double", {"number": 1}), Call("double", {"number": 2})]
    ran = await started([calls, "first", calls, "second"], tools=[double], store=store)
    session = ran.session
    await session.prompt(as_content("go"))
    entry = next(fact.seq for fact in ran.facts if fact.type == target)
    await store.submit(session.id, Navigate(id="back", entry=entry))
    await session.prompt(as_content("elsewhere"))
    left = session.state.snapshot()
    assert [message.text for message in session.state.transcript if message.role == "user"] == [
        "go",
        "elsewhere",
    ]
    await session.close()

    opening = await store.read_opening(session.id)
    assert "tool_called" not in [fact.type for fact in opening]
    assert fold(opening).snapshot() == left == fold(await store.read(session.id)).snapshot()
    again = await open_session(store, session.id, session.harness)
    assert again.state.leaf == left["leaf"]
    await again.close()
    await store.close()
