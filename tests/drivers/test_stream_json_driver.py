"""What only Claude Code's stream-JSON tells."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.drivers.stream_json_driver import (
    call_of,
    error_of,
    models_of,
    options_of,
    questions_of,
    text_of,
    total_cost,
    usage_of,
    verdict_of,
    with_options,
)
from ostler.schema import events, requests
from ostler.schema.usage import Usage
from tests.drivers.protocol_agents import AtWork, at_work, claude


def answer(agent: AtWork, name: str, answer: Any) -> requests.Answer:
    """To what it asked last."""
    return requests.Answer(id=name, question=agent.last(events.QuestionAsked).id, answer=answer)


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
        assert not agent.all(events.ToolCalled)


async def test_a_call_is_named_by_its_tool_and_titled_by_what_it_does(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        await agent.say("edit")
        called = agent.last(events.ToolCalled)
        assert (called.name, called.kind, called.display.title) == ("Edit", "edit", "Edit a.txt")


def test_options_that_were_given_are_not_given_again() -> None:
    words = with_options(["claude", "-p", "--output-format=stream-json", "--model", "opus"])
    assert words[:5] == ["claude", "-p", "--output-format=stream-json", "--model", "opus"]
    assert "--print" not in words
    assert "--output-format" not in words
    assert words[words.index("--input-format") + 1] == "stream-json"
    assert words[words.index("--permission-prompt-tool") + 1] == "stdio"


def test_the_conversation_to_go_on_with_takes_the_place_of_others() -> None:
    given = ["npx", "-c", "claude", "-c", "--resume", "old", "--model", "opus", "--session-id=x", "-r"]
    words = with_options(given, "new")
    assert words[:5] == ["npx", "-c", "claude", "--model", "opus"]
    assert words[-2:] == ["--resume", "new"]
    assert not {"old", "-r", "--session-id=x"} & set(words)


async def test_what_it_wants_to_know_is_asked_with_its_own_choices(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("inquire"))
        first = (await agent.question()).question
        assert (first.text, first.kind, first.choices) == ("Which tree?", "choice", ("Apple", "Pear"))
        assert first.reason == "Apple: red; Pear: green"
        await agent.submit(answer(agent, "req_1", "Pear"))
        second = (await agent.question(2)).question
        assert (second.text, second.kind) == ("Which tools?", "form")
        for number, wrong in enumerate((["Hoe"], [], "Rake")):
            await agent.submit(answer(agent, f"req_w{number}", wrong))
        await agent.submit(answer(agent, "req_2", ["Rake", "Spade"]))
        await saying
        assert len(agent.all(events.RequestRefused)) == 3
        result = agent.last(events.ToolResultFact)
        assert result.content[0].text == '{"Which tree?": "Pear", "Which tools?": "Rake, Spade"}'
        assert agent.answers[-1] == "Thank you."


async def test_who_does_not_want_to_choose_is_asked_no_more(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("inquire"))
        asked = await agent.question()
        await agent.submit(requests.Answer(id="req_1", question=asked.id, declined=True))
        await saying
        assert len(agent.all(events.QuestionAsked)) == 1
        assert agent.last(events.ToolResultFact).failed == "call_refused"
        assert agent.answers[-1] == "As you like."


async def test_a_question_that_comes_twice_is_asked_once(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("again"))
        asked = await agent.question()
        await agent.submit(requests.Answer(id="req_1", question=asked.id, answer="Yes"))
        await saying
        assert len(agent.all(events.QuestionAsked)) == 1
        assert agent.answers[-1] == "Done."


async def test_a_question_that_it_takes_back_is_withdrawn(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("back"))
        await agent.question()
        agent.session.interrupt()
        await saying
        assert [one.outcome for one in agent.all(events.QuestionAnswered)] == ["withdrawn"]


async def test_two_calls_at_a_time_have_their_own_results_whatever_came_of_the_question(
    tmp_path: Path,
) -> None:
    async with at_work(claude(tmp_path)) as agent:
        saying = asyncio.ensure_future(agent.say("both"))
        asked = await agent.question()
        await agent.submit(requests.Answer(id="req_1", question=asked.id, answer="No"))
        await saying
        results = {one.call: one.content[0].text for one in agent.all(events.ToolResultFact)}
        called = [one.call for one in agent.all(events.ToolCalled)]
        assert [results[call] for call in called] == ["toolu_1", "toolu_2"]


async def test_output_after_the_end_of_a_turn_belongs_to_no_run(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        await agent.say("late")
        await agent.say("hello")
        assert agent.answers == ["in time", "you said: hello "]


async def test_lines_that_are_nonsense_do_no_harm(tmp_path: Path) -> None:
    async with at_work(claude(tmp_path)) as agent:
        await agent.say("garbage")
        assert agent.answers == ["never mind"]
        assert agent.last(events.UsageReported).usage == Usage(cost=None)
        await agent.say("hello")
        assert agent.answers[-1] == "you said: hello "


_WORDS = (
    *("questions", "question", "options", "label", "description", "multiSelect", "permission_suggestions"),
    *("type", "rules", "toolName", "ruleContent", "directories", "mode", "destination", "behavior", "text"),
    *(
        "usage",
        "input_tokens",
        "output_tokens",
        "total_cost_usd",
        "modelUsage",
        "errors",
        "result",
        "content",
    ),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.sampled_from(_WORDS), _JSON, max_size=5)))
@settings(max_examples=60, deadline=None)
def test_any_message_can_be_read(told: list[dict[str, Any]]) -> None:
    for one in told:
        call = call_of("id", "AskUserQuestion", one)
        for asked in questions_of(call):
            assert asked.text and asked.choices
        options = options_of(one.get("permission_suggestions"))
        for option, _ in options:
            assert verdict_of(option.id, options, call)["behavior"] in ("allow", "deny")
        usage = usage_of(one, total_cost(one))
        assert usage.cost is None or usage.cost >= 0
        assert all(isinstance(text, str) for text in (text_of(one), error_of(one), models_of(one)))
