"""The token counts of a request: the parts add up, and a request that does not fit reports them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.context import builder
from ostler.context.builder import ContextBuilder, ModelRoom
from ostler.context.calibration import MIN_SAMPLES, Account, Coefficient, corrected_count, since_reported
from ostler.context.policy import ContextPolicy, Window
from ostler.context.providers import ContextProvider
from ostler.core.context import BuiltContext, ContextInput, Count
from ostler.core.model import ModelRequest
from ostler.core.transcript import Transcript
from ostler.history.context_trace import context_steps
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.events import Limits
from ostler.schema.messages import Image, Message, as_content, user
from ostler.schema.usage import Usage
from ostler.sessions.session import open_session
from ostler.store.memory import MemoryStore
from tests.context.test_session_context import Words, context, count, steps
from tests.context.test_window import POLICIES, histories
from tests.support.running import Ran, run, started

FENCES = [
    ContextProvider("rules", lambda request: "be kind", "system"),
    ContextProvider("clock", lambda request: "it is noon", "end"),
]
PARTS = ("fixed", "fences", "reminders", "messages")


@given(st.lists(st.integers(0, 10_000), max_size=6), st.floats(0.5, 3))
def test_corrected_parts_add_up_to_the_corrected_sum(parts: list[int], value: float) -> None:
    coefficient = Coefficient(value, MIN_SAMPLES)
    whole = coefficient.applied(Count(sum(parts), "estimated", "low"))
    assert sum(corrected_count(parts, coefficient)) == whole.tokens
    assert corrected_count(parts, Coefficient()) == parts


@given(st.lists(st.integers(0, 5_000), min_size=5, max_size=5), st.floats(0.5, 3))
def test_what_fits_as_it_is_counted_fits_as_it_is_traced(sizes: list[int], value: float) -> None:
    fixed, fences, reminders, messages, spare = sizes
    account = Account(10, 1, fixed, fences, reminders, messages, messages + spare)
    traced = account.traced(Coefficient(value, MIN_SAMPLES))
    assert traced["messages"] <= traced["room"]
    assert sum(traced.get(part, 0) for part in PARTS) == traced["all"]


def test_what_a_vendor_counted_is_as_certain_as_the_share_of_what_is_new() -> None:
    def confidence(new: int, of_new: Any = "low") -> str:
        return since_reported(1000, Count(new, "estimated", of_new)).confidence

    assert [confidence(new) for new in (0, 100, 500, 1000)] == ["high", "high", "medium", "low"]
    assert confidence(1000, "high") == "high"
    assert since_reported(1000, Count(10, "estimated", "low")).tokens == 1010


def twice(request: ModelRequest) -> Turn:
    """A vendor that has twice as many tokens as we count."""
    words = len(request.system.split()) + sum(
        Words().message(message, "").tokens for message in (*request.transcript, *request.tail)
    )
    call = Call("count", {"n": len(request.transcript)})
    return Turn(calls=(call,), usage=Usage(input_tokens=2 * words))


def traces(ran: Ran) -> list[dict[str, Any]]:
    return [called.trace for called in ran.all(events.ModelCalled) if called.trace]


async def calibrated(store: MemoryStore | None = None) -> Ran:
    """After eight steps, of which the last ones were corrected."""
    rules = context(4000, fences=FENCES)
    limits = Limits(steps=8)
    return await run([twice] * 9, tools=[count], context=rules, limits=limits, store=store, system="Help.")


async def test_the_parts_in_a_trace_are_corrected_as_their_sum_is() -> None:
    last = traces(await calibrated())[-1]
    assert last["counted"][0] == "calibrated"
    tokens, counted = last["tokens"], last["estimate"]["tokens"]
    assert tokens["reminders"] and tokens["fences"]
    assert sum(tokens[part] for part in PARTS) == tokens["all"] > 1.9 * counted
    assert tokens["messages"] <= tokens["room"]
    assert sum(size for _, size, _ in last["fences"]) <= tokens["fences"]


async def test_a_reopened_session_restores_the_calibration() -> None:
    store = MemoryStore()
    ran = await calibrated(store)
    await ran.session.close()
    session = await open_session(store, ran.session.id, ran.session.harness)
    session.harness.context = context(4000, fences=FENCES)
    session.harness.limits = Limits()
    session.harness.model = ScriptedModel(["x"])
    seen: list[Any] = []
    session.subscribe(seen.extend)
    await session.continue_()
    (called,) = [fact.event for fact in seen if fact.type == "model_called"]
    assert called.trace["counted"] == ["calibrated", "high"]
    assert called.trace["tokens"]["all"] > 1.9 * called.trace["estimate"]["tokens"]


async def test_only_the_newest_facts_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    ran = await calibrated(store)
    monkeypatch.setattr(builder, "LOOKED_BACK", 5)
    ran.session.harness.context = context(4000, fences=FENCES)
    ran.session.harness.limits = Limits()
    ran.session.harness.model = ScriptedModel(["x"])
    await ran.session.prompt(as_content("more"))
    assert traces(ran)[-1]["counted"][0] == "tokenizer"


async def test_a_released_builder_is_unsubscribed() -> None:
    builder_under_test = context(4000, fences=FENCES)
    ran = await started(["a"], context=builder_under_test)
    before = len(ran.session.journal._publisher)
    await ran.session.prompt(as_content("go"))
    assert len(ran.session.journal._publisher) == before + 1
    builder_under_test.release()
    assert len(ran.session.journal._publisher) == before


async def test_a_picture_makes_the_whole_sum_less_certain() -> None:
    class Unsure(Words):
        def message(self, message: Message, model: str) -> Count:
            is_shown = any(isinstance(block, Image) for block in message.content)
            return Count(9, "tokenizer", "low" if is_shown else "high")

    builder_under_test = context(4000, fences=FENCES)
    builder_under_test._tokenizer = Unsure()
    ran = await started(["a", "b"], context=builder_under_test)
    await ran.session.prompt(as_content("look"))
    await ran.session.prompt(as_content(["look", Image("image/png", url="https://example.org/a.png")]))
    assert [trace["counted"][1] for trace in traces(ran)] == ["high", "low"]


async def test_a_step_that_cannot_fit_reports_its_tokens() -> None:
    ran = await run(["never"], "word " * 500, context=context(fences=FENCES), system="Help me.")
    assert ran.status == "failed" and not ran.model.requests
    (ended,) = ran.all(events.StepEnded)
    prompt = next(fact.seq for fact in ran.facts if fact.type == "user_message")
    (builder_under_test,) = ended.trace["kept"]
    assert (builder_under_test["rule"], builder_under_test["first"]) == ("must_keep.last_prompt", prompt)
    tokens = ended.trace["tokens"]
    assert builder_under_test["tokens"] == tokens["messages"] > tokens["room"]
    reason = ran.quiet.reason  # type: ignore[union-attr]
    for hook_messages in (
        f"about {tokens['messages']} tokens (must_keep.last_prompt {tokens['messages']})",
        f"room for {tokens['room']}: of 400, 20 for the answer, 2 for system prompt and tools",
        f"{tokens['fences']} for context providers",
    ):
        assert hook_messages in reason
    (step,) = context_steps(ran.facts)
    assert (step.step, step.fits, step.model) == (1, False, "scripted/model")
    assert step.kept[0].rule == "must_keep.last_prompt"


async def test_the_trace_lists_what_each_rule_requires() -> None:
    policy = {"summaries": {"automatic": False}, "must_keep": {"tools": ["count"]}}
    ran = await run(steps(20), tools=[count], context=context(**policy))
    assert ran.status == "failed"
    ended = ran.all(events.StepEnded)[-1]
    rules = {one["rule"] for one in ended.trace["kept"]}
    assert rules == {"must_keep.last_prompt", "must_keep.tools"}
    assert sum(one["tokens"] for one in ended.trace["kept"]) <= ended.trace["tokens"]["messages"]
    assert context_steps(ran.facts)[-1].step == len(ran.model.requests) + 1


@settings(max_examples=60)
@given(
    histories(),
    POLICIES,
    st.integers(30, 600),
    st.integers(0, 40),
    st.sampled_from(["system", "prompt", "end"]),
    st.integers(0, 30),
)
async def test_a_context_always_fits_or_reports_a_problem(
    history: Any, policy: ContextPolicy, window: int, fenced: int, placement: Any, added: int
) -> None:
    messages, sources, prompts, steers = history
    policy = msgspec.structs.replace(policy, window=Window(reserve=10))
    fence = ContextProvider("notes", lambda request: "note " * fenced, placement, must_keep=fenced % 2 == 0)
    ran = await started([])
    hook_messages = (user("hook " * added),) if added else ()
    context_input = ContextInput(
        "Help me.", Transcript(messages), sources, prompts, (), ran.model, steers, hook_messages
    )

    async def built() -> BuiltContext:
        builder_under_test = ContextBuilder(policy, Words(), lambda model: ModelRoom(window), (fence,))
        return await builder_under_test.build(ran.session.journal, context_input)

    one, other = await built(), await built()
    assert (one.system, list(one.transcript), one.tail) == (other.system, list(other.transcript), other.tail)
    sent = sum(Words().message(message, "").tokens for message in (*one.transcript, *one.tail))
    sent += len(one.system.split())
    assert one.trace is not None and one.trace["tokens"]["all"] == sent
    assert (sent <= window - 10) is not bool(one.problem)
    assert bool(one.problem) is ("kept" in one.trace)
    if one.problem:
        assert all(
            rule in one.problem
            for rule in {builder_under_test["rule"] for builder_under_test in one.trace["kept"]}
        )
