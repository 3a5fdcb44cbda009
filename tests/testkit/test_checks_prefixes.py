"""The watch over what models are told: a request that begins in another way needs a reason."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from ostler.context.providers import ContextProvider
from ostler.core.context import (
    ANOTHER_SYSTEM,
    BY_A_HOOK,
    FIRST,
    WITH_A_HOOK,
    BuiltContext,
    CompactionRequest,
    ContextInput,
)
from ostler.core.harness import Harness
from ostler.core.hooks import ContextDraft, Hook, RunPlan
from ostler.core.journal import Journal
from ostler.core.transcript import Transcript
from ostler.models.scripted import Call
from ostler.schema import events
from ostler.schema.messages import as_content, user
from ostler.testkit.checks import watched_sessions
from tests.context.test_session_context import context, count, steps
from tests.support.running import run, started


class Forgetful:
    """Tells something else in each step, and says why or does not."""

    def __init__(self, trace: dict[str, Any] | None = None, *, system: bool = False) -> None:
        self._trace = trace
        self._in_system = system
        self._asked = 0

    async def build(self, journal: Journal, told: ContextInput) -> BuiltContext:
        self._asked += 1
        if self._in_system:
            return BuiltContext(f"{told.system} {self._asked}", told.transcript, trace=self._trace)
        messages = [user(f"{self._asked}"), *told.transcript]
        return BuiltContext(told.system, Transcript(messages), trace=self._trace)

    def for_child(self) -> Forgetful:
        return self

    async def needs_compaction(self, journal: Journal, told: ContextInput) -> bool:
        return False

    async def compact(
        self, journal: Journal, harness: Harness, told: ContextInput, order: CompactionRequest
    ) -> str:
        return "never"


@pytest.fixture(autouse=True)
def invariants() -> None:
    """In place of the one for all tests, which would find the same."""


def problem_with(context: Any, prompts: int = 1, **harness: Any) -> str:
    """What the watch says of runs of two steps."""

    async def drive() -> None:
        ran = await started([Call("count"), "done"] * prompts, tools=[count], context=context, **harness)
        for _ in range(prompts):
            await ran.session.prompt(as_content("go"))

    try:
        with watched_sessions():
            asyncio.run(drive())
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("forgetful", "what"),
    [
        (Forgetful(), "other messages"),
        (Forgetful({"tokens": {}}), "other messages"),
        (Forgetful(system=True), "another system prompt"),
    ],
)
def test_another_beginning_is_found(forgetful: Forgetful, what: str) -> None:
    assert f"begins with {what}, and no fact explains why" in problem_with(forgetful)


def test_what_the_trace_or_a_hook_explains_is_no_problem() -> None:
    assert not problem_with(Forgetful({"changed": "for a reason"}))
    for own in (context(4000), None):
        assert not problem_with(own, prompts=2, hooks=[Hook("context", told_at(2))])
    assert not problem_with(None, prompts=2)


def test_a_hook_that_changes_nothing_explains_nothing() -> None:
    hooks = [Hook("context", lambda draft: None), Hook("before_step", lambda plan: None)]
    assert "no fact explains why" in problem_with(Forgetful({"tokens": {}}), hooks=hooks)


def told_at(*calls: int) -> Callable[[ContextDraft], ContextDraft | None]:
    """Tells something first, in these calls only."""
    asked = itertools.count(1)

    def tell(draft: ContextDraft) -> ContextDraft | None:
        if next(asked) not in calls:
            return None
        return ContextDraft(draft.system, (user("It is noon."), *draft.messages))

    return tell


async def changes(prompts: int = 1, **harness: Any) -> list[str | None]:
    ran = await started([Call("count"), "done"] * prompts, tools=[count], context=context(4000), **harness)
    for _ in range(prompts):
        await ran.session.prompt(as_content("go"))
    return [called.trace.get("changed") for called in ran.all(events.ModelCalled)]


async def test_the_trace_says_that_a_hook_chose_the_messages_and_when_it_no_longer_does() -> None:
    said = await changes(2, hooks=[Hook("context", told_at(2))])
    assert said == [FIRST, BY_A_HOOK, BY_A_HOOK, None]
    said = await changes(hooks=[Hook("context", told_at(1, 2))])
    assert said == [FIRST, None], "the same change in each step leaves the beginning as it was"


async def test_the_trace_says_why_the_system_prompt_is_another_one_in_the_next_run() -> None:
    additions = iter(["Be kind.", "Be brief.", "", ""])
    add = Hook("before_run", lambda plan: RunPlan(plan.prompt, next(additions)))
    assert await changes(4, hooks=[add]) == [
        *(FIRST, None),
        *(WITH_A_HOOK, None),
        *(ANOTHER_SYSTEM, None),
        *(None, None),
    ]


async def test_what_a_hook_adds_to_a_run_is_counted_and_has_to_fit() -> None:
    add = Hook("before_run", lambda plan: RunPlan(plan.prompt, "kind " * 100, ("brief " * 50,)))
    traces = []
    for hooks in ([], [add]):
        ran = await run(steps(1, "done"), tools=[count], context=context(4000), hooks=hooks)
        traces.append([called.trace for called in ran.all(events.ModelCalled)])
    for without, with_it in zip(*traces, strict=True):
        assert with_it["tokens"]["fixed"] >= without["tokens"]["fixed"] + 150
        assert with_it["before_run"] == {"system": 500, "told": 300}
    ran = await run(["never"], context=context(150), hooks=[add])
    assert ran.status == "failed" and not ran.model.requests


def test_a_fence_in_the_system_prompt_that_changes_is_in_the_trace() -> None:
    said = iter(["noon", "one", "one", "two"])
    fence = ContextProvider("clock", lambda request: next(said), "system")
    assert not problem_with(context(4000, fences=[fence]), prompts=2)
    fence = ContextProvider("clock", lambda request: "noon" if request.run else None, "system")
    ran = asyncio.run(run([Call("count"), "done"], tools=[count], context=context(4000, fences=[fence])))
    assert [called.trace.get("changed") for called in ran.all(events.ModelCalled)] == [
        "it is the first",
        None,
    ]
