"""A tree of runs, looked at and moved from outside."""

from __future__ import annotations

import asyncio
from typing import Any

from ostler.core.children import ChildRequest, ExecutionPolicy
from ostler.core.function_tool import tool
from ostler.core.hooks import Ask, Hook, PlannedCall
from ostler.core.journal import World
from ostler.models.scripted import Call
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.outcomes import Question
from ostler.schema.requests import Answer
from ostler.sessions.agents import DelegateTool, Delegation
from ostler.sessions.run_tree import is_stuck, list_runs, load_state, open_questions, root_of
from ostler.sessions.submit import submit_now
from ostler.store.memory import MemoryStore
from tests.sessions.test_children import by_task
from tests.support.running import Ran, run


@tool
async def touch() -> str:
    return "touched"


def guard(call: PlannedCall) -> Ask | None:
    return Ask(Question("May I?", "permission")) if call.name == "touch" else None


async def three_levels(delegate: DelegateTool) -> Ran:
    """A run whose child's child asks; everybody waits."""
    model = by_task(
        go=[Call("delegate", {"task": "middle"}), "all done"],
        middle=[Call("delegate", {"task": "deep"}), "middle done"],
        deep=[Call("touch"), "deep done"],
    )
    options: dict[str, Any] = {"hooks": [Hook("before_tool", guard)], "wait_for_answers": True}
    ran = await run(model, tools=[delegate, touch], store=MemoryStore(), **options)
    assert isinstance(ran.quiet, RunWaiting)
    return ran


async def submit_answers(ran: Ran) -> None:
    """Submits an answer to the open question, and drives nothing."""
    store = ran.session.journal.store
    (question,) = await open_questions(store, ran.session.state)
    yes = Answer(id="a1", question=question.asked.id, answer="yes")
    assert await submit_now(store, question.session, yes, World())


async def test_open_questions_are_listed_from_the_root_and_root_of_finds_it() -> None:
    ran = await three_levels(DelegateTool({}))
    store = ran.session.journal.store
    (question,) = await open_questions(store, ran.session.state)
    assert (question.asked.question.text, question.agent) == ("May I?", "subagent")
    assert (await root_of(store, await load_state(store, question.session))).id == ran.session.id
    assert await is_stuck(store, ran.session.state)
    rows = await list_runs(store)
    assert [(row.depth, row.status) for row in rows] == [(0, "waiting"), (1, "waiting"), (2, "waiting")]
    assert [row.session for row in rows][::2] == [ran.session.id, question.session]


async def test_an_answer_to_a_grandchild_moves_the_whole_tree() -> None:
    ran = await three_levels(DelegateTool({}))
    await submit_answers(ran)
    assert not await is_stuck(ran.session.journal.store, ran.session.state)
    ended = await ran.session.advance()
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    assert ran.results() == ["middle done"] and ended.children.runs == 2
    assert await list_runs(ran.session.journal.store) == []


async def test_a_stuck_child_is_not_driven_repeatedly() -> None:
    class Forgetful(DelegateTool):
        """Gives children the tool at first, and none any more when they are gone on with."""

        may_delegate = True

        def request(self, delegation: Delegation) -> ChildRequest:
            tools = None if self.may_delegate or delegation.task == "deep" else ("touch",)
            return ChildRequest(super().request(delegation).prompt, execution=ExecutionPolicy(tools=tools))

    delegate = Forgetful({})
    ran = await three_levels(delegate)
    await submit_answers(ran)
    delegate.may_delegate = False
    async with asyncio.timeout(60):
        quiet = await ran.session.advance()
    assert isinstance(quiet, RunWaiting)
    ran.session.cancel("enough")
    await ran.session.advance()
