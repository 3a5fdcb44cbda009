"""For any history and policy, the plan fits or reports why, and keeps calls with their results."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.context.policy import ContextPolicy, merged
from ostler.context.selection import Conversation, plan, required_entries
from ostler.context.window import Tally, Window
from ostler.core.transcript import Transcript
from ostler.schema.messages import Message, Reasoning, Text, ToolCall, ToolResult

MODES = st.sampled_from(["full", "cut", "dropped"])
POLICIES = st.fixed_dictionaries(
    {
        "tool_history": st.fixed_dictionaries(
            {
                "results": MODES,
                "keep_runs": st.integers(0, 3),
                "keep_calls": st.integers(0, 3),
                "by_tool": st.dictionaries(st.sampled_from(["read", "bash"]), MODES),
                "cut_to": st.integers(1, 50),
            }
        ),
        "must_keep": st.fixed_dictionaries(
            {
                "last_prompt": st.booleans(),
                "first_prompt": st.booleans(),
                "tools": st.sampled_from([[], ["read"]]),
            }
        ),
        "reasoning": st.fixed_dictionaries({"keep": st.none() | st.integers(0, 3)}),
    }
).map(lambda layer: merged(layer))


def words(message: Message) -> int:
    return 1 + sum(len(str(block).split()) for block in message.content)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Message], list[int], set[int], set[int]]:
    messages: list[Message] = []
    prompts: set[int] = set()
    steers: set[int] = set()
    call = 0
    for _ in range(draw(st.integers(1, 5))):
        prompts.add(len(messages) + 1)
        messages.append(Message("user", (Text("ask " * draw(st.integers(1, 10))),)))
        for _ in range(draw(st.integers(0, 5))):
            calls = []
            for _ in range(draw(st.integers(1, 2))):
                call += 1
                calls.append(ToolCall(f"c{call}", draw(st.sampled_from(["read", "bash"])), "{}"))
            steering: list[Any] = [Text("look")] if draw(st.booleans()) else []
            thought: list[Any] = [Reasoning("hm " * 5)] if draw(st.booleans()) else []
            messages.append(Message("assistant", (*thought, *steering, *calls)))
            results = [
                ToolResult(one.id, one.name, (Text("word " * draw(st.integers(0, 60))),)) for one in calls
            ]
            messages.append(Message("tool", tuple(results)))
            if draw(st.integers(0, 9)) == 0:
                steers.add(len(messages) + 1)
                messages.append(Message("user", (Text(f"steer {len(messages)}"),)))
        messages.append(Message("assistant", (Text("answer"),)))
    if draw(st.booleans()):
        messages.pop()
    return messages, list(range(1, len(messages) + 1)), prompts, steers & set(range(len(messages) + 1))


@settings(max_examples=60)
@given(histories(), POLICIES, st.integers(0, 800))
def test_a_plan_fits_or_contains_only_required_messages(
    history: Any, policy: ContextPolicy, room: int
) -> None:
    messages, sources, prompts, steers = history
    counts = [words(message) for message in messages]
    conversation = Conversation(messages, sources, counts, prompts, words, steers)
    planned = plan(conversation, policy, room)
    assert calls_of(planned.messages) == results_of(planned.messages)
    assert planned.counts == [words(message) for message in planned.messages]
    assert len(planned.messages) == len(planned.sources)
    starts = [place for place, source in enumerate(sources) if source in prompts]
    if policy.must_keep.last_prompt:
        assert messages[starts[-1]] in planned.messages
        steering = [messages[seq - 1] for seq in steers if seq > sources[starts[-1]]]
        assert all(one in planned.messages for one in steering)
    if policy.must_keep.first_prompt:
        assert messages[starts[0]] in planned.messages
    for tool in policy.must_keep.tools:
        told_so = [block for m in planned.messages for block in m.content if isinstance(block, ToolResult)]
        there = [block for m in messages for block in m.content if isinstance(block, ToolResult)]
        assert [one for one in there if one.name == tool] == [one for one in told_so if one.name == tool]
    if sum(planned.counts) > room:  # then nothing but what must be kept is left, and the newest
        left = Conversation(planned.messages, planned.sources, planned.counts, prompts, words, steers)
        rules = [one.rule for one in required_entries(left, policy)]
        assert "newest" not in rules[:-1]
        assert sum(one.tokens for one in required_entries(left, policy)) == sum(planned.counts)
    assert plan(conversation, policy, room) == planned
    for one in planned.decisions:
        assert one.after < one.before


@settings(max_examples=60)
@given(histories(), POLICIES, st.integers(20, 400))
def test_the_window_is_the_same_in_one_call_or_many(history: Any, policy: ContextPolicy, room: int) -> None:
    messages, sources, prompts, _ = history
    grown, tally, window = Transcript(), Tally(words), Window(policy, words)
    visible = None
    for place, message in enumerate(messages):
        if message.role == "assistant":  # the model was asked here
            visible = window.show(conversation_of(grown, sources[:place], prompts, tally), grown, room, ())
        grown.append(message)
    visible = window.show(conversation_of(grown, sources, prompts, tally), grown, room, ())
    whole = Transcript(messages)
    at_once = Window(policy, words).show(
        conversation_of(whole, sources, prompts, Tally(words)), whole, room, ()
    )
    assert list(visible.transcript) == list(at_once.transcript)
    assert (visible.tokens, visible.decisions) == (at_once.tokens, at_once.decisions)


@settings(max_examples=60)
@given(histories(), st.integers(20, 400))
def test_the_prefix_stays_unless_the_window_reports_a_change(history: Any, room: int) -> None:
    messages, sources, prompts, _ = history
    grown, tally, window = Transcript(), Tally(words), Window(ContextPolicy(), words)
    before: list[Message] = []
    for place, message in enumerate(messages):
        if message.role == "assistant":
            visible = window.show(conversation_of(grown, sources[:place], prompts, tally), grown, room, ())
            now = list(visible.transcript)
            assert visible.changed or now[: len(before)] == before
            before = now
        grown.append(message)


def conversation_of(
    transcript: Transcript, sources: list[int], prompts: set[int], tally: Tally
) -> Conversation:
    tally.take(transcript)
    return Conversation(transcript.messages, sources, tally.counts, prompts & set(sources), words)


def calls_of(messages: list[Message]) -> list[str]:
    return sorted(call.id for message in messages for call in message.calls)


def results_of(messages: list[Message]) -> list[str]:
    blocks = [block for message in messages for block in message.content]
    return sorted(block.call for block in blocks if isinstance(block, ToolResult))
