"""A request that is taken back: before its turn, or before the model was told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostler.core.harness import Harness
from ostler.core.journal import World
from ostler.models.scripted import ScriptedModel
from ostler.schema.errors import UsageError
from ostler.schema.events import RequestRefused
from ostler.schema.messages import as_content
from ostler.schema.requests import Prompt, Steer, TakeBack
from ostler.sessions.inbox import TAKEN_BACK
from ostler.sessions.session import Session, create_session
from ostler.sessions.submit import submit_now
from ostler.store.memory import MemoryStore


async def begun(*script: str) -> Session:
    return await create_session(MemoryStore(), Harness(ScriptedModel(list(script)), cwd=Path.cwd()))


async def reasons(session: Session) -> dict[str, str]:
    facts = await session.journal.store.read(session.id)
    refusals = [fact.event for fact in facts if isinstance(fact.event, RequestRefused)]
    return {one.request: one.reason for one in refusals}


async def test_take_back_is_handled_before_its_target() -> None:
    session = await begun("never said")
    store = session.journal.store
    await store.submit(session.id, Prompt(id="p", content=as_content("go")))
    await store.submit(session.id, Steer(id="s", content=as_content("left")))
    for id, request in (("t1", "p"), ("t2", "s")):
        await store.submit(session.id, TakeBack(id=id, request=request))
    assert [one.id for one in await store.pending(session.id)] == ["t1", "t2", "p", "s"]
    assert await session.advance() is None
    assert await reasons(session) == {"p": TAKEN_BACK, "s": TAKEN_BACK}
    assert await store.pending(session.id) == []


async def test_started_or_unknown_requests_cannot_be_taken_back() -> None:
    session = await begun("done")
    store = session.journal.store
    await store.submit(session.id, Prompt(id="p", content=as_content("go")))
    await session.advance()
    for request in ("p", "nothing"):
        await store.submit(session.id, TakeBack(id=f"take {request}", request=request))
    await session.advance()
    refused = await reasons(session)
    assert set(refused) == {"take p", "take nothing"}
    assert "no prompt or steer p" in refused["take p"]


async def test_a_prompt_of_an_idle_session_is_taken_back_without_a_model() -> None:
    session = await begun()
    store = session.journal.store
    await session.close()
    await store.submit(session.id, Prompt(id="p", content=as_content("go")))
    assert await submit_now(store, session.id, TakeBack(id="t", request="p"), World())
    assert await store.pending(session.id) == []
    with pytest.raises(UsageError, match="there is no prompt or steer"):
        await submit_now(store, session.id, TakeBack(id="again", request="p"), World())
