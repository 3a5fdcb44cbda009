"""A conversation over HTTP: a session, a prompt, a stream, a question, an answer."""

from __future__ import annotations

from pathlib import Path

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.models.scripted import Call
from ostler.schema.outcomes import NeedUser, Question
from tests.server.served import serving, text


async def test_a_prompt_becomes_a_run_that_can_be_followed_and_resumed_exactly(tmp_path: Path) -> None:
    async with serving(tmp_path, Call("hold"), "all done") as served:
        session = await served.new_session("go")
        seen = []
        async with served.stream(f"sessions/{session}/events") as events:
            async for event in events:
                seen.append(event)
                if event["type"] == "tool_started":
                    break
        last = [event["seq"] for event in seen if "id:" in event][-1]
        served.go_on.set()
        async with served.stream(f"sessions/{session}/events", last_event_id=str(last)) as events:
            async for event in events:
                seen.append(event)
                if event["type"] == "run_ended":
                    break
        facts = [event for event in seen if "id:" in event]
        assert [int(fact["id:"]) for fact in facts] == [fact["seq"] for fact in facts]
        assert [fact["seq"] for fact in facts] == list(range(1, len(facts) + 1))
        page = await served.get(f"sessions/{session}/events", limit=1000)
        assert [fact["seq"] for fact in page["facts"]] == [fact["seq"] for fact in facts]
        assert not page["has_more"]


async def test_an_answered_question_continues_the_run(tmp_path: Path) -> None:
    @tool
    async def ask() -> NeedUser:
        return NeedUser(Question("Which colour?"))

    def bring_question(harness: Harness) -> None:
        harness.set_tools([ask])

    async with serving(tmp_path, Call("ask"), "blue it is", change=bring_question) as served:
        session = await served.new_session("paint")
        await served.rest(session)
        facts = (await served.get(f"sessions/{session}/events"))["facts"]
        (asked,) = [fact for fact in facts if fact["type"] == "question_asked"]
        settled = await served.ask(session, "answer", question=asked["id"], answer="blue")
        assert settled["state"] == "settled"
        assert settled["fact"]["type"] == "question_answered"
        await served.rest(session)
        facts = (await served.get(f"sessions/{session}/events"))["facts"]
        assert facts[-1]["type"] == "run_ended"


async def test_a_prompt_waits_its_turn_and_a_steer_reaches_the_run(tmp_path: Path) -> None:
    async with serving(tmp_path, Call("hold"), "first done", "second done") as served:
        session = await served.new_session("first")
        await served.busy.wait()
        queued = await served.ask(session, "prompt", content=text("second"), wait=0)
        assert queued["state"] == "waiting"
        await served.ask(session, "steer", content=text("mind the gap"), wait=0)
        served.go_on.set()
        async with served.stream(f"sessions/{session}/events") as events:
            ends = 0
            said = []
            async for event in events:
                if event["type"] == "user_message":
                    said.append(event["content"][0]["text"])
                ends += event["type"] == "run_ended"
                if ends == 2:
                    break
        assert said == ["first", "mind the gap", "second"]
