"""Invariants: each holds for the log of a real run, and each is broken by a fact that contradicts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ostler.core.function_tool import tool
from ostler.core.journal import World
from ostler.models.scripted import Call, Turn
from ostler.schema import events
from ostler.schema.errors import Failure
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.schema.messages import Message, Text, ToolCall
from ostler.schema.outcomes import NeedUser, Question
from ostler.schema.requests import Rename
from ostler.schema.usage import Usage
from ostler.sessions.submit import submit_now
from ostler.store.invariants import INVARIANTS, broken_invariants, violations
from tests.support.running import run

Facts = list[Fact]


@tool
async def short(word: str) -> str:
    """Says a word."""
    return word


async def a_run() -> Facts:
    script = [Call("short", {"word": "hi"}, id="call_1"), Turn("done", usage=Usage(7, 3, cost=0.5))]
    ran = await run(script, tools=[short])
    return await ran.session.journal.store.read(ran.session.id)


def at(facts: Facts, kind: str, number: int = 0) -> int:
    return [place for place, fact in enumerate(facts) if fact.type == kind][number]


def changed(facts: Facts, kind: str, which: int = 0, /, **fields: Any) -> Facts:
    """The same log with another event in that place."""
    place = at(facts, kind, which)
    fact = facts[place]
    event = msgspec.structs.replace(fact.event, **fields)  # type: ignore[type-var]
    new = Fact.of(
        event, seq=fact.seq, session=fact.session, run=fact.run, time_ms=fact.time_ms, parent=fact.parent
    )
    return [*facts[:place], new, *facts[place + 1 :]]


def without(facts: Facts, kind: str, number: int = 0) -> Facts:
    place = at(facts, kind, number)
    return renumbered([*facts[:place], *facts[place + 1 :]])


def added(facts: Facts, event: Event, after: str, parent: int | None = None, run: str | None = None) -> Facts:
    place = at(facts, after, -1)
    before = facts[place]
    of_run = before.run if run is None else run
    new = Fact.of(event, seq=1, session=before.session, run=of_run, time_ms=before.time_ms, parent=parent)
    return renumbered([*facts[: place + 1], new, *facts[place + 1 :]])


def renumbered(facts: Facts) -> Facts:
    numbers = {fact.seq: number for number, fact in enumerate(facts, 1)}
    return [
        Fact(
            number,
            fact.session,
            fact.run,
            fact.time_ms,
            fact.body,
            parent=None if fact.parent is None else numbers.get(fact.parent, 0),
            origin=fact.origin,
        )
        for number, fact in enumerate(facts, 1)
    ]


def damaged(facts: Facts) -> Facts:
    body = facts[2].body
    return [*facts[:2], Fact(3, facts[2].session, "", 1, body[:-4], type=facts[2].type, parent=0), *facts[3:]]


def misplaced(facts: Facts, kind: str, parent: int | None) -> Facts:
    place = at(facts, kind)
    fact = facts[place]
    new = Fact(fact.seq, fact.session, fact.run, fact.time_ms, fact.body, parent=parent)
    return [*facts[:place], new, *facts[place + 1 :]]


_FAILURE = Failure("interrupted", "cut")
UNANSWERED = Message("assistant", (ToolCall("call_9", "short", "{}"),))
SECRET = events.QuestionAsked("q_1", Question("your word?", secret=True), call="call_1")

BREAKING: dict[str, list[Callable[[Facts], Facts]]] = {
    "L1": [damaged],
    "L2": [lambda facts: facts[1:], lambda facts: [*facts[:4], *facts[5:]]],
    "L3": [
        lambda facts: misplaced(facts, "tool_result", 9999),
        lambda facts: misplaced(facts, "tool_called", None),
    ],
    "L4": [lambda facts: added(facts, events.Labelled(1, "no entry"), "run_ended", run="")],
    "L5": [
        lambda facts: without(facts, "run_started"),
        lambda facts: added(facts, events.RunEnded("completed"), "run_ended"),
        lambda facts: added(facts, events.LeafMoved(0), "step_started", run=""),
        lambda facts: without(facts, "step_ended"),
        lambda facts: added(facts, events.Warned("of which run?"), "step_started", run="run_other"),
        lambda facts: added(facts, events.RunResumed(), "step_started"),
    ],
    "L6": [
        lambda facts: changed(facts, "step_started", 1, number=3),
        lambda facts: changed(facts, "model_called", 1, attempt=2),
        lambda facts: changed(facts, "tool_called", step=2),
    ],
    "L7": [
        lambda facts: changed(facts, "usage", model="other/model"),
        lambda facts: changed(facts, "usage", call="msg_unknown"),
        lambda facts: added(facts, events.ModelFailed("msg_unknown", _FAILURE), "run_started"),
    ],
    "L8": [
        lambda facts: without(facts, "tool_started"),
        lambda facts: added(facts, events.ToolResultFact("call_1", "short"), "tool_result", parent=3),
        lambda facts: added(facts, events.ToolStarted("call_1", "short", attempt=2), "tool_result"),
    ],
    "L9": [
        lambda facts: added(facts, events.QuestionAnswered("q_1", "declined"), "tool_called"),
        lambda facts: added(
            added(facts, SECRET, "tool_called"),
            events.QuestionAnswered("q_1", "answered", "sesame"),
            "question_asked",
        ),
    ],
    "L10": [lambda facts: added(facts, events.ToolStarted("call_1", "short", attempt=2), "tool_started")],
    "L11": [
        lambda facts: added(facts, events.RunWaiting("question", ("q_9",)), "tool_started"),
        lambda facts: added(facts, events.RunWaiting("pending"), "tool_started"),
    ],
    "L12": [
        lambda facts: changed(facts, "usage", 1, cumulative=Usage(cost=0.0)),
        lambda facts: changed(facts, "usage", usage=Usage(-1, cost=0.0), cumulative=Usage(-1, cost=0.0)),
        lambda facts: changed(facts, "run_ended", cumulative=Usage(cost=0.0)),
    ],
    "L13": [
        lambda facts: changed(facts, "run_ended", own=events.Totals(steps=1)),
        lambda facts: changed(facts, "run_ended", children=events.Totals(steps=1)),
        lambda facts: added(facts, events.ChildUsed("call_1", "ses_c", Usage(5, cost=0.1)), "tool_started"),
    ],
    "L14": [
        lambda facts: added(
            added(facts, events.SessionRenamed("one", "req_1"), "run_ended", run=""),
            events.RequestRefused("req_1", "no"),
            "session_renamed",
            run="",
        )
    ],
    "L15": [lambda facts: added(facts, events.QuestionAsked("q_1", Question("?")), "run_started")],
    "L16": [lambda facts: added(facts, events.HistoryReplaced((UNANSWERED,)), "run_ended", parent=3, run="")],
    "L17": [lambda facts: facts[:-1]],
    "L18": [lambda facts: facts[: at(facts, "model_called") + 1]],
    "L19": [lambda facts: facts[: at(facts, "tool_started") + 1]],
    "L20": [lambda facts: added(facts, SECRET, "tool_called")],
    "L21": [
        lambda facts: added(facts, events.ChildStarted("call_1", "ses_c"), "tool_started"),
        lambda facts: added(facts, events.ChildEnded("call_1", "ses_c", "completed"), "tool_started"),
        lambda facts: added(
            added(facts, events.ChildStarted("call_1", "ses_c"), "tool_started"),
            events.ChildEnded("call_2", "ses_c", "completed"),
            "child_started",
        ),
    ],
    "L22": [
        lambda facts: changed(facts, "tool_result", repeats=4),
        lambda facts: changed(facts, "tool_result", repeats=at(facts, "tool_result") + 1),
    ],
    "L23": [
        lambda facts: without(facts, "tool_result"),
        lambda facts: added(facts, SECRET, "tool_called"),
    ],
}


def test_invariants_have_fixed_numbers_and_a_test_that_breaks_each() -> None:
    assert [one.number for one in INVARIANTS] == [f"L{number}" for number in range(1, 24)]
    assert list(BREAKING) == [one.number for one in INVARIANTS]
    assert all(one.sentence.endswith((".", "…")) for one in INVARIANTS)


@pytest.mark.parametrize(
    ("number", "way"), [(number, way) for number, ways in BREAKING.items() for way in range(len(ways))]
)
async def test_a_log_that_breaks_an_invariant_is_reported(number: str, way: int) -> None:
    facts = await a_run()
    assert violations(facts) == []
    broken = list(broken_invariants(BREAKING[number][way](facts)))
    assert number in {violation.number for violation in broken}, broken


async def test_invariants_of_idle_sessions_are_not_checked_during_a_run() -> None:
    facts = await a_run()
    for length in range(1, len(facts) + 1):
        assert list(broken_invariants(facts[:length], at_rest=False)) == []
    at_rest = {violation.number for violation in broken_invariants(facts[: at(facts, "tool_started") + 1])}
    assert at_rest == {"L17", "L19"}


@tool
async def consult() -> NeedUser:
    """Asks a person."""
    return NeedUser(Question("yes?"))


async def test_renaming_a_waiting_session_breaks_no_invariant() -> None:
    ran = await run([Call("consult")], tools=[consult], wait_for_answers=True)
    store, session = ran.session.journal.store, ran.session.id
    await ran.session.close()
    assert await submit_now(store, session, Rename(id="req_1", title="while it waits"), World())
    facts = await store.read(session)
    assert [fact.type for fact in facts[-2:]] == ["run_waiting", "session_renamed"]
    assert violations(facts) == []


async def test_the_model_call_of_a_summary_may_be_anywhere() -> None:
    facts = await a_run()
    called = events.ModelCalled("msg_s", "scripted/model", "d", purpose="summary")
    place = at(facts, "tool_called")
    before = facts[at(facts, "usage")].event
    assert isinstance(before, events.UsageReported)
    nothing = Usage(cost=0.0)
    used = events.UsageReported("msg_s", "scripted/model", nothing, before.cumulative, purpose="summary")
    facts = added(facts, called, "tool_called")
    facts = added(facts, used, "tool_called")
    facts[place + 1], facts[place + 2] = facts[place + 2], facts[place + 1]
    facts = renumbered(facts)
    ended = facts[-1].event
    assert isinstance(ended, events.RunEnded)
    own = msgspec.structs.replace(ended.own, model_calls=ended.own.model_calls + 1)
    assert violations(changed(facts, "run_ended", own=own)) == []


def test_events_of_a_newer_version_break_no_invariant() -> None:
    first = Fact.of(events.SessionStarted("/", "9"), seq=1, session="ses_1", run="", time_ms=1)
    newer = Fact(2, "ses_1", "", 1, b'{"type":"dreamt","of":["sheep"]}')
    message = Fact.of(events.UserMessage((Text("hi"),)), seq=3, session="ses_1", run="", time_ms=1, parent=0)
    assert violations([first, newer, message]) == []
    broken_body = Fact(2, "ses_1", "", 1, b'{"type":"dreamt","of":["sheep"]', type="dreamt")
    assert violations([first, broken_body, message])[0].startswith("L1: fact 2 is damaged")


async def test_only_messages_of_other_agents_need_no_model_call() -> None:
    message = events.AssistantMessage("", (Text("hi"),), "end")
    facts = added(await a_run(), message, "run_ended", parent=3, run="")
    assert {violation.number for violation in broken_invariants(facts)} == {"L7"}
    terminal = [
        events.SessionStarted("/", "0", driver="terminal"),
        message,
        events.RunStarted("0", "/", "terminal/custom"),
        events.UserMessage((Text("hello"),), source="terminal"),
        events.Delivered(4),
        message,
        events.RunEnded("completed"),
        events.MessageRevised(6, (Text("hi there"),)),
    ]
    facts = []
    for seq, event in enumerate(terminal, 1):
        run = "run_1" if 3 <= seq <= 7 else ""
        parent = {2: 0, 4: 2, 6: 4}.get(seq)
        facts.append(Fact.of(event, seq=seq, session="ses_1", run=run, time_ms=seq, parent=parent))
    assert violations(facts) == []


def of_another_agent(*within: Event) -> Facts:
    """A run with these events between the message and the end."""
    started = [
        events.RunStarted("0", "/", "acp/custom"),
        events.UserMessage((Text("go"),), source="terminal"),
    ]
    calls = sum(isinstance(event, events.ToolCalled) for event in within)
    used = sum((one.usage for one in within if isinstance(one, events.UsageReported)), Usage(cost=0.0))
    ended = events.RunEnded("completed", own=events.Totals(tool_calls=calls, usage=used), cumulative=used)
    facts = [Fact.of(events.SessionStarted("/", "0", driver="acp"), seq=1, session="s", run="", time_ms=1)]
    leaf = 0
    for seq, event in enumerate([*started, *within, ended], 2):
        parent = leaf if isinstance(event, events.Entry) else None
        facts.append(Fact.of(event, seq=seq, session="s", run="run_1", time_ms=seq, parent=parent))
        leaf = leaf if parent is None else seq
    return facts


SAID = events.AssistantMessage("msg_1", (Text("I look."), ToolCall("call_1", "read", "{}")), "tool_calls")
CALLED = events.ToolCalled("call_1", "read", {}, step=0)
STARTED = events.ToolStarted("call_1", "read")
RESULT = events.ToolResultFact("call_1", "read", (Text("seen"),))
USED = events.UsageReported("msg_1", "acp/custom", Usage(5, cost=0.5), Usage(5, cost=0.5))
ASKED = events.QuestionAsked("q_1", Question("May it?"), "call_1", durable=False)


def test_the_run_of_another_agent_breaks_no_invariant() -> None:
    assert violations(of_another_agent()) == []
    assert violations(of_another_agent(SAID, CALLED, STARTED, RESULT, USED)) == []


@pytest.mark.parametrize(
    ("number", "within"),
    [
        ("L5", (SAID, CALLED, STARTED, USED, RESULT)),
        ("L5", (CALLED, STARTED, RESULT)),
        ("L5", (USED, SAID, CALLED, STARTED, RESULT)),
        ("L5", (events.StepStarted(1),)),
        ("L7", (SAID, CALLED, STARTED, RESULT, SAID)),
        ("L8", (SAID, CALLED, RESULT)),
        ("L23", (SAID, CALLED, STARTED)),
        ("L23", (SAID, CALLED, ASKED, RESULT)),
    ],
)
def test_a_run_of_another_agent_that_breaks_an_invariant_is_reported(
    number: str, within: tuple[Event, ...]
) -> None:
    broken = list(broken_invariants(of_another_agent(*within)))
    assert number in {violation.number for violation in broken}, broken
