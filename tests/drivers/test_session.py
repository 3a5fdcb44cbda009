"""A terminal agent as a session: what is said and shown becomes facts, in order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from ostler.core.journal import World
from ostler.drivers.agent_messages import stored_messages
from ostler.drivers.agent_spec import AgentSpec
from ostler.drivers.driver import AgentMessage, SavedState
from ostler.drivers.inbox import release_journal
from ostler.drivers.lifecycle import new_journal, restart_agent_session, start_agent_session
from ostler.schema import events, requests
from ostler.schema.errors import OstlerError, SessionBusy, UsageError
from ostler.schema.messages import as_content
from ostler.store.invariants import violations
from ostler.store.memory import MemoryStore
from tests.drivers.screen_agents import QUICK, AtWork, at_work, echo_agent


def prompt(id: str, text: str) -> requests.Prompt:
    return requests.Prompt(id=id, content=as_content(text))


async def test_a_greeting_is_a_fact_outside_of_any_run(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        assert agent.texts == ["assistant: Hello, I repeat things."]
        (greeting,) = [fact for fact in agent.facts if fact.type == "assistant_message"]
        assert greeting.run == ""
        summary = await agent.session.journal.store.summary(agent.session.id)
        assert summary.driver == "terminal"


async def test_each_prompt_is_a_run_with_its_message_delivery_and_answer(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        begun = len(agent.facts)
        await agent.ask("one")
        await agent.ask("two")
        run = ["run_started", "user_message", "delivered", "assistant_message", "run_ended"]
        assert agent.types[begun:] == [*run, *run]
        assert agent.texts[1:] == [
            "user: one",
            "assistant: you said: one",
            "user: two",
            "assistant: you said: two",
        ]
        assert [ended.status for ended in agent.all(events.RunEnded)] == ["completed", "completed"]


async def test_the_same_answer_twice_is_two_messages(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        await agent.ask("again")
        await agent.ask("again")
        assert agent.texts[1:] == ["user: again", "assistant: you said: again"] * 2


async def test_a_prompt_of_several_lines_arrives_as_one(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        await agent.ask("first\n```\ncode\n```\nlast")
        said = ["first", "```", "code", "```", "last"]
        assert agent.texts[-1] == "assistant: " + "\n".join(f"you said: {line}" for line in said)


async def test_wide_characters_come_through_in_both_directions(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path, "你好 👋")) as agent:
        await agent.until_stable()
        await agent.ask("漢字 and 👩‍💻 and é")
        assert agent.texts == [
            "assistant: 你好 👋",
            "user: 漢字 and 👩‍💻 and é",
            "assistant: you said: 漢字 and 👩‍💻 and é",
        ]


async def test_what_is_redrawn_later_revises_the_message(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        await agent.ask("/later 0.9")
        await agent.until(lambda: agent.all(events.MessageRevised))
        (answer,) = [fact for fact in agent.facts if fact.type == "assistant_message"][1:]
        (revised,) = agent.all(events.MessageRevised)
        assert agent.texts[-1] == "assistant: first thoughts"
        assert (revised.message, revised.content[0].text) == (answer.seq, "second thoughts")
        said = stored_messages(agent.facts)
        assert [one.message.text for one in said][-1] == "second thoughts"


async def test_the_initial_prompt_is_a_run_behind_the_greeting(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path, initial_prompt="begin")) as agent:
        await agent.until(lambda: agent.all(events.RunEnded))
        assert agent.texts == [
            "assistant: Hello, I repeat things.",
            "user: begin",
            "assistant: you said: begin",
        ]
        states = [
            one.value["status"]
            for one in agent.all(events.LiveValue)
            if one.name == "terminal:status" and one.value
        ]
        assert "stable" not in states[:-1]


async def test_prompts_in_the_inbox_wait_their_turn(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        store, session = agent.session.journal.store, agent.session.id
        await store.submit(session, prompt("req_1", "one"))
        await store.submit(session, prompt("req_2", "two"))
        await agent.until(lambda: len(agent.all(events.RunEnded)) == 2)
        assert [one for one in agent.texts if one.startswith("user")] == ["user: one", "user: two"]
        assert [started.request for started in agent.all(events.RunStarted)] == ["req_1", "req_2"]
        assert await store.pending(session) == []


async def test_a_message_is_refused_at_once_while_the_agent_works(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        with pytest.raises(SessionBusy):
            await agent.session.send("too early")
        await agent.until_stable()
        with pytest.raises(UsageError, match="empty"):
            await agent.session.send("")
        sending = asyncio.ensure_future(agent.session.send("one"))
        await asyncio.sleep(0)
        assert agent.session.status == "changing"
        with pytest.raises(SessionBusy):
            await agent.session.send("two")
        await sending
        assert agent.session.status == "changing"
        assert "user: two" not in agent.texts


async def test_a_cancelled_run_is_interrupted_and_keeps_what_was_drawn(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        store, session = agent.session.journal.store, agent.session.id
        await agent.session.send("/think")
        await store.submit(session, requests.Cancel(id="req_stop"))
        await agent.until(lambda: agent.all(events.RunEnded))
        (ended,) = agent.all(events.RunEnded)
        assert (ended.status, ended.request) == ("cancelled", "req_stop")
        assert agent.texts[-1] == "assistant: interrupted"
        await store.submit(session, requests.Cancel(id="req_late"))
        await agent.until(lambda: agent.all(events.RequestRefused))
        assert await store.pending(session) == []


async def test_prompts_are_held_behind_a_cancelled_run_until_they_are_released(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        store, session = agent.session.journal.store, agent.session.id
        await agent.session.send("/think")
        await store.submit(session, prompt("req_1", "held"))
        await store.submit(session, requests.Cancel(id="req_stop"))
        await agent.until(lambda: agent.all(events.RunEnded))
        assert "user: held" not in agent.texts
        await store.submit(session, requests.ReleasePrompts(id="req_go"))
        await agent.until(lambda: len(agent.all(events.RunEnded)) == 2)
        assert agent.texts[-1] == "assistant: you said: held"


async def test_keys_go_through_and_are_never_stored(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        store, session = agent.session.journal.store, agent.session.id
        await store.submit(session, requests.Keys(id="req_1", keys="sesame\r"))
        await agent.until(lambda: agent.all(events.MessageRevised))
        (revised,) = agent.all(events.MessageRevised)  # of the greeting: nothing was said to the agent since
        assert "you said: sesame" in revised.content[0].text
        assert agent.all(events.RunStarted) == []
        (noted,) = [fact for fact in agent.facts if b"terminal.keys" in fact.body]
        assert b"sesame" not in noted.body
        assert await store.pending(session) == []


async def test_what_a_terminal_agent_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        store, session = agent.session.journal.store, agent.session.id
        await store.submit(session, requests.SetModel(id="req_1", model="x/y"))
        await store.submit(session, requests.Steer(id="req_2", content=as_content("now")))
        await store.submit(session, prompt("req_3", "   "))
        await store.submit(session, requests.Rename(id="req_4", title="An echo"))
        await agent.until(
            lambda: agent.all(events.SessionRenamed) and len(agent.all(events.RequestRefused)) == 3
        )
        assert {one.request for one in agent.all(events.RequestRefused)} == {"req_1", "req_2", "req_3"}


async def test_an_agent_that_ignores_enter_fails_the_run_without_a_message(tmp_path: Path) -> None:
    deaf = ["sh", "-c", "stty raw -echo; printf 'I do not listen'; exec sleep 1000"]
    timing = replace(QUICK, processing_timeout=1.2, enter_again=0.5)
    async with at_work(replace(echo_agent(tmp_path), command=deaf, timing=timing)) as agent:
        await agent.until_stable()
        with pytest.raises(OstlerError, match="failed to wait for processing to start"):
            await agent.session.send("hello?")
        await agent.until_stable()
        (ended,) = agent.all(events.RunEnded)
        assert ended.status == "failed" and ended.failure
        assert agent.all(events.Delivered) == []
        assert [one.message.role for one in stored_messages(agent.facts)] == ["agent"]


async def test_the_exit_of_the_agent_interrupts_its_run_and_ends_the_session(tmp_path: Path) -> None:
    store = MemoryStore()
    async with at_work(echo_agent(tmp_path), store) as agent:
        await agent.until_stable()
        session = agent.session
        assert await store.holder(session.id) is not None
        with suppress(OstlerError):  # it may have been seen to react
            await session.send("/exit 3")
        async with asyncio.timeout(60):
            assert await session.ended == 3
        (ended,) = agent.all(events.RunEnded)
        assert (ended.status, ended.reason) == ("interrupted", "the agent ended with exit status 3")
        assert await store.holder(session.id) is None
        gone = [one.name for one in agent.all(events.LiveValue) if one.value is None]
        assert {"terminal:screen", "terminal:status"} <= {*gone}
        assert violations(await store.read(session.id)) == []


async def test_a_crash_is_reported_with_its_signal_and_the_last_screen(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        with suppress(OstlerError):  # it may have been seen to react
            await agent.session.send("/crash")
        async with asyncio.timeout(60):
            assert await agent.session.ended == -9
        (ended,) = agent.all(events.RunEnded)
        assert ended.reason == "the agent was ended by SIGKILL"
        assert "about to crash" in agent.session.last_screen
        viewer = agent.session.view()
        assert b"about to crash" in (await viewer.next() or b"")
        assert await viewer.next() is None
        with pytest.raises(SessionBusy, match="has ended"):
            agent.session.press(b"x")
        with pytest.raises(SessionBusy):
            await agent.session.send("hello?")


async def test_an_agent_that_cannot_be_started_leaves_no_session(tmp_path: Path) -> None:
    store = MemoryStore()
    with pytest.raises(UsageError, match="no-such-agent"):
        await start_agent_session(store, AgentSpec(command=["no-such-agent"], cwd=tmp_path))
    assert await store.sessions() == []


async def test_a_session_continues_with_a_new_process_of_its_agent(tmp_path: Path) -> None:
    store = MemoryStore()
    async with at_work(echo_agent(tmp_path), store) as agent:
        await agent.until_stable()
        await agent.ask("one")
        session = agent.session.id
    again = await restart_agent_session(store, session, echo_agent(tmp_path, "Hello once more."))
    try:
        second = AtWork(again, [])
        again.journal.subscribe(second.seen.extend)
        await second.until_stable()
        assert second.texts == []
        await second.ask("two")
        assert second.texts == ["user: two", "assistant: you said: two"]
    finally:
        await again.close()
    said = stored_messages(await store.read(session))
    assert [one.message.text for one in said] == [
        "Hello, I repeat things.",
        "one",
        "you said: one",
        "two",
        "you said: two",
    ]
    with pytest.raises(OstlerError):
        await restart_agent_session(store, "ses_none", echo_agent(tmp_path))


async def test_a_saved_conversation_becomes_facts_before_it_continues(tmp_path: Path) -> None:
    kept = [("agent", "Good morning."), ("user", "one"), ("agent", "you said: one")]
    saved = SavedState([AgentMessage(place, role, text, 0.0) for place, (role, text) in enumerate(kept)])  # type: ignore[arg-type]
    async with at_work(echo_agent(tmp_path), saved=saved) as agent:
        await agent.until_stable()
        await agent.ask("two")
        said = stored_messages(agent.facts)
        assert [one.message.text for one in said] == [*[text for _, text in kept], "two", "you said: two"]


async def test_the_other_emulator_serves_as_well(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path, emulator="bittty")) as agent:
        await agent.until_stable()
        await agent.ask("漢字")
        assert agent.texts[-1] == "assistant: you said: 漢字"


async def test_screen_status_and_the_message_being_drawn_are_live_values(tmp_path: Path) -> None:
    async with at_work(echo_agent(tmp_path)) as agent:
        await agent.until_stable()
        await agent.ask("one")
        values = {one.name: one.value for one in agent.all(events.LiveValue)}
        assert values["terminal:status"] == {"status": "stable", "agent_type": "custom"}
        assert "you said: one" in values["terminal:screen"]["text"]
        assert values["terminal:screen"]["columns"] == 80
        assert values["terminal:message"] is None
        drawn = [
            one.value["text"]
            for one in agent.all(events.LiveValue)
            if one.name == "terminal:message" and one.value
        ]
        assert "you said: one" in drawn


async def test_what_is_asked_while_an_agent_ends_does_not_wait_for_its_next_life(tmp_path: Path) -> None:
    store = MemoryStore()
    started = events.SessionStarted(str(tmp_path), "1.0", driver="terminal")
    journal = await new_journal(store, started, "ses_1", World())
    cancel = requests.Cancel(id="req_1")
    answer = requests.Answer(id="req_2", question="que_1")
    for request in (cancel, answer, prompt("req_3", "for later"), requests.Rename(id="req_4", title="Echo")):
        await store.submit("ses_1", request)
    await release_journal(journal)
    assert [one.id for one in await store.pending("ses_1")] == ["req_3"]
    refused = [one.event for one in await store.read("ses_1") if isinstance(one.event, events.RequestRefused)]
    assert [one.request for one in refused] == ["req_1", "req_2"]
    assert (await store.summary("ses_1")).title == "Echo"
    assert await store.holder("ses_1") is None
    await store.close()
