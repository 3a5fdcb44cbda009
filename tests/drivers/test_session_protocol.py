"""Agents that speak a protocol, as sessions.

What a driver has a part in is tried with each; the rest with the one whose agent starts sooner.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.lifecycle import start_agent_session
from ostler.schema import events, requests
from ostler.schema.errors import OstlerError, SessionBusy, UsageError
from ostler.schema.messages import Reasoning, Text, ToolCall, as_content
from ostler.sessions.run_tree import list_runs
from ostler.store.memory import MemoryStore
from tests.drivers.protocol_agents import AtWork, acp_agent, at_work, claude
from tests.drivers.screen_agents import wait_until_gone

Make = Callable[..., AgentSpec]


@pytest.fixture(params=[acp_agent, claude], ids=["acp", "stream-json"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture(params=[pytest.param(acp_agent, marks=pytest.mark.long), claude], ids=["acp", "stream-json"])
def make_either(request: pytest.FixtureRequest) -> Make:
    """For what a driver has little part in: agents made with the official package are slow to start."""
    made: Make = request.param
    return made


def answer(question: str, answer: Any = None, **rest: Any) -> requests.Answer:
    return requests.Answer(id="req_a", by="web", question=question, answer=answer, **rest)


async def test_each_prompt_is_a_run_with_its_message_and_answer(make: Make, tmp_path: Path) -> None:
    async with at_work(make(tmp_path)) as agent:
        driven = agent.session
        assert (driven.status, driven.messages, driven.screen_text) == ("stable", (), "")
        await agent.say("hello there")
        run = ["run_started", "user_message", "delivered", "assistant_message", "run_ended"]
        assert [one for one in agent.types if one not in ("audited", "usage")] == run
        assert agent.answers == ["you said: hello there "]
        assert [(one.id, one.role, one.text) for one in driven.messages] == [
            (0, "user", "hello there"),
            (1, "agent", "you said: hello there "),
        ]
        assert driven.screen_text == "you said: hello there "
        summary = await agent.session.journal.store.summary(agent.session.id)
        assert summary.driver == agent.session.transport


async def test_an_answer_is_live_in_pieces_that_its_fact_holds(make_either: Make, tmp_path: Path) -> None:
    async with at_work(make_either(tmp_path)) as agent:
        await agent.say("one two three")
        (message,) = agent.all(events.AssistantMessage)
        pieces = agent.all(events.TextDelta)
        assert len(pieces) > 1
        assert {piece.message for piece in pieces} == {message.call}
        joined = ""
        for piece in pieces:
            assert piece.offset == len(joined)
            joined += piece.text
        assert joined == message.content[0].text
        assert agent.seen.index(pieces[-1]) < [one is message for one in map(_event, agent.seen)].index(True)


def _event(one: Any) -> Any:
    return getattr(one, "event", one)


async def test_the_message_is_seen_at_once_and_the_agent_is_busy(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        sending = asyncio.ensure_future(agent.session.send("wait"))
        await asyncio.sleep(0)
        assert [one.text for one in agent.session.messages] == ["wait", ""]
        assert agent.session.status == "changing"
        with pytest.raises(SessionBusy):
            await agent.session.send("another")
        await agent.until(lambda: agent.all(events.ToolCalled))
        agent.session.interrupt()
        await sending
        with pytest.raises(UsageError, match="empty"):
            await agent.session.send("")


async def test_reasoning_is_separate_from_the_answer(make_either: Make, tmp_path: Path) -> None:
    async with at_work(make_either(tmp_path)) as agent:
        await agent.say("think")
        (message,) = agent.all(events.AssistantMessage)
        assert message.content[0] == Reasoning("let me see")
        assert agent.answers == ["seen"]
        assert agent.session.screen_text == "seen"
        assert agent.all(events.ReasoningDelta)[0].text.startswith("let me ")


async def test_a_call_that_changes_a_file_has_a_diff_like_our_own_tools(make: Make, tmp_path: Path) -> None:
    async with at_work(make(tmp_path)) as agent:
        await agent.say("edit")
        called, started = agent.last(events.ToolCalled), agent.last(events.ToolStarted)
        result = agent.last(events.ToolResultFact)
        assert called.kind == "edit"
        assert called.call == started.call == result.call
        assert result.details["path"] == "a.txt"
        assert "-two" in result.details["diff"]
        assert agent.answers == ["I change a file. ", "It is changed."]
        first = agent.all(events.AssistantMessage)[0]
        assert isinstance(first.content[-1], ToolCall)
        assert (first.content[-1].id, first.stop_reason) == (called.call, "tool_calls")
        assert "\n[Tool: edit] Edit a.txt\n" in agent.session.screen_text
        assert "[Tool Status: completed]\n" in agent.session.screen_text
        assert agent.last(events.RunEnded).own.tool_calls == 1


async def test_nothing_is_done_before_it_is_permitted(make: Make, tmp_path: Path) -> None:
    async with at_work(make(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("run ls -l"))
        asked = await agent.question()
        assert not agent.all(events.ToolStarted)
        assert asked.call == agent.last(events.ToolCalled).call
        assert asked.question.details is not None
        assert asked.question.details["arguments"]["command"] == "ls -l"
        told = f"[Question] {asked.question.text} ({' / '.join(asked.question.choices)})"
        assert f"{told} [ostler answer {agent.session.id} …]\n" in agent.session.screen_text
        await agent.submit(answer(asked.id, asked.question.choices[0]))
        await saying
        said = agent.last(events.QuestionAnswered)
        assert (said.outcome, said.by, said.request) == ("answered", "web", "req_a")
        assert agent.last(events.ToolStarted).allowed_by == "user"
        result = agent.last(events.ToolResultFact)
        assert (result.failed, result.content[0].text) == (None, "a\nb")
        assert "Done with" in agent.answers[-1]
        order = [one for one in agent.types if one in ("question_answered", "tool_started", "tool_result")]
        assert order == ["question_answered", "tool_started", "tool_result"]


async def test_its_run_waits_while_it_asks(tmp_path: Path) -> None:
    store = MemoryStore()
    async with at_work(claude(tmp_path), store) as agent:
        saying = asyncio.ensure_future(agent.say("run ls -l"))
        asked = await agent.question()
        await agent.until(lambda: agent.all(events.RunWaiting))
        (row,) = await list_runs(store)
        assert (row.status, row.waits, [one.id for one in row.questions]) == (
            "waiting",
            "question",
            [asked.id],
        )
        assert (await store.summary(agent.session.id)).status == "waiting"
        assert agent.session.status == "asking"
        for text in ("yes", asked.question.choices[0]):
            with pytest.raises(SessionBusy, match="it asks a question"):
                await agent.session.send(text)
            await agent.submit(requests.Prompt(id=f"prompt-{text}", content=(Text(text),)))
        await agent.until(lambda: len(agent.all(events.RequestRefused)) == 2)
        assert not agent.all(events.QuestionAnswered)
        await agent.submit(answer(asked.id, asked.question.choices[0]))
        await agent.until(lambda: agent.all(events.RunResumed))
        await saying
        assert (await store.summary(agent.session.id)).status == "completed"
        assert agent.last(events.RunWaiting).questions == (asked.id,)


async def test_a_refusal_reaches_the_agent_which_continues(make: Make, tmp_path: Path) -> None:
    async with at_work(make(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("run ls -l"))
        asked = await agent.question()
        await agent.submit(answer(asked.id, asked.question.choices[-1]))
        await saying
        assert agent.answers[-1] == "Then not."
        assert agent.last(events.ToolResultFact).failed == "call_refused"
        assert not agent.all(events.ToolStarted)
        ended = agent.last(events.RunEnded)
        assert (ended.status, ended.own.refused_calls) == ("completed", 1)


async def test_who_declines_says_no_in_the_agents_words(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("run ls -l"))
        asked = await agent.question()
        await agent.submit(answer(asked.id, declined=True))
        await saying
        assert agent.answers[-1] == "Then not."
        assert agent.last(events.QuestionAnswered).outcome == "declined"


async def test_an_invalid_answer_is_refused_and_the_question_stays_open(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("run ls -l"))
        asked = await agent.question()
        for number, wrong in enumerate(("perhaps", ["Yes"], None)):
            await agent.submit(requests.Answer(id=f"req_{number}", question=asked.id, answer=wrong))
        await agent.submit(requests.Answer(id="req_other", question="q_other", answer="yes"))
        await agent.until(lambda: len(agent.all(events.RequestRefused)) == 4)
        assert "must be one of" in agent.all(events.RequestRefused)[0].reason
        await agent.submit(answer(asked.id, asked.question.choices[0]))
        await saying


async def test_an_interrupt_withdraws_the_question_and_ends_the_run(make: Make, tmp_path: Path) -> None:
    async with at_work(make(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("run ls -l"))
        await agent.question()
        agent.session.press(b"\x1b")
        await saying
        assert agent.last(events.QuestionAnswered).outcome == "withdrawn"
        assert agent.last(events.ToolResultFact).failed == "tool_cancelled"
        assert agent.last(events.RunEnded).status == "cancelled"
        await agent.say("still there?")
        assert agent.answers[-1].startswith("you said: ")


async def test_a_cancel_from_the_inbox_ends_the_run_and_keeps_its_text(
    make_either: Make, tmp_path: Path
) -> None:
    async with at_work(make_either(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("wait"))
        await agent.until(lambda: agent.all(events.ToolCalled))
        await agent.submit(requests.Cancel(id="req_c"))
        await saying
        ended = agent.last(events.RunEnded)
        assert (ended.status, ended.request) == ("cancelled", "req_c")
        assert agent.last(events.ToolResultFact).failed == "tool_cancelled"
        assert agent.answers == ["waiting"]
        assert agent.session.screen_text.startswith("waiting")


async def test_keys_are_never_made_a_message_of(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        for keys in (b"y", b"\x1b[A", b"hello\r", b""):
            with pytest.raises(UsageError, match="no terminal"):
                agent.session.press(keys)
        await agent.submit(requests.Keys(id="req_k", keys="y"))
        await agent.submit(requests.Keys(id="req_t", keys="y", kind="text"))
        await agent.submit(requests.Resize(id="req_r", columns=80, rows=24))
        await agent.until(lambda: len(agent.all(events.RequestRefused)) == 3)
        assert agent.session.messages == ()


async def test_the_answer_of_a_failed_turn_is_taken_out_and_its_number_stays_free(
    make: Make, tmp_path: Path
) -> None:
    async with at_work(make(tmp_path)) as agent:
        with pytest.raises(OstlerError, match="the model is away"):
            await agent.say("fail")
        assert [(one.id, one.text) for one in agent.session.messages] == [(0, "fail")]
        ended = agent.last(events.RunEnded)
        assert (ended.status, ended.failure.kind) == ("failed", "ostler_error")
        assert agent.answers[0].startswith("half of an ans")
        await agent.say("fail")
        assert [(one.id, one.text) for one in agent.session.messages] == [
            (0, "fail"),
            (2, "fail"),
            (3, "better now"),
        ]


async def test_an_agent_that_dies_ends_its_session_and_says_why(make: Make, tmp_path: Path) -> None:
    async with at_work(make(tmp_path)) as agent:
        with pytest.raises(OstlerError, match=r"exit status 5.*out of memory"):
            await agent.say("die")
        async with asyncio.timeout(60):
            assert await agent.session.ended == 5
        assert agent.session.last_screen == "out of memory"
        assert agent.last(events.RunEnded).status == "interrupted"
        with pytest.raises(SessionBusy):
            await agent.session.send("hello?")


async def test_an_agent_that_dies_at_its_start_leaves_no_session(make_either: Make, tmp_path: Path) -> None:
    store = MemoryStore()
    with pytest.raises(OstlerError, match=r"exit status 3.*no key was found"):
        await start_agent_session(store, make_either(tmp_path, "--die"))
    assert await store.sessions() == []


async def test_an_agent_that_never_answers_is_given_up(make: Make, tmp_path: Path) -> None:
    store = MemoryStore()
    with pytest.raises(OstlerError, match=r"did not answer within 0.5 s: perhaps it does not speak"):
        await start_agent_session(store, make(tmp_path, "--silent", start_timeout=0.5))
    assert await store.sessions() == []


async def test_nothing_of_an_agent_is_left_when_its_session_ends(make_either: Make, tmp_path: Path) -> None:
    async with at_work(make_either(tmp_path)) as agent:
        await agent.say("leave")
        left = int(agent.answers[-1])
        process = agent.session.driver.process.id
        owned = await agent.session.journal.store.owned_processes(agent.session.id)
        assert [one for _, one in owned] == [process]
    assert wait_until_gone(process.pid)
    assert wait_until_gone(left)


async def test_prompts_in_the_inbox_wait_their_turn(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        for number in (1, 2):
            content = as_content(f"number {number}")
            await agent.submit(requests.Prompt(id=f"req_{number}", content=content))
        await agent.until(lambda: len(agent.all(events.RunEnded)) == 2)
        assert [one.request for one in agent.all(events.RunStarted)] == ["req_1", "req_2"]
        assert agent.answers == ["you said: number 1 ", "you said: number 2 "]


async def test_the_initial_prompt_is_the_first_run(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path, initial_prompt="begin")) as agent:
        await agent.until(lambda: agent.all(events.RunEnded))
        assert agent.answers == ["you said: begin "]


async def test_a_failed_initial_prompt_is_a_warning(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path, initial_prompt="fail")) as agent:
        changes, warnings = list[str](), list[str]()
        agent.session.on_warning = warnings.append
        stop = agent.session.subscribe(lambda: changes.append(agent.session.status))
        await agent.until(lambda: agent.session.status == "stable")
        stop()
        assert len(warnings) == 1
        assert "the model is away" in warnings[0]
        assert changes


async def test_a_flood_arrives_whole_and_in_order(make_either: Make, tmp_path: Path) -> None:
    async with at_work(make_either(tmp_path)) as agent:
        await agent.say("flood 5000")
        assert agent.answers[-1] == "".join(f"{number} " for number in range(5000))


async def test_what_cannot_be_started_says_so_and_leaves_no_session(
    make_either: Make, tmp_path: Path
) -> None:
    store = MemoryStore()
    good = make_either(tmp_path)
    for broken, problem in (
        (
            AgentSpec(command=("no-such-agent",), cwd=tmp_path, transport=good.transport),
            "no such program",
        ),
        (AgentSpec(command=(), cwd=tmp_path, transport=good.transport), "no command"),
        (
            AgentSpec(command=good.command, cwd=tmp_path / "x", transport=good.transport),
            "does not exist",
        ),
    ):
        with pytest.raises(UsageError, match=problem):
            await start_agent_session(store, broken)
    assert await store.sessions() == []


async def test_the_status_is_a_live_value(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        await agent.say("hello")
        await agent.until(lambda: _states(agent)[-1] == "stable")
        assert _states(agent) == ["stable", "changing", "stable"]


def _states(agent: AtWork) -> list[str]:
    return [
        one.value["status"]
        for one in agent.all(events.LiveValue)
        if one.name == "terminal:status" and one.value
    ]


_LEFT_ALONE = """
import asyncio, os, signal, sys
from pathlib import Path
from ostler.store.memory import MemoryStore
from ostler.sessions.run_tree import list_runs
from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.lifecycle import start_agent_session

async def main():
    agent = AgentSpec(command=sys.argv[1:], cwd=Path("."), transport="stream-json")
    session = await start_agent_session(MemoryStore(), agent)
    print(session.driver.process.id.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_an_agent_does_not_outlive_an_owner_that_is_killed(tmp_path: Path) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _LEFT_ALONE, *claude(tmp_path).command, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        told, _ = await owner.communicate()
    assert owner.returncode == -signal.SIGKILL
    assert wait_until_gone(int(told))
