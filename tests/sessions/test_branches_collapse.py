"""Collapsing a branch: the summary is sent and its usage counted, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ostler.core.harness import Harness
from ostler.core.journal import World
from ostler.core.model import ModelRequest
from ostler.core.state import fold
from ostler.models.scripted import ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import Overloaded, UsageError
from ostler.schema.messages import as_content
from ostler.schema.requests import CollapseBranch, Navigate
from ostler.schema.usage import Usage
from ostler.sessions.session import Session, open_session
from ostler.sessions.submit import MakeHarness, submit_now
from ostler.store.invariants import violations
from ostler.store.sqlite import SqliteStore
from tests.support.running import started

PAID = Usage(100, 20, cost=0.25)


async def session_with_branch(store: SqliteStore, *answers: object) -> tuple[Session, int]:
    """A session that went back before its first entry; and the end of the branch that it left."""
    ran = await started(["a dead end", *answers], store=store)  # type: ignore[list-item]
    await ran.session.prompt(as_content("one way"))
    end = ran.session.state.leaf
    await store.submit(ran.session.id, Navigate(id="back", entry=0))
    return ran.session, end


def hanging_model(asked: asyncio.Event) -> Callable[[ModelRequest], Turn]:
    """An answer that begins and never ends."""

    def answer(request: ModelRequest) -> Turn:
        asked.set()
        return Turn("It led", hangs=True)

    return answer


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "ostler.db")


async def test_the_summary_precedes_the_next_prompt_and_its_usage_counts(store: SqliteStore) -> None:
    session, end = await session_with_branch(store, Turn("It led nowhere.", usage=PAID), "good")
    await store.submit(session.id, CollapseBranch(id="req_1", leaf=end, instructions="mind the cost"))
    await session.prompt(as_content("another way"))
    texts = [message.text for message in session.state.transcript]
    assert texts[0].endswith("\n\nIt led nowhere.") and texts[1:] == ["another way", "good"]
    model = session.harness.model
    assert isinstance(model, ScriptedModel)
    (message,) = model.requests[1].transcript
    assert "user: one way\n\nassistant: a dead end" in message.text and "mind the cost" in message.text
    assert model.requests[1].tools == ()
    assert session.state.usage.cost == PAID.cost
    facts = await store.read(session.id)
    (collapsed,) = [fact.event for fact in facts if isinstance(fact.event, events.BranchCollapsed)]
    assert collapsed == events.BranchCollapsed("It led nowhere.", end, "req_1")
    await session.close()
    await store.close()


async def test_the_usage_of_a_summary_survives_an_interrupted_run(store: SqliteStore) -> None:
    asked = asyncio.Event()
    session, end = await session_with_branch(store, Turn("It led nowhere.", usage=PAID), hanging_model(asked))
    await store.submit(session.id, CollapseBranch(id="req_1", leaf=end))
    driving = asyncio.ensure_future(session.prompt(as_content("another way")))
    await asyncio.wait_for(asked.wait(), 60)
    opened = fold(await store.read_opening(session.id))
    assert opened.usage.cost == PAID.cost
    session.cancel()
    await driving
    await session.close()
    await store.close()


async def test_the_next_process_writes_a_summary_that_a_crash_interrupted(store: SqliteStore) -> None:
    session, end = await session_with_branch(store)
    await session.advance()
    called = events.ModelCalled("msg_cut", "scripted/model", "d", purpose="summary")
    session.journal.record(called)
    await session.journal.commit()
    await store.submit(session.id, CollapseBranch(id="req_1", leaf=end))
    await session.close()

    session.harness.model = ScriptedModel([Turn("It led nowhere.", usage=PAID)])
    again = await open_session(store, session.id, session.harness)
    assert await again.advance() is None
    facts = await store.read(session.id)
    assert violations(facts) == []
    assert [fact.type for fact in facts[-6:]] == [
        "model_called",
        "usage",
        "model_failed",
        "model_called",
        "usage",
        "branch_collapsed",
    ]
    assert again.state.usage.cost is None, "the cost of the interrupted call is unknown"
    await again.close()
    await store.close()


async def test_the_summary_is_retried_if_the_model_is_overloaded(store: SqliteStore) -> None:
    busy = Overloaded("come back later", status=529)
    session, end = await session_with_branch(store, busy, Turn("It led nowhere.", usage=PAID))
    await store.submit(session.id, CollapseBranch(id="req_1", leaf=end))
    await session.advance()
    types = [fact.type for fact in (await store.read(session.id))[-6:]]
    assert types == ["model_called", "usage", "model_failed", "model_called", "usage", "branch_collapsed"]
    await session.close()
    await store.close()


def factory_of(harness: Harness) -> MakeHarness:
    async def make() -> Harness:
        return harness

    return make


async def test_a_cancelled_collapse_leaves_a_valid_log(store: SqliteStore) -> None:
    asked = asyncio.Event()
    session, end = await session_with_branch(store, hanging_model(asked))
    await session.advance()
    await session.close()
    request = CollapseBranch(id="req_1", leaf=end)
    asking = asyncio.ensure_future(
        submit_now(store, session.id, request, World(), factory_of(session.harness))
    )
    await asyncio.wait_for(asked.wait(), 60)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    facts = await store.read(session.id)
    assert violations(facts) == [] and facts[-1].type == "model_failed"
    assert await store.holder(session.id) is None
    assert await store.settlement(session.id, "req_1") is None, "it is not forgotten"
    await store.close()


@pytest.mark.parametrize("answer", ["", " \n"])
async def test_an_empty_summary_is_refused(store: SqliteStore, answer: str) -> None:
    session, end = await session_with_branch(store, Turn(answer))
    await session.advance()
    await session.close()
    with pytest.raises(UsageError, match="the model's answer is empty"):
        await submit_now(
            store, session.id, CollapseBranch(id="req_1", leaf=end), World(), factory_of(session.harness)
        )
    assert violations(await store.read(session.id)) == []
    await store.close()
