"""The state of extensions in a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ostler.core.harness import Harness
from ostler.core.hooks import StepPlan
from ostler.core.journal import World
from ostler.core.state import fold
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension import Extension
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.extension_session import SessionOpened
from ostler.models.scripted import ScriptedModel
from ostler.schema.errors import StoreError, UsageError
from ostler.schema.messages import as_content
from ostler.schema.requests import Navigate
from ostler.sessions.session import Session, open_session
from ostler.store.fork import fork
from ostler.store.memory import MemoryStore
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_maintenance import check
from tests.support.extension_session import context_of, extension, nothing, session_with


class Count(msgspec.Struct):
    seen: int
    names: list[str]


def keeper(kept: dict[str, ExtensionContext]) -> Extension:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(SessionOpened)
        def opened(moment: SessionOpened, context: ExtensionContext) -> None:
            kept[moment.session] = context

    return extension("keeper", setup)


async def opened_with(store: Any, kept: dict[str, ExtensionContext], session: str) -> Session:
    from ostler.extensions.host import ExtensionHost

    harness = Harness(model=ScriptedModel(["again"]))
    ExtensionHost([keeper(kept)]).install_into(harness)
    return await open_session(store, session, harness)


async def settled(session: Session) -> None:
    for listener in session.harness.listeners:
        await listener.on_idle(session)


async def test_values_keep_their_types_and_the_last_one_counts() -> None:
    contexts: dict[str, ExtensionContext] = {}
    session, _ = await session_with(ScriptedModel([]), keeper(contexts))
    await settled(session)
    state = contexts[session.id].state
    state["n"] = 1
    state["n"] = 2.5
    state["list"] = [1, {"a": None}]
    state["count"] = Count(3, ["a"])
    assert state["n"] == 2.5
    assert list(state) == ["count", "list", "n"]
    assert state.read("count", Count, Count(0, [])) == Count(3, ["a"])
    assert state.read("n", Count, Count(0, [])) == Count(0, [])
    del state["list"]
    assert "list" not in state
    assert state.get("missing", 7) == 7
    with pytest.raises(KeyError):
        del state["missing"]
    with pytest.raises(UsageError, match="None cannot be stored"):
        state["n"] = None
    with pytest.raises(TypeError):
        state["n"] = object()
    state["list"] = inner = [1]
    inner.append(2)
    state["list"].append(3)
    assert state["list"] == [1]
    await session.close()


async def test_a_reopened_session_has_its_state(tmp_path: Path) -> None:
    contexts: dict[str, ExtensionContext] = {}
    store = SqliteStore(tmp_path / "log.db")
    session, _ = await session_with(ScriptedModel(["done"]), keeper(contexts), store=store)
    await settled(session)
    contexts[session.id].state["n"] = 1
    await session.prompt(as_content("go"))
    await session.close()
    again = await opened_with(store, contexts, session.id)
    await settled(again)
    assert dict(contexts[session.id].state) == {"n": 1}
    await again.close()
    await store.close()


async def test_a_value_is_normalised_as_the_next_process_reads_it() -> None:
    contexts: dict[str, ExtensionContext] = {}
    session, _ = await session_with(ScriptedModel([]), keeper(contexts))
    await settled(session)
    state = contexts[session.id].state
    state["keys"] = {1: 2}
    state["odd"] = [float("nan"), {"one"}, b"bytes", 2**70]
    endless: list[Any] = []
    endless.append(endless)
    for value in (float("nan"), "\ud800", endless):
        with pytest.raises(UsageError):
            state["keys"] = value
    await session.journal.commit()
    facts = await session.journal.store.read(session.id)
    assert dict(state) == fold(facts).extension_state["keeper"]
    assert state["keys"] == {"1": 2}
    await session.close()


async def test_a_fork_has_a_copy_and_moving_in_the_tree_changes_nothing() -> None:
    contexts: dict[str, ExtensionContext] = {}
    store = MemoryStore()
    session, _ = await session_with(ScriptedModel(["one", "two"]), keeper(contexts), store=store)
    await session.prompt(as_content("first"))
    state = contexts[session.id].state
    state["n"] = 1
    await session.prompt(as_content("second"))
    copy = await fork(store, session.id, None, World())
    state["n"] = 2
    await session.journal.commit()
    await store.submit(session.id, Navigate(id="go-back", entry=0))
    await session.advance()
    assert state["n"] == 2
    forked = await opened_with(store, contexts, copy)
    await settled(forked)
    assert dict(contexts[copy].state) == {"n": 1}
    contexts[copy].state["n"] = 3
    assert state["n"] == 2
    await forked.close()
    await session.close()


async def test_a_value_that_the_log_cannot_take_is_refused_and_the_old_one_stays() -> None:
    contexts: dict[str, ExtensionContext] = {}
    session, _ = await session_with(ScriptedModel([]), keeper(contexts))
    await settled(session)
    state = contexts[session.id].state
    state["n"] = 1
    await session.journal.commit()
    session.journal.fail(StoreError("the disk is full"))
    with pytest.raises(StoreError):
        state["n"] = 2
    assert state["n"] == 1


async def test_a_state_that_changes_often_does_not_slow_opening_a_session(tmp_path: Path) -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_step
        def count(plan: StepPlan, context: ExtensionContext) -> None:
            for _ in range(500):
                context.state["n"] = context.state.get("n", 0) + 1

    store = SqliteStore(tmp_path / "log.db")
    session, _ = await session_with(ScriptedModel(["one", "two"]), extension("counter", setup), store=store)
    await session.prompt(as_content("go"))
    await session.prompt(as_content("go"))
    await session.close()
    opening = await store.read_opening(session.id)
    assert sum(fact.type == "extension_state" for fact in opening) == 2, "the last of each run"
    assert fold(opening).extension_state == {"counter": {"n": 1000}}
    assert sum(fact.type == "extension_state" for fact in await store.read(session.id)) == 1000
    assert not check(store.path)
    await store.close()


async def test_state_that_cannot_be_written_stops_the_session_and_not_the_process() -> None:
    session, host = await session_with(ScriptedModel([]), extension("mine", nothing))
    session.journal.fail(StoreError("the disk is full"))
    with pytest.raises(StoreError, match="the disk is full"):
        context_of(host, session).state["key"] = 1
    await session.close()
