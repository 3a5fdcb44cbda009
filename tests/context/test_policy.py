"""The policy: layers, errors, and the effect of every field."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ostler.context.builder import ContextBuilder, ModelRoom
from ostler.context.compaction import ChapterTool
from ostler.context.policy import ContextPolicy, Results, merged
from ostler.context.session_context import SessionContext, follow_policy
from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.run_state import REMIND_AT
from ostler.core.tool import ResultLimits
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import ConfigurationError
from ostler.schema.events import Limits
from ostler.schema.messages import Message, Reasoning, as_content
from ostler.sessions.session import create_session
from ostler.tools.todo import todo
from tests.context.test_session_context import UNCOUNTED, Words, compacting, context, count, steps
from tests.support.running import Ran, run, started

Effect = Callable[[], Awaitable[None]]
EFFECTS: dict[str, Effect] = {}
FIELDS = [
    f"{group.name}.{field.name}"
    for group in msgspec.structs.fields(ContextPolicy)
    for field in msgspec.structs.fields(group.type)
]


def of(field: str) -> Callable[[Effect], Effect]:
    def register(effect: Effect) -> Effect:
        assert field not in EFFECTS
        EFFECTS[field] = effect
        return effect

    return register


@pytest.mark.parametrize("field", FIELDS)
async def test_each_rule_of_the_policy_has_its_effect(field: str) -> None:
    await EFFECTS[field]()


def test_layers_are_merged_field_by_field() -> None:
    policy = merged(
        {"window": {"tokens": 1000}, "must_keep": {"tools": ["a", "b"]}},
        {"window": {"reserve": 10}, "must_keep": {"tools": ["c"]}},
    )
    assert (policy.window.tokens, policy.window.reserve, policy.must_keep.tools) == (1000, 10, ("c",))
    assert merged() == ContextPolicy()
    one, other = ({"tool_history": {"by_tool": {name: "cut"}}} for name in ("bash", "grep"))
    assert merged(one, other).tool_history.by_tool == {"bash": "cut", "grep": "cut"}


def test_contradicting_rules_are_reported_with_their_origins() -> None:
    with pytest.raises(ConfigurationError) as caught:
        merged({"summaries": {"at": 0.5}}, {"summaries": {"keep": 0.6}}, places=("a.toml", "--context"))
    assert str(caught.value) == (
        "context.summaries.keep (0.6, from --context) must be less than "
        "context.summaries.at (0.5, from a.toml)"
    )
    with pytest.raises(ConfigurationError, match=r"at \(0.1, from the run\)"):
        SessionContext(agent={"summaries": {"keep": 0.3}}).for_run({"summaries": {"at": 0.1}})
    with pytest.raises(ConfigurationError, match=r"keep \(0.25, from the defaults\)"):
        SessionContext().for_run({"summaries": {"at": 0.1}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"window": 5},
        {"window": {"tokens": 0}},
        {"window": {"tokens": 100, "reserve": 100}},
        {"windows": {}},
        {"summaries": {"att": 0.5}},
        {"summaries": {"at": 0.2, "keep": 0.3}},
        {"tool_history": {"results": "gone"}},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        merged(wrong)
    with pytest.raises(ConfigurationError):
        follow_policy(Harness(ScriptedModel()), merged(wrong))


def traces(ran: Ran) -> list[dict[str, Any]]:
    return [called.trace for called in ran.all(events.ModelCalled) if called.purpose == "step"]


def last_messages(ran: Ran) -> list[Message]:
    return list(ran.model.requests[-1].transcript)


async def prompted(script: list[Any], *prompts: str, window: int = 4000, **policy: Any) -> Ran:
    ran = await started(script, tools=[count], context=context(window, **policy))
    for prompt in prompts:
        await ran.session.prompt(as_content(prompt))
    return ran


# --- the window -------------------------------------------------------------------------------------


def windowed(largest: int, window: dict[str, Any]) -> ContextBuilder:
    return ContextBuilder(merged({"window": window}), Words(), lambda model: ModelRoom(largest))


@of("window.tokens")
async def the_window_defaults_to_the_models() -> None:
    for window, tokens in (({"reserve": 20}, 4000), ({"reserve": 20, "tokens": 300}, 300)):
        ran = await run(compacting(steps(9, "done")), tools=[count], context=windowed(4000, window))
        assert {trace["tokens"]["window"] for trace in traces(ran)} == {tokens}
        assert bool(ran.all(events.Compacted)) == (tokens == 300)


@of("window.reserve")
async def what_is_reserved_is_free_in_every_request() -> None:
    for window, reserve in (({}, 200), ({"reserve": 100}, 100)):
        ran = await run(compacting(steps(9, "done")), tools=[count], context=windowed(400, window))
        assert {trace["tokens"]["reserve"] for trace in traces(ran)} == {reserve}
        assert max(trace["tokens"]["all"] for trace in traces(ran)) <= 400 - reserve


# --- calls of earlier runs --------------------------------------------------------------------------


async def results_sent(**rules: Any) -> list[bool]:
    """Of four runs with one call each, the last one open: which results are sent in full."""
    script = [part for n in range(4) for part in (Call("count", {"n": n}), f"answer {n}")]
    ran = await prompted(script, "a", "b", "c", "d", tool_history=rules)
    return [f"w{n}_20" in str(last_messages(ran)) for n in range(4)]


@of("tool_history.results")
async def results_of_earlier_runs_are_cut_or_dropped() -> None:
    assert await results_sent() == [True] * 4
    assert await results_sent(results="cut", cut_to=1) == [False, False, True, True]
    assert await results_sent(results="dropped") == [False, False, True, True]


@of("tool_history.keep_runs")
async def earlier_runs_are_sent_in_full() -> None:
    assert await results_sent(results="dropped", keep_runs=0) == [False, False, False, True]
    assert await results_sent(results="dropped", keep_runs=2) == [False, True, True, True]


@of("tool_history.keep_calls")
async def earlier_calls_are_sent_in_full() -> None:
    assert await results_sent(results="dropped", keep_runs=0, keep_calls=2) == [False, True, True, True]


@of("tool_history.by_tool")
async def a_tool_may_have_its_own_rule() -> None:
    assert await results_sent(results="dropped", by_tool={"count": "full"}) == [True] * 4
    assert await results_sent(by_tool={"count": "dropped"}) == [False, False, True, True]


@of("tool_history.cut_to")
async def a_cut_result_keeps_its_beginning_and_its_end() -> None:
    sizes = []
    for cut_to in (2, 20):
        script = [Call("count"), "answer", "b", "c"]
        ran = await prompted(script, "a", "b", "c", tool_history={"results": "cut", "cut_to": cut_to})
        (result,) = [message for message in last_messages(ran) if message.role == "tool"]
        assert "omitted" in str(result) and "0_39" in str(result)[-100:]
        sizes.append(len(str(result)))
    assert sizes[0] < sizes[1] < 600


# --- what must be kept ------------------------------------------------------------------------------

NO_SUMMARIES = {"summaries": {"automatic": False}, "tool_history": {"cut_to": 2}}


@of("must_keep.last_prompt")
async def the_prompt_is_sent_until_the_end_of_the_run() -> None:
    for keep in (True, False):
        ran = await prompted(steps(30, "done"), "first", window=400, **NO_SUMMARIES)
        assert "first" in [message.text for message in last_messages(ran)]
        rules = {**NO_SUMMARIES, "must_keep": {"last_prompt": keep}}
        ran = await prompted(steps(30, "done"), "first", window=400, **rules)
        assert ("first" in [message.text for message in last_messages(ran)]) is keep


@of("must_keep.first_prompt")
async def the_first_prompt_is_sent_if_required() -> None:
    for keep in (True, False):
        rules = {**NO_SUMMARIES, "must_keep": {"first_prompt": keep}}
        ran = await prompted([*steps(1, "a"), *steps(30, "b")], "first", "second", window=400, **rules)
        texts = [message.text for message in last_messages(ran)]
        assert "second" in texts and ("first" in texts) is keep


@of("must_keep.tools")
async def calls_of_a_tool_are_sent_in_full_if_required() -> None:
    @tool
    async def law() -> str:
        """Says what holds."""
        return "thou shalt " * 20

    for tools in ((), ("law",)):
        rules = context(400, **NO_SUMMARIES, must_keep={"tools": tools})
        ran = await run([Call("law"), *steps(30, "done")], tools=[law, count], context=rules)
        whole = [one for one in last_messages(ran) if one.role == "tool" and "thou shalt " * 20 in str(one)]
        assert bool(whole) == bool(tools)


@of("reasoning.keep")
async def reasoning_of_older_answers_is_left_out() -> None:
    for keep, number in ((None, 3), (1, 1), (0, 0)):
        script = [Turn(f"{n}", reasoning="hm") for n in range(3)]
        ran = await prompted([*script, "done"], "a", "b", "c", "d", reasoning={"keep": keep})
        blocks = [block for message in last_messages(ran) for block in message.content]
        assert sum(isinstance(block, Reasoning) for block in blocks) == number


# --- results ----------------------------------------------------------------------------------------


async def result_of(text: str, **results: Any) -> tuple[str, Ran]:
    @tool
    async def say() -> str:
        """Says it."""
        return text

    model = ScriptedModel([Call("say"), "done"])
    harness = Harness(model)
    harness.set_tools([say])
    follow_policy(harness, merged({"results": results} if results else {}))
    ran = await started(model)
    session = await create_session(ran.session.journal.store, harness)
    session.subscribe(ran.seen.extend)
    await session.prompt(as_content("go"))
    (result,) = ran.all(events.ToolResultFact)
    if result.output is not None:
        store = session.journal.store
        assert (await store.read_blob(session.id, result.output.id)).decode() == text
    return ran.results()[0], ran


@of("results.characters")
async def a_long_result_is_cut_in_the_middle_and_kept_whole() -> None:
    defaults = ResultLimits()
    assert (Results().characters, Results().lines) == (defaults.characters, defaults.lines)
    text = "a" * 500 + "b" * 500
    assert (await result_of(text))[0] == text
    shortened, _ = await result_of(text, characters=100)
    assert shortened.startswith("a" * 50 + "\n\n[… 900 characters left out; read blob:")
    assert shortened.endswith("…]\n\n" + "b" * 50)


@of("results.lines")
async def a_result_of_many_lines_is_cut_in_the_middle() -> None:
    text = "\n".join(f"line {n}" for n in range(100))
    assert (await result_of(text))[0] == (await result_of(text, lines=100))[0] == text
    shortened, _ = await result_of(text, lines=5)
    assert shortened.splitlines()[:3] == ["line 0", "line 1", "line 2"]
    assert shortened.splitlines()[-2:] == ["line 98", "line 99"]
    assert len([line for line in shortened.splitlines() if line.startswith("line")]) == 5


# --- summaries --------------------------------------------------------------------------------------


async def compactions(number: int = 12, **summaries: Any) -> Ran:
    return await run(
        compacting(steps(number, "done")), tools=[count], context=context(400, summaries=summaries)
    )


@of("summaries.automatic")
async def nothing_is_compacted_by_itself_if_that_is_not_wanted() -> None:
    assert (await compactions()).all(events.Compacted)
    assert not (await compactions(automatic=False)).all(events.Compacted)


@of("summaries.at")
async def the_share_says_when_it_is_time() -> None:
    early, late = await compactions(at=0.4), await compactions(at=0.9)
    assert early.all(events.Compacted)[0].tokens_before < late.all(events.Compacted)[0].tokens_before


@of("summaries.keep")
async def the_share_says_how_much_stays_word_for_word() -> None:
    little, much = await compactions(keep=0.05), await compactions(keep=0.6)
    assert little.all(events.Compacted)[0].tokens_after < much.all(events.Compacted)[0].tokens_after


@of("summaries.model")
async def another_model_may_write_them() -> None:
    writer = ScriptedModel(["Task: count."] * 9, name="cheap/model")
    ran = await run(
        steps(12, "done"),
        tools=[count],
        context=context(400, summaries={"model": "cheap/model"}),
        make_model=lambda name: {"cheap/model": writer}[name],
    )
    models_called = {called.purpose: called.model for called in ran.all(events.ModelCalled)}
    assert models_called == {"step": "scripted/model", "compaction": "cheap/model"}
    assert ran.all(events.Compacted)


@of("summaries.longest")
async def a_summary_is_asked_for_and_cut_at_its_longest() -> None:
    for longest in (4000, 10):
        model = ScriptedModel(
            [
                lambda request, n=n: (
                    "word " * 40
                    if "You write a summary" in request.system
                    else Turn(calls=(Call("count", {"n": n}),), usage=UNCOUNTED)
                )
                for n in range(12)
            ]
            + ["done"]
        )
        ran = await run(model, tools=[count], context=context(400, summaries={"longest": longest}))
        (request, *_) = [one for one in model.requests if "You write a summary" in one.system]
        assert request.max_output_tokens == longest
        summary = ran.all(events.Compacted)[0].summary.split("\n\n")[0]
        assert (len(summary) > 100) == (longest == 4000)


# --- checkpoints ------------------------------------------------------------------------------------


@of("checkpoints.offered")
async def the_model_can_close_a_chapter_if_that_is_offered() -> None:
    for offered in (True, False):
        harness = Harness(ScriptedModel())
        harness.set_tools([count])
        follow_policy(harness, merged({"checkpoints": {"offered": offered}}))
        assert ("close_chapter" in harness.tools) is offered


@of("checkpoints.keep_calls")
async def so_many_calls_before_the_end_of_a_chapter_stay() -> None:
    for keep in (0, 3):
        rules = context(4000, checkpoints={"offered": True, "keep_calls": keep})
        close = Turn(calls=(Call("close_chapter", {"summary": "counted"}),), usage=UNCOUNTED)
        ran = await run([*steps(5), close, "done"], tools=[count, ChapterTool(50)], context=rules)
        assert sum(len(message.calls) for message in last_messages(ran)) == keep + 1


# --- reminders --------------------------------------------------------------------------------------


def reminded(ran: Ran) -> list[list[str]]:
    return [trace.get("reminders", []) for trace in traces(ran)]


@of("reminders.repetition")
async def a_repeated_call_causes_a_reminder() -> None:
    for wanted in (True, False):
        rules = context(4000, reminders={"repetition": wanted})
        ran = await run([*[Call("count")] * REMIND_AT, "done"], tools=[count], context=rules)
        assert reminded(ran)[-1] == (["repetition"] if wanted else [])


@of("reminders.last_steps")
async def the_end_of_a_run_is_announced() -> None:
    for last, texts in ((0, 0), (1, 1), (3, 3)):
        rules = context(4000, reminders={"last_steps": last})
        ran = await run(steps(4, "done"), tools=[count], context=rules, limits=Limits(steps=5))
        assert sum(names == ["last_steps"] for names in reminded(ran)) == texts


@of("reminders.todo_every")
async def an_open_list_is_shown_again() -> None:
    for every, texts in ((0, []), (2, [2, 4]), (3, [3])):
        rules = context(4000, reminders={"todo_every": every})
        script = [Call("todo", {"items": [{"text": "sow thyme"}]}), *steps(3, "done")]
        ran = await run(script, tools=[count, todo], context=rules)
        assert [number for number, names in enumerate(reminded(ran), 1) if "todo" in names] == texts
        assert all("sow thyme" in ran.model.requests[number - 1].tail[-1].text for number in texts)
