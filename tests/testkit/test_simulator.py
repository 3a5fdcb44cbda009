"""The simulator: sessions and their children through crashes, lost leases, full disks, people and hooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

import pytest

from ostler.schema import events
from ostler.schema.events import Event, RunStatus
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.live_events import snake_case
from ostler.schema.messages import text_of
from ostler.schema.outcomes import FailureKind
from ostler.testkit.simulator import Report, simulate
from ostler.testkit.simulator.agent import HOOK_POINTS
from ostler.testkit.simulator.process import FAULTS
from tests.support.seeds import FIRST_SEED

TESTS = 3
FAULTS_A_TEST = 500
"""Together 1,500 faults, and as many in the test of their kinds; `make test-long` injects 37,500 more."""

LIMITS = ("steps", "tokens", "cost", "seconds", "children", "depth")
LIMIT = re.compile(r"the limit of (?:\$\S+|\S+ (\w+)) (?:was|of)")
WORDS = {None: "cost", "levels": "depth"}


@pytest.mark.parametrize("block", range(TESTS))
def test_the_invariants_hold_whatever_fails(block: int) -> None:
    inject(FAULTS_A_TEST, first_seed=FIRST_SEED + block * 1_000)


@pytest.mark.long
@pytest.mark.parametrize("block", range(TESTS, TESTS + 75))
def test_the_invariants_hold_through_37500_more_faults(block: int) -> None:
    inject(FAULTS_A_TEST, first_seed=FIRST_SEED + block * 1_000)


def inject(faults: int, first_seed: int) -> None:
    """Simulates until so many faults were injected; none may cause a problem."""
    injected = 0
    for seed in range(first_seed, first_seed + 1_000):
        report = simulate(seed, most_faults=8)
        assert report.problems == (), f"seed {seed}, faults {report.faults}"
        injected += len(report.faults)
        if injected >= faults:
            return
    pytest.fail(f"only {injected} faults were injected")


def test_the_same_seed_gives_the_same_run() -> None:
    once, again = ([fact.body for fact in facts_of(simulate(7))] for _ in range(2))
    assert once == again


def facts_of(report: Report) -> list[Fact]:
    return [*report.facts, *(fact for facts in report.children.values() for fact in facts)]


def test_the_simulator_covers_every_fault_and_every_kind_of_behaviour() -> None:
    reports = [simulate(seed, most_faults=8) for seed in range(300)]
    assert [report.problems for report in reports if report.problems] == []
    assert {fault for report in reports for fault in report.faults} == set(FAULTS)
    assert {mark for report in reports for fact in facts_of(report) for mark in marks_of(fact.event)} >= {
        *(f"a question was {outcome}" for outcome in ("answered", "declined", "withdrawn")),
        "a question was answered from elsewhere",
        "a running tool asked",
        *(f"a hook failed at {point}" for point in HOOK_POINTS),
        "a guard failed",
        "a step was refused",
        "an answer was suppressed",
        "an answer was replaced",
        "a result was rewritten",
        "another model came to the rescue",
        *(f"a run ended {status}" for status in get_args(RunStatus)),
        "a run was cancelled by request",
        *(f"a run was {reason}" for reason in ("question", "pending", "paused")),
        *(f"a child ended {status}" for status in ("completed", "cancelled", "limit", "failed")),
        *(f"a child ran at depth {depth}" for depth in (1, 2)),
        *(f"{name} began again" for name in ("delegate", "survey", "look", "stamp")),
        "a result was repeated",
        *(f"most of the {limit} was used" for limit in LIMITS),
        *(f"a run came to its limit of {limit}" for limit in LIMITS),
        *(f"a call ended {kind}" for kind in get_args(FailureKind)),
        "output was stored",
        "a steer was delivered",
        *("leaf_moved", "labelled", "prompts_released", "request_refused", "settings_changed", "audited"),
    }


def marks_of(event: Event | UnknownEvent) -> Iterator[str]:
    """The kinds of behaviour that an event shows."""
    yield event.type if isinstance(event, UnknownEvent) else snake_case(type(event).__name__)
    match event:
        case events.QuestionAnswered(outcome=outcome, request=request):
            yield f"a question was {outcome}"
            if request:
                yield "a question was answered from elsewhere"
        case events.QuestionAsked(durable=False):
            yield "a running tool asked"
        case events.Warned(about="hook", details={"point": point}):
            yield f"a hook failed at {point}"
        case events.StepEnded(refused=refused) if refused:
            yield "a step was refused"
        case events.AssistantMessage(suppressed=suppressed, shown=shown) if suppressed or shown:
            yield "an answer was suppressed" if suppressed else "an answer was replaced"
        case events.ModelFailed(rescue=rescue) if rescue:
            yield "another model came to the rescue"
        case events.RunEnded(status=status, request=request, reason=reason):
            yield f"a run ended {status}"
            if request:
                yield "a run was cancelled by request"
            if match := LIMIT.match(reason):
                yield f"a run came to its limit of {WORDS.get(match[1], match[1])}"
        case events.RunWaiting(reason=reason):
            yield f"a run was {reason}"
        case events.RunStarted(depth=depth):
            yield f"a child ran at depth {depth}"
        case events.ChildEnded(status=status):
            yield f"a child ended {status}"
        case events.ToolStarted(name=name, attempt=attempt) if attempt > 1:
            yield f"{name} began again"
        case events.Warned(about="limit", details={"limit": limit}):
            yield f"most of the {limit} was used"
        case events.UserMessage(source="steer"):
            yield "a steer was delivered"
        case events.ToolResultFact(content=content, failed=failed, output=output, repeats=repeats):
            text = text_of(content)
            if repeats:
                yield "a result was repeated"
            yield f"a call ended {failed}"
            if output:
                yield "output was stored"
            if text == "rewritten":
                yield "a result was rewritten"
            if "the guard" in text:
                yield "a guard failed"
