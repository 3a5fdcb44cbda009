"""Waiting: a run pauses on request, or until a question is answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.tool import ToolContext
from ostler.models.scripted import Call
from ostler.schema import events
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.outcomes import NeedUser, Question
from ostler.schema.requests import Answer, Pause, Resume
from ostler.sessions.session import open_session
from ostler.store.memory import MemoryStore
from tests.support.running import Ran, run


async def _paused_in(store: MemoryStore) -> Ran:
    @tool
    async def work(context: ToolContext) -> str:
        await store.submit(context.session, Pause(id="p1"))
        for _ in range(50):  # the reader of the inbox gets its turns
            await asyncio.sleep(0)
        return "worked"

    return await run([Call("work"), "done"], tools=[work], store=store)


async def test_a_pause_takes_effect_before_the_next_step() -> None:
    store = MemoryStore()
    ran = await _paused_in(store)
    assert ran.quiet == RunWaiting("paused", request="p1")
    assert ran.results() == ["worked"] and len(ran.model.requests) == 1
    assert await store.settlement(ran.session.id, "p1") is not None
    assert await ran.session.advance() == ran.quiet  # it was not resumed


async def test_a_paused_run_is_resumed_in_another_process() -> None:
    store = MemoryStore()
    ran = await _paused_in(store)
    await ran.session.close()
    session = await open_session(store, ran.session.id, ran.session.harness)
    ended = await session.resume()
    assert isinstance(ended, RunEnded) and ended.status == "completed"


async def test_an_answer_does_not_wake_a_paused_run() -> None:
    @tool
    async def ask() -> NeedUser:
        return NeedUser(Question("Why?"))

    store = MemoryStore()
    ran = await run([Call("ask"), "done"], tools=[ask], store=store, wait_for_answers=True)
    (question,) = ran.all(events.QuestionAsked)
    await store.submit(ran.session.id, Pause(id="p1"))
    paused = await ran.session.advance()
    assert isinstance(paused, RunWaiting) and paused.reason == "paused"
    await store.submit(ran.session.id, Answer(id="a1", question=question.id, answer="because"))
    assert await ran.session.advance() == paused
    await store.submit(ran.session.id, Resume(id="r1"))
    ended = await ran.session.advance()
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    assert ran.results() == ["because"]


async def test_pause_and_resume_without_a_run_are_refused() -> None:
    store = MemoryStore()
    ran = await run(["done"], store=store)
    for request in (Pause(id="p1"), Resume(id="r1")):
        await store.submit(ran.session.id, request)
    await ran.session.advance()
    refused = {fact.request: fact.reason for fact in ran.all(events.RequestRefused)}
    assert refused == {"p1": "no run is open", "r1": "no run is paused"}


@pytest.mark.parametrize(
    ("question", "wrong", "right"),
    [
        (Question("Which?", "choice", ("red", "blue")), "green", "blue"),
        (Question("Who?", "form", form={"type": "object", "required": ["name"]}), {}, {"name": "Ada"}),
    ],
)
async def test_an_invalid_answer_is_refused_and_the_question_stays_open(
    question: Question, wrong: Any, right: Any
) -> None:
    @tool
    async def ask() -> NeedUser:
        return NeedUser(question)

    ran = await run([Call("ask"), "done"], tools=[ask], wait_for_answers=True)
    (asked,) = ran.all(events.QuestionAsked)
    assert isinstance(await ran.session.answer(asked.id, wrong), RunWaiting)
    assert "answer" in ran.all(events.RequestRefused)[0].reason
    ended = await ran.session.answer(asked.id, right)
    assert isinstance(ended, RunEnded) and ended.status == "completed"
