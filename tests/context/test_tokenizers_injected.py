"""A tokenizer of the host is the only one used, and gets the model's name."""

from __future__ import annotations

from typing import Any

from ostler import Agent, tool
from ostler.schema.usage import Usage
from ostler.testkit import Call, ScriptedModel, Turn
from ostler.testkit.fakes import FixedTokenizer
from tests.context.test_policy_layers import Seen

RULES = {
    "window": {"tokens": 1_000, "reserve": 100},
    "summaries": {"automatic": False},
    "reminders": {"repetition": False},
}


@tool
async def count() -> str:
    """Counts."""
    return "one two three"


def steps(number: int) -> list[Any]:
    call = Turn(calls=(Call("count"),), usage=Usage(source="unknown"))
    return [*[call] * number, "done"]


async def test_every_number_is_that_of_the_hosts_tokenizer() -> None:
    model = ScriptedModel(steps(6))
    tokenizer = FixedTokenizer(text=10, message=100)
    async with Agent(model, tools=[count], context=RULES, tokenizer=tokenizer) as agent:
        seen = Seen(agent)
        await agent.run("go")
        said = len(agent.messages)
    traces = list(seen.traces())
    assert [trace["tokens"]["messages"] for trace in traces[:4]] == [100, 300, 500, 700]
    assert all(trace["tokens"]["messages"] == 100 * trace["messages"][0] for trace in traces)
    assert max(len(request.transcript) for request in model.requests) <= 9 < said
    assert {trace["counted"][0] for trace in traces} == {"tokenizer"}


async def test_the_tokenizer_gets_the_name_of_the_current_model() -> None:
    tokenizer = FixedTokenizer()
    async with Agent(ScriptedModel(["a"], name="one/model"), context=RULES, tokenizer=tokenizer) as agent:
        await agent.run("go")
        assert set(tokenizer.models) == {"one/model"}
        tokenizer.models.clear()
        agent.model = ScriptedModel(["b"], name="two/model")
        await agent.run("go on")
    assert set(tokenizer.models) == {"two/model"}
