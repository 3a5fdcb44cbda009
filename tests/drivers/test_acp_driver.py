"""What only agents that speak ACP tell."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from ostler.drivers.lifecycle import start_agent_session
from ostler.schema import events, requests
from ostler.schema.errors import OstlerError, UsageError
from ostler.store.memory import MemoryStore
from tests.drivers.protocol_agents import acp_agent, at_work


async def test_the_chosen_option_goes_back_by_its_id(tmp_path: Path) -> None:
    async with at_work(acp_agent(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("run ls"))
        asked = await agent.question()
        assert asked.question.choices == ("Do it", "Do it always", "Leave it")
        await agent.submit(requests.Answer(id="req_1", question=asked.id, answer="Do it always"))
        await saying
        assert agent.answers[-1] == "Done with yes-2."
        assert [(one.offset, one.text) for one in agent.all(events.ToolOutput)] == [(0, "a"), (1, "\nb")]


async def test_permission_may_be_asked_for_a_call_that_was_not_announced(tmp_path: Path) -> None:
    async with at_work(acp_agent(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("ask"))
        asked = await agent.question()
        assert asked.question.text == "May custom do this? Look around"
        await agent.submit(requests.Answer(id="req_1", question=asked.id, answer="Do it"))
        await saying
        (called,) = agent.all(events.ToolCalled)
        assert (called.kind, called.display.title) == ("read", "Look around")
        assert agent.last(events.ToolResultFact).failed is None
        told, question, outcome = agent.session.screen_text.strip().split("\n")
        assert (told, outcome) == ("[Tool: read] Look around", "[Tool Status: completed]")
        assert question.startswith("[Question] May custom do this? Look around (Do it) [")


async def test_a_plan_is_a_list_and_the_cost_is_that_of_the_turn(tmp_path: Path) -> None:
    async with at_work(acp_agent(tmp_path)) as agent:
        await agent.say("plan")
        await agent.say("plan")
        assert [(one.text, one.status) for one in agent.last(events.TodoUpdated).items] == [
            ("look", "done"),
            ("leap", "active"),
        ]
        assert [one.usage.cost for one in agent.all(events.UsageReported)] == [0.25, 0.25]
        ended = agent.last(events.RunEnded)
        assert (ended.context, ended.cumulative.cost) == (1200, 0.5)


async def test_half_a_character_and_a_line_that_is_no_json_do_no_harm(tmp_path: Path) -> None:
    async with at_work(acp_agent(tmp_path)) as agent:
        await agent.say("lone")
        assert agent.answers == ["half \N{REPLACEMENT CHARACTER}"]
        assert agent.session.driver.process.last_stderr == "this is no JSON"


async def test_messages_that_do_not_fit_the_protocol_do_no_harm(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with at_work(acp_agent(tmp_path)) as agent:
        await agent.say("garbage")
        await agent.say("hello")
        assert agent.answers == ["never mind", "you said: hello "]
    assert capfd.readouterr() == ("", "")


async def test_an_agent_that_wants_a_login_says_so(tmp_path: Path) -> None:
    with pytest.raises(OstlerError, match="wants a login"):
        await start_agent_session(MemoryStore(), acp_agent(tmp_path, "--login"))


async def test_an_agent_of_another_version_of_the_protocol_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OstlerError, match="speaks version 0"):
        await start_agent_session(MemoryStore(), acp_agent(tmp_path, "--old"))


async def test_without_the_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "acp", None)
    with pytest.raises(UsageError, match=r"install `ostler\[acp\]`"):
        await start_agent_session(MemoryStore(), acp_agent(tmp_path))
