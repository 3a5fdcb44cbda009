"""Replay of a recorded session, and its first difference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ostler import Agent
from ostler.core.function_tool import FunctionTool, tool
from ostler.core.harness import Harness
from ostler.core.hooks import ContextDraft, Hook, Hooks, PlannedCall, Refuse, Retry
from ostler.core.tool import ToolContext
from ostler.history.recording import Recording, masked, recording_in
from ostler.history.replay import ReplayResult, Stage, replay
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import Failure, UsageError
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.schema.ids import new_id
from ostler.schema.messages import Message, Text, as_content
from ostler.schema.outcomes import NeedUser, Ok, Pending, Question, ok
from ostler.schema.requests import FinishCall, Navigate, Steer
from ostler.sessions.session import open_session
from ostler.store.fork import fork
from ostler.store.memory import MemoryStore
from ostler.store.portable import export_session
from ostler.testkit.checks import assert_replays, replay_recording
from ostler.testkit.simulator import simulate
from tests.support.running import Ran, run, started


@tool(parallel=True, kind="read")
async def double(number: int) -> str:
    """Doubles a number."""
    return str(2 * number)


@tool
async def stumble() -> str:
    """Raises."""
    raise RuntimeError("stumbled")


@tool
async def inquire() -> NeedUser:
    """Needs a person."""
    return NeedUser(Question("Which colour?"))


@tool
async def consult(context: ToolContext) -> str:
    """Asks a person while it runs."""
    return f"they say {await context.ask(Question('Which colour?'))}"


@tool
async def linger() -> str:
    """Never ends by itself."""
    await asyncio.get_running_loop().create_future()
    return ""


TOOLS = [double, stumble, inquire, consult, linger]


async def replay_live(
    facts: Sequence[Fact], *, tools: Sequence[FunctionTool] = TOOLS, **harness: Any
) -> ReplayResult:
    """A live replay, with the agent that made the recording unless something else is said."""
    own = Harness(ScriptedModel(), **harness)
    own.set_tools(tools)
    return await replay(Recording(tuple(facts)), Stage(own, live=True, own=True))


async def all_facts(ran: Ran) -> list[Fact]:
    return await ran.session.journal.store.read(ran.session.id)


def with_changes(facts: Sequence[Fact], seq: int, **fields: Any) -> list[Fact]:
    """The same log, with one fact that says something else."""
    old = facts[seq - 1]
    assert isinstance(old.event, Event)
    event = msgspec.structs.replace(old.event, **fields)
    new = Fact.of(
        event, seq=old.seq, session=old.session, run=old.run, time_ms=old.time_ms, parent=old.parent
    )
    return [*facts[: seq - 1], new, *facts[seq:]]


def numbers_of(facts: Sequence[Fact], kind: str) -> list[int]:
    return [fact.seq for fact in facts if fact.type == kind]


# --- what replays as identical ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_every_kind_of_session_replays_identically(seed: int) -> None:
    reports = map(simulate, count(seed, 40))
    report = next(report for report in reports if numbers_of(report.facts, "run_started"))
    replay_result = asyncio.run(replay(Recording(report.facts), Stage(Harness(ScriptedModel()))))
    assert replay_result.difference is None, replay_result.difference.diff()
    calls = [fact for fact in report.facts if fact.type == "model_called"]
    assert replay_result.requests == len(calls)


CALLS = st.one_of(
    st.builds(Call, st.just("double"), st.builds(dict, number=st.integers(0, 3))),
    st.sampled_from(
        [Call("stumble"), Call("inquire"), Call("consult"), Call("unknown"), Call("double", {"number": "x"})]
    ),
    st.just(Call("double", raw='{"broken')),
)
TURNS = st.one_of(
    st.builds(Turn, text=st.sampled_from(["", "let me see"]), calls=st.lists(CALLS, min_size=1, max_size=3)),
    st.just(Turn("half", failure=Failure("stream_broken", "cut", stream_opened=True))),
    st.just(Turn(failure=Failure("interrupted", "gone"))),
    st.just(Turn("an answer", reasoning="hm")),
    st.just(Turn("cut by its limit", stop_reason="length")),
)


async def record_session(turns: list[Turn], cancel_at: int, steer_at: int) -> Ran:
    """Three prompts; at those facts somebody cancels or steers."""

    async def ask(asked: events.QuestionAsked) -> str:
        return "blue"

    def meddle(batch: Sequence[Fact | Event]) -> None:
        for fact in batch:
            if isinstance(fact, Fact) and fact.seq == cancel_at:
                ran.session.cancel("enough")
            if isinstance(fact, Fact) and fact.seq == steer_at:
                steer = Steer(id="steer", content=as_content("and quickly"))
                steering.append(asyncio.ensure_future(store.submit(ran.session.id, steer)))

    store, steering = MemoryStore(), list[Any]()
    script = [msgspec.structs.replace(turn, calls=tuple(turn.calls)) for turn in turns]
    ran = await started(script, tools=TOOLS, store=store, asker=ask)
    ran.session.subscribe(meddle)
    for prompt in ("one", "two", "three"):
        await ran.session.prompt(as_content(prompt))
    await asyncio.gather(*steering)
    return ran


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TURNS, max_size=8), st.integers(1, 60), st.integers(1, 60))
def test_live_tools_with_equal_results_replay_identically(turns: list[Turn], cancel: int, steer: int) -> None:
    async def check() -> None:
        facts = await all_facts(await record_session(turns, cancel, steer))
        replay_result = await replay_live(facts)
        assert replay_result.difference is None, replay_result.difference.diff()
        assert replay_result.requests == replay_result.exact == len(numbers_of(facts, "model_called"))

    asyncio.run(check())


async def test_a_cancelled_tool_is_not_run_again() -> None:
    ran = await started(
        [[Call("double", {"number": 1}), Call("linger"), Call("stumble")], "next"], tools=TOOLS
    )
    ran.session.subscribe(
        lambda batch: [
            ran.session.cancel("enough")
            for fact in batch
            if isinstance(fact, Fact)
            and isinstance(fact.event, events.ToolStarted)
            and fact.event.name == "linger"
        ]
    )
    await ran.session.prompt(as_content("go"))
    await ran.session.prompt(as_content("and now?"))
    replay_result = await replay_live(await all_facts(ran))
    assert replay_result.identical
    assert (replay_result.runs, replay_result.requests, replay_result.results) == (2, 2, 2)


async def test_a_run_that_waited_gets_the_recorded_answer() -> None:
    @tool
    async def order() -> Pending:
        """Finishes later."""
        return Pending("order 7")

    calls = [Call("inquire"), Call("order", id="c-order")]
    ran = await started([calls, "done"], tools=[inquire, order], wait_for_answers=True)
    waiting = await ran.session.prompt(as_content("go"))
    assert isinstance(waiting, events.RunWaiting)
    await ran.session.answer(waiting.questions[0], "blue")
    finish = FinishCall(id="finish", call="c-order", outcome=ok("delivered"))
    await ran.session.journal.store.submit(ran.session.id, finish)
    await ran.session.advance()
    replay_result = await replay_live(await all_facts(ran), tools=[inquire, order])
    assert replay_result.identical
    assert replay_result.results == 2


async def test_a_rewound_session_and_a_fork_replay() -> None:
    store = MemoryStore()
    script = [Call("double", {"number": 1}), "first", Call("double", {"number": 2}), "second"]
    ran = await started(script, tools=TOOLS, store=store)
    await ran.session.prompt(as_content("go"))
    entry = next(fact.seq for fact in ran.facts if fact.type == "user_message")
    await store.submit(ran.session.id, Navigate(id="back", entry=entry))
    await ran.session.prompt(as_content("elsewhere"))
    replay_result = await replay_live(await all_facts(ran))
    assert replay_result.identical
    assert replay_result.requests == replay_result.exact == 4
    copy = await open_session(
        store,
        await fork(store, ran.session.id, None, ran.session.journal.world),
        Harness(ScriptedModel(["third"])),
    )
    await copy.replace_history((Message("user", (Text("start anew"),)),))
    await copy.continue_()
    assert (await replay_live(await store.read(copy.id), tools=[])).identical


async def test_ids_times_and_the_folder_may_differ(tmp_path: Path) -> None:
    @tool
    async def stamp(context: ToolContext) -> str:
        """Says where, when and who."""
        return f"{context.cwd}/a.txt at 2026-01-01T10:00:{len(seen):02}Z by {context.run} in {new_id('ses')}"

    seen: list[str] = []
    then, now = tmp_path / "then", tmp_path / "now"
    ran = await run([Call("stamp"), "done"], tools=[stamp], cwd=then)
    seen.append("once")
    facts = await all_facts(ran)
    assert (await replay_live(facts, tools=[stamp], cwd=now)).identical
    lines = [line async for line in export_session(ran.session.journal.store, ran.session.id)]
    exported = (await recording_in(lines)).facts
    assert (await replay_live(exported, tools=[stamp], cwd=then)).identical
    assert not (await replay_live(exported, tools=[stamp], cwd=now)).identical
    assert (
        masked(f"{then}/a {then}2 {ran.session.id} 2026-01-01 10:00", str(then))
        == f"<cwd>/a {then}2 id-1 <time>"
    )


async def test_a_truncated_result_is_not_truncated_twice() -> None:
    @tool
    async def recite() -> str:
        """Says much."""
        return "word " * 20_000

    ran = await run([Call("recite"), "done"], tools=[recite])
    facts = await all_facts(ran)
    assert (await replay(Recording(tuple(facts)), Stage(Harness(ScriptedModel())))).identical
    assert (await replay_live(facts, tools=[recite])).identical


# --- differences ------------------------------------------------------------------------------------

SCRIPT = [
    [Call("double", {"number": 1}), Call("double", {"number": 2})],
    Call("stumble"),
    "well",
    Call("double", {"number": 3}),
    "done",
]


async def two_runs() -> list[Fact]:
    ran = await started(SCRIPT, tools=TOOLS)
    await ran.session.prompt(as_content("go"))
    await ran.session.prompt(as_content("again"))
    return await all_facts(ran)


@pytest.mark.parametrize("number", range(4))
async def test_a_different_result_is_the_first_difference(number: int) -> None:
    facts = await two_runs()
    seq = numbers_of(facts, "tool_result")[number]
    replay_result = await replay_live(with_changes(facts, seq, content=as_content("one\ntwo\nfour")))
    difference = replay_result.difference
    assert difference is not None
    assert (difference.what, difference.fact) == ("result", seq)
    assert (difference.run, difference.step) == ((1, 1), (1, 1), (1, 2), (2, 1))[number]
    assert '-    "two",' in difference.diff()
    assert replay_result.results == number


@pytest.mark.parametrize(
    ("kind", "number", "asked"),
    [("assistant_message", 0, 1), ("assistant_message", 1, 2), ("tool_result", 3, 4)],
)
async def test_a_changed_log_is_detected_by_the_next_digest(kind: str, number: int, asked: int) -> None:
    facts = await two_runs()
    seq = numbers_of(facts, kind)[number]
    before: Any = facts[seq - 1].event
    calls = [block for block in before.content if not isinstance(block, Text)]
    content = (Text("changed"), *calls)
    own = Harness(ScriptedModel())
    own.set_tools(TOOLS)
    replay_result = await replay(Recording(tuple(with_changes(facts, seq, content=content))), Stage(own))
    assert replay_result.difference is not None
    assert (replay_result.difference.what, replay_result.difference.fact) == (
        "request",
        numbers_of(facts, "model_called")[asked],
    )


async def test_a_missing_tool_is_a_difference_of_the_request() -> None:
    facts = await two_runs()
    difference = (await replay_live(facts, tools=[double, stumble])).difference
    assert difference is not None
    assert (difference.what, difference.fact) == ("request", numbers_of(facts, "model_called")[0])
    assert '-  "consult",' in difference.diff()


async def test_a_hook_that_removes_messages_is_a_difference() -> None:
    facts = await two_runs()
    forget = Hook("context", lambda draft: ContextDraft(draft.system, draft.messages[-1:]))
    difference = (await replay_live(facts, hooks=Hooks([forget]))).difference
    assert difference is not None
    assert (difference.fact, difference.replayed["messages told"]) == (
        numbers_of(facts, "model_called")[1],
        1,
    )


async def test_a_run_that_ends_earlier_or_later_is_a_difference() -> None:
    @tool(parallel=True, kind="read")
    async def double(number: int) -> Ok:
        """Doubles a number."""
        return Ok(as_content(str(2 * number)), ends_run=True)

    facts = await two_runs()
    early = (await replay_live(facts, tools=[double, *TOOLS[1:]])).difference
    assert early is not None
    assert (early.what, early.fact) == ("request", numbers_of(facts, "model_called")[1])
    assert early.replayed == {"end": {"status": "completed", "reason": "a tool ended the run"}}
    result = numbers_of(facts, "tool_result")[2]
    ending = with_changes(facts, result, ends_run=True)
    cut = [*ending[:result], *[fact for fact in ending[result:] if fact.run == facts[result].run][-2:]]
    late = (await replay_live(cut)).difference
    assert late is not None
    assert (late.what, late.recorded) == ("end", {"end": {"status": "completed", "reason": ""}})


async def test_a_denied_call_is_not_run_by_a_replay() -> None:
    ran_now: list[str] = []

    @tool
    async def pay() -> str:
        """Costs money."""
        ran_now.append("paid")
        return "paid"

    def refuse(planned: PlannedCall) -> Refuse:
        return Refuse("too dear")

    ran = await run([Call("pay"), "well"], tools=[pay], hooks=[Hook("before_tool", refuse)])
    difference = (await replay_live(await all_facts(ran), tools=[pay])).difference
    assert difference is not None
    assert (difference.what, difference.recorded["failed"], difference.replayed["failed"]) == (
        "result",
        "call_refused",
        None,
    )
    assert ran_now == []


async def test_recorded_tools_do_not_run_and_no_other_model_is_called() -> None:
    paid: list[str] = []

    @tool
    async def pay() -> str:
        """Costs money."""
        paid.append("paid")
        return f"receipt {len(paid)}"

    other = ScriptedModel(["I am another"], name="other/model")
    rescue = Hook("after_failure", lambda failed: Retry(0.0, other))
    script = [Call("pay"), Turn(failure=Failure("server_failed", "no", status=500))]
    ran = await run(script, tools=[pay], hooks=[rescue])
    assert len(other.requests) == 1
    facts = await all_facts(ran)
    own = Harness(ScriptedModel(), hooks=Hooks([rescue]), fallbacks=(other,))
    own.set_tools([pay])
    replay_result = await replay(Recording(tuple(facts)), Stage(own, own=True))
    assert replay_result.identical
    assert replay_result.requests == replay_result.exact == 3
    assert (paid, len(other.requests)) == (["paid"], 1)


# --- what cannot be replayed ------------------------------------------------------------------------


async def test_a_session_that_cannot_be_replayed_is_refused_in_one_line() -> None:
    facts = await two_runs()
    stage = Stage(Harness(ScriptedModel()))
    with pytest.raises(UsageError, match="has no runs"):
        await replay(Recording(tuple(facts[:1])), stage)
    with pytest.raises(UsageError, match="only an agent's"):
        await replay(Recording(tuple(with_changes(facts, 1, driver="terminal"))), stage)
    newer = Fact(
        len(facts) + 1,
        facts[0].session,
        "",
        0,
        b'{"type":"dreamt","critical":true}',
        parent=facts[-1].seq - 2,
    )
    with pytest.raises(UsageError, match="'dreamt' entry of a newer version"):
        await replay(Recording((*facts, newer)), stage)


# --- in the testkit ---------------------------------------------------------------------------------


async def test_an_exported_session_is_a_test_of_an_agent(tmp_path: Path) -> None:
    async with Agent(ScriptedModel([Call("double", {"number": 4}), "8"]), tools=[double]) as agent:
        await agent.run("go")
        session = await agent.open()
        lines = [line async for line in export_session(session.journal.store, agent.session)]
    file = tmp_path / "doubling.jsonl"
    file.write_bytes(b"".join(lines))

    @tool(parallel=True, kind="read")
    async def treble(number: int) -> str:
        """Doubles a number."""
        return str(3 * number)

    treble.spec = msgspec.structs.replace(treble.spec, name="double")
    same, other = Agent(ScriptedModel(), tools=[double]), Agent(ScriptedModel(), tools=[treble])
    assert (await replay_recording(file, same)).identical
    assert not (await replay_recording(file, other)).identical
    assert (await replay_recording(file, other, live=False)).identical
    assert (await replay_recording(file)).identical
    with pytest.raises(
        AssertionError, match=r"the result of double \(fact \d+, run 1, step 1\)\n--- recorded"
    ):
        await asyncio.to_thread(assert_replays, file, other)
