"""What the next process makes of a run that was cut."""

from __future__ import annotations

import pytest

from ostler.core.function_tool import tool
from ostler.models.scripted import Call
from ostler.schema.errors import StoreError
from ostler.schema.events import Audited, RunEnded, ToolResultFact
from ostler.schema.messages import as_content
from ostler.schema.outcomes import Ok
from ostler.schema.requests import Resume
from ostler.sessions.session import open_session
from tests.support.running import started
from tests.system.dying_store import DyingStore


async def test_calls_after_one_that_ended_the_run_do_not_run_after_a_crash() -> None:
    ran_now: list[str] = []

    @tool
    async def farewell() -> Ok:
        return Ok(as_content("that is all"), ends_run=True)

    @tool
    async def pay() -> str:
        ran_now.append("pay")
        return "paid"

    store = DyingStore(lambda fact: fact.type == "tool_result")
    ran = await started([[Call("farewell"), Call("pay")]], tools=[farewell, pay], store=store)
    with pytest.raises(StoreError):
        await ran.session.prompt(as_content("go"))
    store.revive()
    session = await open_session(store, ran.session.id, ran.session.harness)
    ended = await session.advance()
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    results = [fact.event for fact in await store.read(session.id) if isinstance(fact.event, ToolResultFact)]
    assert [result.failed for result in results] == [None, "tool_cancelled"]
    assert ran_now == []


async def test_a_resume_request_continues_an_interrupted_run() -> None:
    store = DyingStore(lambda fact: fact.type == "model_called")
    ran = await started(["lost", "answer"], store=store)
    with pytest.raises(StoreError):
        await ran.session.prompt(as_content("go"))
    store.revive()
    await store.submit(ran.session.id, Resume(id="req_1"))
    session = await open_session(store, ran.session.id, ran.session.harness)
    ended = await session.advance()
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    seq = await store.settlement(session.id, "req_1")
    assert seq is not None
    (fact,) = await store.read(session.id, seq - 1, 1)
    assert isinstance(fact.event, Audited) and fact.event.decision == "run.resume"
