"""The check of prompt prefixes: a request that does not begin with the one before needs a reason."""

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
    """Builds another prefix in each step, with or without a trace that explains it."""

    def __init__(self, trace: dict[str, Any] | None = None, *, system: bool = False) -> None:
        self._trace = trace
        self._in_system = system
        self._builds = 0

    async def build(self, journal: Journal, input: ContextInput) -> BuiltContext:
        self._builds += 1
        if self._in_system:
            return BuiltContext(f"{input.system} {self._builds}", input.transcript, trace=self._trace)
        messages = [user(f"{self._builds}"), *input.transcript]
        return BuiltContext(input.system, Transcript(messages), trace=self._trace)

    def for_child(self) -> Forgetful:
        return self

    async def needs_compaction(self, journal: Journal, input: ContextInput) -> bool:
        return False

    async def compact(
        self, journal: Journal, harness: Harness, input: ContextInput, order: CompactionRequest
    ) -> str:
        return "never"


@pytest.fixture(autouse=True)
def invariants() -> None:
    """Replaces the fixture for all tests, which would report the same problems."""


def problem_with(context: Any, prompts: int = 1, **harness: Any) -> str:
    """What the check reports about runs of two steps."""

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
def test_an_unexplained_change_of_the_prefix_is_reported(forgetful: Forgetful, what: str) -> None:
    assert f"begins with {what}, and no fact explains why" in problem_with(forgetful)


def test_a_change_that_the_trace_or_a_hook_explains_is_not_reported() -> None:
    assert not problem_with(Forgetful({"changed": "for a reason"}))
    for own in (context(4000), None):
        assert not problem_with(own, prompts=2, hooks=[Hook("context", changed_at(2))])
    assert not problem_with(None, prompts=2)


def test_a_hook_that_changes_nothing_explains_nothing() -> None:
    hooks = [Hook("context", lambda draft: None), Hook("before_step", lambda plan: None)]
    assert "no fact explains why" in problem_with(Forgetful({"tokens": {}}), hooks=hooks)


def changed_at(*calls: int) -> Callable[[ContextDraft], ContextDraft | None]:
    """Inserts a message at the start, in these calls only."""
    numbers = itertools.count(1)

    def tell(draft: ContextDraft) -> ContextDraft | None:
        if next(numbers) not in calls:
            return None
        return ContextDraft(draft.system, (user("It is noon."), *draft.messages))

    return tell


async def changes(prompts: int = 1, **harness: Any) -> list[str | None]:
    ran = await started([Call("count"), "done"] * prompts, tools=[count], context=context(4000), **harness)
    for _ in range(prompts):
        await ran.session.prompt(as_content("go"))
    return [called.trace.get("changed") for called in ran.all(events.ModelCalled)]


async def test_the_trace_names_the_hook_that_changed_the_messages() -> None:
    reasons = await changes(2, hooks=[Hook("context", changed_at(2))])
    assert reasons == [FIRST, BY_A_HOOK, BY_A_HOOK, None]
    reasons = await changes(hooks=[Hook("context", changed_at(1, 2))])
    assert reasons == [FIRST, None], "the same change in each step leaves the beginning as it was"


async def test_the_trace_names_a_changed_system_prompt() -> None:
    additions = iter(["Be kind.", "Be brief.", "", ""])
    add = Hook("before_run", lambda plan: RunPlan(plan.prompt, next(additions)))
    assert await changes(4, hooks=[add]) == [
        *(FIRST, None),
        *(WITH_A_HOOK, None),
        *(ANOTHER_SYSTEM, None),
        *(None, None),
    ]


async def test_text_that_a_hook_adds_counts_towards_the_budget() -> None:
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


def test_the_trace_names_a_changed_context_provider() -> None:
    times = iter(["noon", "one", "one", "two"])
    provider = ContextProvider("clock", lambda request: next(times), "system")
    assert not problem_with(context(4000, fences=[provider]), prompts=2)
    provider = ContextProvider("clock", lambda request: "noon" if request.run else None, "system")
    ran = asyncio.run(run([Call("count"), "done"], tools=[count], context=context(4000, fences=[provider])))
    assert [called.trace.get("changed") for called in ran.all(events.ModelCalled)] == [
        "it is the first",
        None,
    ]
