"""What only Claude Code's stream-JSON tells."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ostler.terminals.structured.stream_json_driver import _command
from ostler.vocabulary import events, requests
from tests.terminals.structured.agents_at_work import at_work, claude


async def test_each_suggested_rule_is_an_answer_that_goes_back_whole(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("run ls -l"))
        asked = await agent.question()
        assert asked.question.choices == (
            "Yes",
            "Yes, and always allow Bash(ls -l) (localSettings)",
            "Yes, and switch to the permission mode acceptEdits (session)",
            "No",
        )
        assert asked.question.reason == "lists the files"
        await agent.submit(requests.Answer(id="req_1", question=asked.id, answer=asked.question.choices[2]))
        await saying
        assert '"mode": "acceptEdits"' in agent.answers[-1]
        assert "addRules" not in agent.answers[-1]


async def test_tokens_are_those_of_the_turn_and_the_cost_is_not_counted_twice(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        await agent.say("one")
        await agent.say("two")
        first, second = agent.all(events.UsageReported)
        assert first.model == "claude-opus-4-8"
        for used in (first.usage, second.usage):
            assert (used.input_tokens, used.output_tokens, used.cache_read_tokens) == (10, 5, 3)
            assert used.cost == 0.5
        assert agent.last(events.RunEnded).cumulative.cost == 1.0


async def test_what_a_subagent_says_is_not_the_agents_answer(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        await agent.say("children")
        assert agent.answers == ["they are quiet"]


async def test_a_call_is_named_by_its_tool_and_titled_by_what_it_does(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        await agent.say("edit")
        called = agent.last(events.ToolCalled)
        assert (called.name, called.kind, called.display.title) == ("Edit", "edit", "Edit a.txt")


def test_options_that_were_given_are_not_given_again() -> None:
    words = _command(["claude", "-p", "--output-format=stream-json", "--model", "opus"])
    assert words[:5] == ["claude", "-p", "--output-format=stream-json", "--model", "opus"]
    assert "--print" not in words
    assert "--output-format" not in words
    assert words[words.index("--input-format") + 1] == "stream-json"
    assert words[words.index("--permission-prompt-tool") + 1] == "stdio"
