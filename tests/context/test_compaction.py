"""What a compaction keeps verbatim, and how it handles unusual histories."""

from __future__ import annotations

import asyncio
from typing import Any

from ostler.context.builder import ModelRoom
from ostler.context.session_context import SessionContext
from ostler.core.function_tool import tool
from ostler.core.model import ModelRequest
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import ContextOverflow
from ostler.schema.messages import File, Image, Message, Text, as_content, user
from ostler.schema.requests import Compact, Steer
from ostler.store.memory import MemoryStore
from tests.context.test_session_context import UNCOUNTED, Words, compacting, context, count, steps
from tests.support.running import Ran, run, started


def last_context(ran: Ran) -> str:
    return "\n".join(str(message) for message in ran.model.requests[-1].transcript)


async def test_steering_messages_are_kept_verbatim() -> None:
    store = MemoryStore()

    @tool
    async def interrupt(context: Any) -> str:
        await store.submit(context.session, Steer(id="s1", content=as_content("no, sow sage in rows")))
        return "said"

    script = [*steps(2), Call("interrupt"), *steps(25, "done")]
    ran = await started(compacting(script), tools=[count, interrupt], context=context(), store=store)
    await ran.session.prompt(as_content("sow thyme"))
    assert len(ran.all(events.Compacted)) > 1
    assert ran.all(events.Compacted)[-1].summary.endswith("word for word:\nsow thyme\n\nno, sow sage in rows")
    assert "no, sow sage in rows" in last_context(ran)


async def test_a_new_request_takes_the_place_of_the_one_before() -> None:
    ran = await started(
        compacting([*steps(12, "done"), *steps(12, "done")]), tools=[count], context=context()
    )
    await ran.session.prompt(as_content("sow thyme"))
    await ran.session.prompt(as_content("water it"))
    assert ran.all(events.Compacted)[-1].summary.endswith("word for word:\nwater it")


async def test_pictures_of_a_request_that_is_summed_up_are_missed_not_forgotten() -> None:
    ran = await started(compacting(steps(12, "done")), tools=[count], context=context())
    await ran.session.prompt((Text("what is this?"), Image("image/png", url="https://example.org/herb.png")))
    assert "what is this?\n[1 pictures or files that came with it" in ran.all(events.Compacted)[-1].summary


async def test_required_calls_survive_every_compaction() -> None:
    @tool
    async def plan_beds() -> str:
        """Plans."""
        return "thyme in the north"

    script = [Turn(calls=(Call("plan_beds"),), usage=UNCOUNTED), *steps(25, "done")]
    rules = {"must_keep": {"tools": ["plan_beds"]}}
    ran = await run(compacting(script), tools=[count, plan_beds], context=context(**rules))
    assert len(ran.all(events.Compacted)) > 1
    assert last_context(ran).count("plan_beds returned: thyme in the north") == 1
    requests_sent = [
        one.transcript[0].text for one in ran.model.requests if "You write a summary" in one.system
    ]
    assert "word for word" not in requests_sent[-1]


async def test_a_history_from_elsewhere_is_compacted_in_whole() -> None:
    store = MemoryStore()
    ran = await started(compacting(["one", "two"]), context=context(4000), store=store)
    words = " ".join(f"w{number}" for number in range(100))
    earlier = (user(words), Message("assistant", (Text(words),)))
    await ran.session.replace_history(earlier * 6)
    await store.submit(ran.session.id, Compact(id="c1"))
    await ran.session.prompt(as_content("go"))
    assert "belong to one entry" in ran.all(events.RequestRefused)[0].reason
    await store.submit(ran.session.id, Compact(id="c2"))
    await ran.session.prompt(as_content("go on"))
    assert ran.all(events.Compacted)[0].tokens_after < 100
    assert len(ran.model.requests[-1].transcript) == 3


async def test_the_newest_results_are_cut_when_they_alone_are_too_much() -> None:
    calls = tuple(Call("count", {"n": n}) for n in range(12))
    rules = {"tool_history": {"cut_to": 2}}
    ran = await run(
        compacting([Turn(calls=calls, usage=UNCOUNTED), "done"]), tools=[count], context=context(**rules)
    )
    assert ran.status == "completed"
    trace = ran.all(events.ModelCalled)[-1].trace
    assert trace["tokens"]["all"] <= 380
    assert [(one["action"], one["rule"]) for one in trace["decisions"]] == [("cut", "room")]
    newest = ran.model.requests[-1].transcript[-1]
    assert all("w" in block.content[0].text for block in newest.content)  # type: ignore[union-attr]


async def test_as_soon_as_there_is_something_to_sum_up_it_is() -> None:
    @tool
    async def look() -> str:
        """Looks."""
        return " ".join(f"leaf{number}" for number in range(900))

    script = [Turn(calls=(Call("look"),), usage=UNCOUNTED) for _ in range(4)]
    ran = await run(compacting([*script, "done"]), tools=[look], context=context(1000))
    assert ran.status == "completed"
    assert ran.model.requests[-1].transcript[0].text.endswith("word for word:\ngo")
    assert len(ran.all(events.Compacted)) > 1 and not ran.all(events.Warned)


async def test_a_summary_is_never_dropped_for_lack_of_room() -> None:
    script = [*steps(5), [Call("count", {"n": n}) for n in range(20)], "done"]
    ran = await run(compacting(script), tools=[count], context=context(tool_history={"cut_to": 2}))
    assert ran.status == "completed" and ran.all(events.Compacted)
    decisions = [
        one for called in ran.all(events.ModelCalled) for one in (called.trace or {}).get("decisions", [])
    ]
    assert decisions
    requests_sent = [one for one in ran.model.requests if "You write a summary" not in one.system]
    assert all("go" in str(one.transcript[0]) for one in requests_sent)


async def test_after_an_overflow_the_messages_fit_with_any_system_prompt() -> None:
    script = [*steps(3), ContextOverflow("too long"), "done"]
    ran = await run(compacting(script), tools=[count], context=context(4000), system="Be kind. " * 500)
    assert ran.status == "completed"
    assert [one.by for one in ran.all(events.Compacted)] == ["overflow"]


async def test_an_answer_of_only_reasoning_is_dropped_when_stripped() -> None:
    thought = Turn(reasoning="thinking " * 20, text="")
    ran = await started([thought, "b", "c"], context=context(4000, reasoning={"keep": 0}))
    for prompt in ("a", "b", "c"):
        await ran.session.prompt(as_content(prompt))
    assert all(message.content for message in ran.model.requests[-1].transcript)


async def test_a_document_is_counted_before_it_is_called_easy() -> None:
    ran = await started(["Read."], context=SessionContext())
    await ran.session.prompt((Text("read"), File("application/pdf", "herbs.pdf", data="AAAA")))
    assert "at_most" not in ran.all(events.ModelCalled)[0].trace["tokens"]


async def test_a_run_can_be_cancelled_while_a_summary_is_written() -> None:
    writing = asyncio.Event()
    answers = iter(steps(12, "done"))

    def answer(request: ModelRequest) -> Any:
        if "You write a summary" not in request.system:
            return next(answers)
        writing.set()
        return Turn("Task", hangs=True)

    ran = await started(ScriptedModel([answer] * 100), tools=[count], context=context())
    running = asyncio.ensure_future(ran.session.prompt(as_content("go")))
    await asyncio.wait_for(writing.wait(), 60)
    ran.session.cancel("enough")
    ended = await asyncio.wait_for(running, 60)
    assert isinstance(ended, events.RunEnded) and (ended.status, ended.reason) == ("cancelled", "enough")
    assert not ran.all(events.Compacted)


async def test_the_record_is_cut_to_what_the_writer_of_the_summary_can_hold() -> None:
    def writes(request: ModelRequest) -> str:
        assert Words().message(request.transcript[0], "").tokens <= 110
        return "Task: count."

    writer = ScriptedModel([writes] * 20, name="small/model")
    small_context = context(900, summaries={"model": "small/model", "longest": 50})
    small_context._room_of = lambda model: ModelRoom(240 if model == "small/model" else 900)
    ran = await run(
        steps(30, "done"),
        tools=[count],
        context=small_context,
        make_model=lambda name: writer,
        system="Count.",
    )
    assert ran.status == "completed" and ran.all(events.Compacted)
    requests_sent = [one.trace for one in ran.all(events.ModelCalled) if one.purpose == "compaction"]
    assert requests_sent and all(one["tokens"]["all"] <= one["tokens"]["room"] for one in requests_sent)
    assert any(one["cut"] for one in requests_sent)
    assert all(
        "count" in one.transcript[0].text and "[…]" in one.transcript[0].text for one in writer.requests
    )
