"""Rules for one agent and for one run: settings, then the agent's, then the run's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ostler import Agent, tool
from ostler.core.tool import ToolContext
from ostler.schema import events
from ostler.schema.errors import ConfigurationError
from ostler.schema.facts import Fact
from ostler.schema.outcomes import NeedUser, Question
from ostler.sessions.agents import AgentSpec, DelegateTool
from ostler.testkit import Call, ScriptedModel, Turn
from ostler.testkit.vendors import FakeVendor, turn

SMALL = {"window": {"tokens": 60_000}}


@tool
async def count() -> str:
    """Counts."""
    return "one two three " * 100


class Seen:
    """The facts and calls of an agent and its children."""

    def __init__(self, agent: Agent) -> None:
        self.events: list[Any] = []
        agent.subscribe(lambda batch: self.events.extend(_event(one) for one in batch))

    def traces(self) -> Iterator[dict[str, Any]]:
        for event in self.events:
            if isinstance(event, events.ModelCalled):
                yield event.trace
            elif isinstance(event, events.ChildEvent) and isinstance(event.event, msgspec.Raw):
                line = msgspec.json.decode(event.event)
                if line["type"] == "model_called":
                    yield line["trace"]

    def policies(self) -> list[dict[str, Any]]:
        return [trace["policy"] for trace in self.traces() if "policy" in trace]


def _event(one: Fact | events.Event) -> Any:
    return one.event if isinstance(one, Fact) else one


async def test_rules_of_a_run_hold_for_that_run_only() -> None:
    async with Agent(ScriptedModel(["a", "b", "c"]), context=SMALL) as agent:
        seen = Seen(agent)
        await agent.run("one")
        await agent.run("two", context={"window": {"reserve": 500}, "reasoning": {"keep": 0}})
        await agent.run("three")
    assert seen.policies() == [
        SMALL,
        {"window": {"tokens": 60_000, "reserve": 500}, "reasoning": {"keep": 0}},
        SMALL,
    ]
    origins = [trace["from"] for trace in seen.traces()]
    assert origins[1] == {"window.tokens": "agent", "window.reserve": "run", "reasoning.keep": "run"}
    changed = [trace.get("changed") for trace in seen.traces()]
    assert changed == ["it is the first", "by another policy", "by another policy"]


async def test_the_settings_hold_for_a_program_that_names_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text("[context.window]\ntokens = 60000\n")
    with FakeVendor([turn("a")]) as vendor:
        named = Agent("openai/fake", base_url=vendor.chat_url, api_key="a-key")
        for made in (named, Agent(ScriptedModel(["a"]))):
            async with made as agent:
                seen = Seen(agent)
                await agent.run("go", context={"window": {"reserve": 500}})
            (trace,) = seen.traces()
            assert trace["from"] == {"window.tokens": "settings", "window.reserve": "run"}


async def test_results_and_chapters_follow_the_rules_of_a_run() -> None:
    model = ScriptedModel([Call("count"), "a", Call("count"), "b", "c"])
    rules = {"results": {"characters": 100}, "checkpoints": {"offered": True}}
    async with Agent(model, tools=[count]) as agent:
        await agent.run("one", context=rules)
        await agent.run("two")
        agent.tools = [count]
        await agent.run("three", context=rules)
    sizes = [len(str(one)) for one in model.requests[3].transcript if one.role == "tool"]
    assert sizes[0] < 500 < sizes[1]
    offered = [[one.name for one in request.tools] for request in model.requests]
    assert offered == [["close_chapter", "count"]] * 2 + [["count"]] * 2 + [["close_chapter", "count"]]


async def test_swapping_tools_does_not_remove_those_of_the_policy() -> None:
    model = ScriptedModel(["a"])
    async with Agent(model, tools=[count], context={"checkpoints": {"offered": True}}) as agent:
        agent.tools = [count]
        await agent.run("go")
    assert [one.name for one in model.requests[0].tools] == ["close_chapter", "count"]


async def test_a_resumed_run_uses_its_own_rules() -> None:
    @tool
    async def need(context: ToolContext) -> NeedUser | str:
        """Asks."""
        return str(context.answer) if context.answer else NeedUser(Question("Which?"))

    async with Agent(ScriptedModel([Call("need"), "a"]), tools=[need], wait_for_answers=True) as agent:
        seen = Seen(agent)
        await agent.run("go", context=SMALL)
        with pytest.raises(Exception, match="answer that first"):
            await agent.run("meanwhile")
        await agent.answer("this one")
    assert [trace["tokens"]["window"] for trace in seen.traces()] == [60_000] * 2


async def test_messages_dropped_by_one_runs_rules_return_in_the_next() -> None:
    script = [Turn("look", (Call("count"),)), "a", "b", "c"]
    model = ScriptedModel(script)
    async with Agent(model, tools=[count]) as agent:
        await agent.run("one")
        await agent.run("two", context={"tool_history": {"results": "dropped", "keep_runs": 0}})
        await agent.run("three")
    roles = [[message.role for message in request.transcript] for request in model.requests]
    assert "tool" not in roles[2] and "tool" in roles[3]


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({"windows": {}}, "no setting context.windows"),
        ({"window": 5}, "context.window must be a table"),
        ({"summaries": {"at": 0.2}}, r"keep \(0.25, from the defaults\) must be less than .* from the run"),
        ({"window": {"reserve": 70_000}}, r"\(70000, from the run\) must be less than .*, from the agent\)"),
    ],
)
async def test_rules_that_make_no_sense_begin_no_run(rules: Any, complaint: str) -> None:
    async with Agent(ScriptedModel(["a"]), context=SMALL) as agent:
        with pytest.raises(ConfigurationError, match=complaint):
            await agent.run("go", context=rules)
        assert (await agent.run("go")).text == "a"


def named(**context: Any) -> DelegateTool:
    spec = AgentSpec(name="counter", description="d", context=context, scope="user", source="here")
    return DelegateTool({"counter": spec})


async def test_an_agents_rules_override_the_settings_and_the_runs_override_both() -> None:
    task = Call("delegate", {"task": "count", "agent": "counter"})
    tools = [named(window={"tokens": 30_000, "reserve": 400}, checkpoints={"offered": True})]
    model = ScriptedModel([task, "3", "done"])
    async with Agent(model, tools=tools, context=SMALL) as agent:
        seen = Seen(agent)
        await agent.run("go", context={"window": {"reserve": 500}})
    assert [one["window"] for one in seen.policies()] == [
        {"tokens": 60_000, "reserve": 500},
        {"tokens": 30_000, "reserve": 500},
    ]
    offered = ["close_chapter" in [one.name for one in request.tools] for request in model.requests]
    assert offered == [False, True, False]


async def test_an_agent_whose_rules_contradict_its_parents_is_refused() -> None:
    task = Call("delegate", {"task": "count", "agent": "counter"})
    async with Agent(ScriptedModel([task, "done"]), tools=[named(summaries={"keep": 0.6})]) as agent:
        seen = Seen(agent)
        await agent.run("go", context={"summaries": {"at": 0.5}})
    (result,) = [one for one in seen.events if isinstance(one, events.ToolResultFact)]
    assert "keep (0.6, from the agent) must be less than" in result.content[0].text
