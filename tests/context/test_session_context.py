"""A session's context: messages, compaction, context providers, reminders and the trace."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ostler.context.builder import ContextBuilder, ModelRoom
from ostler.context.policy import merged
from ostler.context.providers import ContextProvider
from ostler.core.context import Count
from ostler.core.function_tool import tool
from ostler.core.hooks import Hook, PlannedCompaction, Refuse, Summary
from ostler.core.model import ModelRequest, ToolOffer
from ostler.history.context_trace import context_steps
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import ContextOverflow, UsageError
from ostler.schema.events import Limits
from ostler.schema.messages import Message, as_content
from ostler.schema.requests import Compact, Steer, UndoCompaction
from ostler.schema.usage import Usage
from ostler.sessions.session import open_session
from ostler.store.memory import MemoryStore
from tests.support.running import Ran, run, started


class Words:
    """A word is a token; a message has one more."""

    def text(self, text: str, model: str) -> Count:
        return Count(len(text.split()), "tokenizer", "high")

    def message(self, message: Message, model: str) -> Count:
        words = sum(len(str(block).split()) for block in message.content)
        return Count(1 + words, "tokenizer", "high")

    def tools(self, offers: Sequence[ToolOffer], model: str) -> Count:
        return Count(0, "tokenizer", "high")


@tool
async def count(n: int = 0) -> str:
    """Returns many words."""
    return " ".join(f"w{n}_{i}" for i in range(40))


def context(window: int = 400, **policy: Any) -> ContextBuilder:
    fences = policy.pop("fences", ())
    reminders = policy.pop("own_reminders", None)
    rules = {"window": {"reserve": 20}, **policy}
    return ContextBuilder(merged(rules), Words(), lambda model: ModelRoom(window), fences, reminders)


UNCOUNTED = Usage(source="unknown")
"""Token counts for a vendor that does not report usage."""


def steps(number: int, *rest: Any) -> list[Any]:
    calls = (Turn(calls=(Call("count", {"n": n}),), usage=UNCOUNTED) for n in range(number))
    return [*calls, *rest]


def compacting(script: list[Any]) -> ScriptedModel:
    """Answers the script, and summaries when it is asked for one."""
    answers = iter(script)

    def answer(request: ModelRequest) -> Any:
        if "You write a summary" in request.system:
            return "Task: count. Done: some."
        return next(answers)

    return ScriptedModel([answer] * 500)


def context_of(ran: Ran, number: int) -> list[str]:
    return [message.text or str(len(message.content)) for message in ran.model.requests[number].transcript]


async def test_while_there_is_room_everything_is_sent_and_the_prefix_stays() -> None:
    ran = await run(steps(3, "done"), tools=[count], context=context(4000))
    traces = [called.trace for called in ran.all(events.ModelCalled)]
    assert [trace.get("changed") for trace in traces] == ["it is the first", None, None, None]
    assert all("decisions" not in trace for trace in traces)
    assert "policy" in traces[0] and "policy" not in traces[1]
    assert traces[-1]["tokens"]["all"] > traces[0]["tokens"]["all"]


async def test_the_context_is_compacted_before_it_overflows_and_the_run_continues() -> None:
    ran = await run(compacting(steps(12, "done")), tools=[count], context=context())
    assert ran.status == "completed"
    compactions = ran.all(events.Compacted)
    assert compactions
    for one in compactions:
        assert one.tokens_after < one.tokens_before and one.by == "automatic"
        assert "go" in one.summary.split("word for word:")[1]
    used = [called.trace["tokens"]["all"] for called in ran.all(events.ModelCalled) if called.trace]
    assert max(used) <= 380
    purposes = [called.purpose for called in ran.all(events.ModelCalled)]
    assert purposes.count("compaction") == len(compactions)


async def test_what_fences_take_is_no_room_either_when_it_is_time_to_compact() -> None:
    fence = ContextProvider("notes", lambda request: "note " * 150, "end", share=1.0, must_keep=True)
    ran = await run(compacting(steps(12, "done")), tools=[count], context=context(fences=(fence,)))
    assert ran.status == "completed" and ran.all(events.Compacted)
    traces = [called.trace for called in ran.all(events.ModelCalled) if called.purpose == "step"]
    assert not [trace for trace in traces if "decisions" in trace], (
        "messages that were sent are not cut before"
    )


async def test_a_summary_builds_on_the_one_before() -> None:
    ran = await run(compacting(steps(30, "done")), tools=[count], context=context())
    prompts_sent = [
        one.transcript[0].text for one in ran.model.requests if "You write a summary" in one.system
    ]
    assert len(prompts_sent) > 2
    assert "<earlier-summary>" not in prompts_sent[0] and all(
        "<earlier-summary>" in one for one in prompts_sent[1:]
    )


async def test_an_overflow_that_the_vendor_reports_is_tried_once_more_after_a_compaction() -> None:
    overflow = ContextOverflow("too long")
    ran = await run(compacting([*steps(3), overflow, "done"]), tools=[count], context=context(4000))
    assert ran.status == "completed"
    assert [one.by for one in ran.all(events.Compacted)] == ["overflow"]
    ran = await run(compacting([*steps(3), overflow, overflow]), tools=[count], context=context(4000))
    assert ran.status == "failed" and ran.quiet.failure.kind == "context_overflow"  # type: ignore[union-attr]


async def test_without_summaries_the_oldest_messages_are_cut_and_then_dropped() -> None:
    policy = {"summaries": {"automatic": False}, "tool_history": {"cut_to": 2}}
    ran = await run(steps(25, "done"), tools=[count], context=context(**policy))
    assert ran.status == "completed"
    last = ran.all(events.ModelCalled)[-1].trace
    assert last["tokens"]["all"] <= 380
    decisions = [one for called in ran.all(events.ModelCalled) for one in called.trace.get("decisions", [])]
    assert {one["action"] for one in decisions} == {"cut", "dropped"}
    assert {one["rule"] for one in decisions} == {"room"}
    request = ran.model.requests[-1]
    assert request.transcript[0].text.startswith("[") and any(m.text == "go" for m in request.transcript)
    calls = [call.id for message in request.transcript for call in message.calls]
    results = [block.call for m in request.transcript if m.role == "tool" for block in m.content]  # type: ignore[union-attr]
    assert calls == results


async def test_required_messages_that_do_not_fit_end_the_run_with_a_reason() -> None:
    ran = await run(["never"], "word " * 500, context=context())
    assert ran.status == "failed" and "has room for" in ran.quiet.reason  # type: ignore[union-attr]
    assert not ran.model.requests


async def test_another_process_tells_the_same() -> None:
    store = MemoryStore()
    script = steps(12, "done", "again")
    ran = await run(compacting(script), tools=[count], context=context(), store=store)
    await ran.session.prompt(as_content("more"))
    first = ran.model.requests[-1]
    await ran.session.close()
    session = await open_session(store, ran.session.id, ran.session.harness)
    session.harness.context = context()
    session.harness.model = model = ScriptedModel(["x"])
    await session.continue_()
    assert list(model.requests[0].transcript)[: len(first.transcript)] == list(first.transcript)


async def test_a_hook_may_refuse_a_compaction_or_write_it() -> None:
    seen: list[PlannedCompaction] = []

    def write(planned: PlannedCompaction) -> Summary:
        seen.append(planned)
        return Summary("by hand")

    hooks = [Hook("before_compact", write)]
    ran = await run(steps(10, "done"), tools=[count], context=context(), hooks=hooks)
    assert ran.status == "completed" and seen
    assert all(one.summary.startswith("by hand") for one in ran.all(events.Compacted))
    hooks = [Hook("before_compact", lambda planned: Refuse("not now"))]
    ran = await run(steps(10, "done"), tools=[count], context=context(), hooks=hooks)
    assert ran.status == "completed" and not ran.all(events.Compacted)
    assert any("not now" in warned.text for warned in ran.all(events.Warned))


async def test_a_compaction_that_does_not_shrink_is_refused() -> None:
    hooks = [Hook("before_compact", lambda planned: Summary("word " * 1000))]
    ran = await run(steps(10, "done"), tools=[count], context=context(), hooks=hooks)
    assert not ran.all(events.Compacted)
    assert any("would not shrink" in warned.text for warned in ran.all(events.Warned))


async def test_a_compaction_in_vain_is_not_tried_in_every_step() -> None:
    tried: list[PlannedCompaction] = []

    def refuse(planned: PlannedCompaction) -> Refuse:
        tried.append(planned)
        return Refuse("not now")

    ran = await run(
        steps(40, "done"), tools=[count], context=context(), hooks=[Hook("before_compact", refuse)]
    )
    assert ran.status == "completed" and 2 <= len(tried) <= 4


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ({"results": "full"}, [True, True, True]),
        ({"results": "cut", "cut_to": 1, "keep_runs": 1}, [False, True, True]),
        ({"results": "cut", "cut_to": 1, "keep_runs": 0}, [False, False, True]),
        ({"results": "cut", "cut_to": 1, "keep_runs": 0, "keep_calls": 1}, [False, True, True]),
        ({"by_tool": {"count": "cut"}, "cut_to": 1, "keep_runs": 0}, [False, False, True]),
        ({"by_tool": {"other": "cut"}, "cut_to": 1, "keep_runs": 0}, [True, True, True]),
    ],
)
async def test_calls_of_earlier_runs_follow_the_policy(rules: Any, kept: list[bool]) -> None:
    script = [Call("count", {"n": 0}), "a", Call("count", {"n": 1}), "b", Call("count", {"n": 2}), "c"]
    ran = await started(script, tools=[count], context=context(4000, tool_history=rules))
    for prompt in ("one", "two", "three"):
        await ran.session.prompt(as_content(prompt))
    results = [str(message) for message in ran.model.requests[-1].transcript if message.role == "tool"]
    assert [f"w{n}_20" in result for n, result in enumerate(results)] == kept


async def test_dropped_calls_lose_their_results_and_the_text_stays() -> None:
    script = [Turn("I look.", (Call("count"),)), "a", "b"]
    rules = {"results": "dropped", "keep_runs": 0}
    ran = await started(script, tools=[count], context=context(4000, tool_history=rules))
    for prompt in ("one", "two"):
        await ran.session.prompt(as_content(prompt))
    assert context_of(ran, -1) == ["one", "I look.", "a", "two"]


async def test_reasoning_of_older_answers_is_stripped() -> None:
    script = [Turn("a", reasoning="hm"), Turn("b", reasoning="hm"), "c"]
    ran = await started(script, context=context(4000, reasoning={"keep": 1}))
    for prompt in ("one", "two", "three"):
        await ran.session.prompt(as_content(prompt))
    answers = [message for message in ran.model.requests[-1].transcript if message.role == "assistant"]
    assert [len(message.content) for message in answers] == [1, 2]


async def test_context_providers_are_placed_by_priority_within_their_share() -> None:
    fences = [
        ContextProvider("rules", lambda request: "be kind", "system"),
        ContextProvider("memory", lambda request: "you like tea", "prompt", priority=1),
        ContextProvider("documents", lambda request: "word " * 300, "prompt", share=0.05),
        ContextProvider("clock", lambda request: "noon", "end"),
        ContextProvider("nothing", lambda request: None),
    ]
    ran = await run(steps(2, "done"), tools=[count], context=context(4000, fences=fences), system="You help.")
    request = ran.model.requests[-1]
    assert request.system == "You help.\n\n<rules>\nbe kind\n</rules>"
    before = request.transcript[0].text
    assert before.index("<memory>") < before.index("<documents>") and "[cut]" in before
    assert request.transcript[1].text == "go"
    assert [message.text for message in request.tail] == ["<clock>\nnoon\n</clock>"]
    trace = ran.all(events.ModelCalled)[-1].trace
    assert [kind for kind, *_ in trace["fences"]] == ["memory", "clock", "documents", "rules"]
    assert "nothing" not in before
    first = ran.model.requests[0].transcript
    assert list(request.transcript)[: len(first)] == list(first)


async def test_the_lowest_priority_provider_is_dropped_unless_required() -> None:
    fences = [
        ContextProvider("weak", lambda request: "word " * 300, share=1.0),
        ContextProvider("strong", lambda request: "word " * 200, share=1.0, must_keep=True),
    ]
    ran = await run(["done"], context=context(300, fences=fences))
    trace = ran.all(events.ModelCalled)[0].trace
    assert [kind for kind, *_ in trace["fences"]] == ["strong"]
    ((kind, size),) = trace["fences_left_out"]
    assert kind == "weak" and size > 200
    (step,) = context_steps(ran.facts)
    assert step.fences_left_out == (("weak", size),)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ContextProvider("Bad_Kind", lambda request: ""),
        lambda: ContextProvider("a", lambda request: "", share=0),
        lambda: ContextProvider("a", lambda request: "", share=1.1),
        lambda: context(
            fences=[ContextProvider("a", lambda request: ""), ContextProvider("a", lambda request: "")]
        ),
    ],
)
def test_a_fence_that_makes_no_sense_is_refused(make: Any) -> None:
    with pytest.raises(UsageError):
        make()


async def test_reminders_are_sent_at_the_end_and_never_stored() -> None:
    own = {"mine": lambda state: "remember the milk" if state.run.steps == 1 else None}
    ran = await run(
        steps(3, "done"), tools=[count], context=context(4000, own_reminders=own), limits=Limits(steps=4)
    )
    tails = ["".join(message.text for message in request.tail) for request in ran.model.requests]
    assert "milk" in tails[0] and "milk" not in "".join(tails[1:])
    assert "2 steps are left" in tails[2] and "last step" in tails[3]
    assert all("milk" not in message.text for message in ran.model.requests[-1].transcript)
    assert not [fact for fact in ran.facts if fact.type == "user_message" and b"milk" in fact.body]
    assert ran.all(events.ModelCalled)[0].trace["reminders"] == ["mine"]


async def test_an_undone_compaction_restores_the_full_context() -> None:
    store = MemoryStore()
    ran = await run(compacting(steps(12, "done")), tools=[count], context=context(), store=store)
    whole = [fact.seq for fact in ran.facts if fact.type == "compacted"]
    before = len(ran.session.state.transcript)
    for seq in whole:
        ran.session.journal.record(events.CompactionUndone(seq))
    await ran.session.journal.commit()
    await ran.session.journal.reload()
    assert len(ran.session.state.transcript) > before
    assert ran.session.state.transcript[0].text == "go"


async def test_anybody_may_have_it_compacted_and_have_that_undone() -> None:
    store = MemoryStore()
    ran = await run(compacting(steps(4, "done", "more")), tools=[count], context=context(4000), store=store)
    before = list(ran.session.state.transcript)
    await store.submit(ran.session.id, Compact(id="c1", instructions="keep the numbers"))
    await ran.session.advance()
    (compacted,) = ran.all(events.Compacted)
    assert (compacted.by, compacted.request) == ("user", "c1")
    assert "keep the numbers" in ran.model.requests[-1].transcript[0].text
    assert len(ran.session.state.transcript) == 2
    seq = next(fact.seq for fact in ran.facts if fact.type == "compacted")
    for number, request in enumerate((seq, seq, 1)):
        await store.submit(ran.session.id, UndoCompaction(id=f"u{number}", compaction=request))
    await ran.session.advance()
    assert list(ran.session.state.transcript) == before
    assert len(ran.all(events.RequestRefused)) == 2
    await ran.session.prompt(as_content("go on"))
    assert list(ran.model.requests[-1].transcript)[: len(before)] == before


async def test_from_outside_it_is_compacted_in_the_middle_of_a_run() -> None:
    store = MemoryStore()

    @tool
    async def ask_for_it(context: Any) -> str:
        await store.submit(context.session, Compact(id="c1"))
        for _ in range(50):
            await asyncio.sleep(0)
        return "asked"

    script = [*steps(3), Call("ask_for_it"), "done"]
    ran = await run(compacting(script), tools=[count, ask_for_it], context=context(4000), store=store)
    assert ran.status == "completed"
    assert [one.by for one in ran.all(events.Compacted)] == ["user"]
    assert await store.settlement(ran.session.id, "c1") is not None


async def test_what_the_vendor_counted_decides_and_costs_no_counting() -> None:
    counted: list[Message] = []

    class Watched(Words):
        def message(self, message: Message, model: str) -> Count:
            counted.append(message)
            return super().message(message, model)

    small, large = Usage(input_tokens=100, output_tokens=10), Usage(input_tokens=330, output_tokens=10)
    turns = [Turn(calls=(Call("count", {"n": n}),), usage=small) for n in range(5)]
    turns += [Turn(calls=(Call("count", {"n": 6}),), usage=large)]
    keeper = ContextBuilder(merged({"window": {"reserve": 20}}), Watched(), lambda model: ModelRoom(400))
    ran = await run(compacting([*turns, "done"]), tools=[count], context=keeper)
    traces = [called.trace for called in ran.all(events.ModelCalled) if called.trace]
    assert traces[1]["counted"] == ["reported", "high"] and traces[1]["tokens"]["all"] > 110
    assert len(ran.all(events.Compacted)) == 1
    assert len(counted) < 100


async def test_a_vendors_partial_count_is_not_used_for_the_whole() -> None:
    def tokens_of(request: ModelRequest) -> int:
        return sum(Words().message(message, "").tokens for message in request.transcript)

    def answer(request: ModelRequest, n: int) -> Turn:
        calls = (Call("count", {"n": n}),) if n < 25 else ()
        return Turn("next", calls, usage=Usage(input_tokens=tokens_of(request), output_tokens=3))

    store = MemoryStore()
    policy = {"summaries": {"automatic": False}, "tool_history": {"cut_to": 2}}
    script = [lambda request, n=n: answer(request, n) for n in range(26)]
    ran = await run(script, tools=[count], context=context(**policy), store=store)
    assert ran.status == "completed"
    last = list(ran.model.requests[-1].transcript)
    await ran.session.close()
    session = await open_session(store, ran.session.id, ran.session.harness)
    session.harness.context = context(**policy)
    session.harness.model = model = ScriptedModel(["x"])
    await session.continue_()
    assert tokens_of(model.requests[0]) <= 380
    assert list(model.requests[0].transcript)[: len(last)] == last


async def test_what_vendors_report_corrects_the_count() -> None:
    """This vendor has twice as many tokens as we count: half of what seems to fit does."""

    def twice(request: ModelRequest) -> Turn:
        words = len(request.system.split()) + sum(
            Words().message(message, "").tokens for message in (*request.transcript, *request.tail)
        )
        call = Call("count", {"n": len(request.transcript)})
        return Turn(calls=(call,), usage=Usage(input_tokens=2 * words))

    def answer(request: ModelRequest) -> Any:
        return "Task: count." if "You write a summary" in request.system else twice(request)

    fences = [ContextProvider("note", lambda request: "always here", "end")]  # so that everything is counted
    ran = await run(
        ScriptedModel([answer] * 100),
        tools=[count],
        context=context(900, fences=fences),
        limits=Limits(steps=40),
    )
    traces = [called.trace for called in ran.all(events.ModelCalled) if called.trace]
    assert traces[-1]["counted"][0] == "calibrated"
    reported = [used.usage.input_tokens for used in ran.all(events.UsageReported)]
    assert max(reported[10:]) <= 880


async def test_instructions_are_read_again_from_their_files_after_a_compaction() -> None:
    told_from = ["Be kind."]
    ran = await started(compacting(steps(12, "done")), tools=[count], context=context(), system="Be kind.")
    ran.session.harness.make_system = lambda instead: told_from[0]
    told_from[0] = "Be kind and brief."
    await ran.session.prompt(as_content("go"))
    requests = [one for one in ran.model.requests if "You write a summary" not in one.system]
    assert (requests[0].system, requests[-1].system) == ("Be kind.", "Be kind and brief.")


async def test_a_context_provider_that_fails_is_reported_and_omitted() -> None:
    def broken(request: Any) -> str:
        raise ValueError("no memory")

    ran = await run(["done"], context=context(4000, fences=[ContextProvider("memory", broken)]))
    assert ran.status == "completed"
    assert any(
        "the context provider memory failed: ValueError: no memory" in one.text
        for one in ran.all(events.Warned)
    )


async def test_files_of_earlier_compactions_are_carried_on() -> None:
    @tool
    async def read(path: str) -> str:
        """Returns many words."""
        return "word " * 60

    calls = [Turn(calls=(Call("read", {"path": f"{n}.py"}),), usage=UNCOUNTED) for n in range(20)]
    ran = await run(compacting([*calls, "done"]), tools=[read], context=context())
    first, *_, last = ran.all(events.Compacted)
    assert set(first.files) < set(last.files) and "0.py" in last.files


async def test_steering_messages_are_required_like_the_prompt() -> None:
    store = MemoryStore()

    @tool
    async def hear(context: Any) -> str:
        """A subscriber."""
        await store.submit(context.session, Steer(id="s1", content=as_content("sow sage in rows")))
        for _ in range(50):
            await asyncio.sleep(0)
        return "heard"

    for keep in (True, False):
        store = MemoryStore()
        rules = {"summaries": {"automatic": False}, "must_keep": {"last_prompt": keep}}
        script = [*steps(2), Turn(calls=(Call("hear"),), usage=UNCOUNTED), *steps(20, "done")]
        ran = await run(script, tools=[count, hear], context=context(**rules), store=store)
        texts = [message.text for message in ran.model.requests[-1].transcript]
        assert ran.status == "completed" and texts[0].startswith("[")
        assert ("sow sage in rows" in texts) is ("go" in texts) is keep
