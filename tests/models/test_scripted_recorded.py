"""The recorded model replays the answers of a log."""

from __future__ import annotations

from typing import Any

from ostler import Agent
from ostler.core.function_tool import tool
from ostler.core.model import ModelDone, ModelFailure, ModelRequest
from ostler.core.transcript import Transcript
from ostler.models.scripted import Call, RecordedModel, Turn
from ostler.schema.errors import Failure
from ostler.schema.events import AssistantMessage
from tests.support.running import run


@tool
async def double(number: int) -> str:
    """Doubles a number."""
    return str(2 * number)


async def answer(model: RecordedModel) -> list[Any]:
    request = ModelRequest("msg_now", model.name, Transcript())
    return [event async for batch in model.stream(request) for event in batch]


async def test_a_recorded_answer_is_streamed_and_ends_as_it_did() -> None:
    said = Turn("two words", calls=(Call("double", {"number": 4}, id="c1"),), reasoning="hm")
    ran = await run([said, "8"], tools=[double])
    model = RecordedModel(ran.facts)
    assert model.name == "scripted/model"
    *deltas, done = await answer(model)
    assert [delta.type for delta in deltas] == [
        "reasoning_delta",
        "text_delta",
        "tool_input_started",
        "tool_input_delta",
        "tool_input_ended",
    ]
    assert {delta.message for delta in deltas} == {"msg_now"}
    assert deltas[3].text == '{"number":4}'
    recorded = ran.all(AssistantMessage)[0]
    assert isinstance(done, ModelDone)
    assert (done.content, done.stop_reason) == (recorded.content, "tool_calls")
    assert (done.usage.input_tokens, done.request_id) == (10, "req_1")


async def test_a_recorded_failure_is_replayed_after_its_partial_answer() -> None:
    broken = Failure("stream_broken", "cut", stream_opened=True)
    ran = await run([Turn("half an ans", failure=broken)])
    text, failure = await answer(RecordedModel(ran.facts))
    assert text.text == "half an ans"
    assert failure == ModelFailure(broken, failure.usage)


async def test_a_call_that_the_log_does_not_see_the_end_of_was_interrupted() -> None:
    ran = await run(["never heard"])
    cut = [fact for fact in ran.facts if fact.type == "model_called"]
    (failure,) = await answer(RecordedModel(cut))
    assert isinstance(failure, ModelFailure)
    assert failure.failure.kind == "interrupted"


async def test_a_request_after_the_end_of_the_recording_fails() -> None:
    first = await run(["one"])
    model = RecordedModel(first.facts)
    await answer(model)
    (failure,) = await answer(model)
    assert "no answer number 2" in failure.failure.message
    assert len(model.requests) == 2


async def test_an_agent_works_with_a_recorded_model_as_with_the_real_one() -> None:
    script = [Call("double", {"number": 4}), Turn(failure=Failure("interrupted", "gone")), "It is 8."]
    ran = await run(script, tools=[double])
    agent = Agent(RecordedModel(ran.facts), tools=[double])
    assert (await agent.run("go")).text == "It is 8."
    facts = await (await agent.open()).journal.store.read(agent.session)
    assert [fact.type for fact in facts[1:]] == [fact.type for fact in ran.facts]
    await agent.close()
