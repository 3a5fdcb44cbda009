"""The transcript view: closed items, the open tail, and notices."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ostler.history.items import CallItem, NoticeItem, ReasoningItem, RunEndItem, UserItem
from ostler.schema import events
from ostler.schema.errors import Failure
from ostler.schema.live_events import Event
from ostler.schema.messages import Reasoning, Text
from ostler.schema.outcomes import Question
from ostler.schema.usage import Totals, Usage
from ostler.tui.plain.items import child_line
from ostler.tui.render.items import ItemRenderer, OpenCallView, PrintableItem, notice
from ostler.tui.status import Activity
from ostler.tui.transcript import TranscriptView
from tests.tui.rows import call_item, plain


def thought(text: str, message: str = "m1", offset: int = 0) -> events.ReasoningDelta:
    return events.ReasoningDelta(message, 0, offset, text)


def text(text: str, message: str = "m1") -> events.TextDelta:
    return events.TextDelta(message, 0, 0, text)


def answer(text: str, stop: Any = "end", call: str = "m1") -> events.AssistantMessage:
    return events.AssistantMessage(call, (Text(text),), stop)


def notices(blocks: list[PrintableItem]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, NoticeItem)]


@pytest.mark.parametrize(("stop", "status"), [("length", "completed"), ("refusal", "refused")])
def test_the_reason_of_an_incomplete_answer_is_printed_once(stop: str, status: events.RunStatus) -> None:
    transcript = TranscriptView()
    ends: list[tuple[events.RunStatus, str]] = [(status, ""), ("limit", "no more steps")]
    for end, reason in ends:
        child_lines = transcript.take([answer("It is", stop), events.RunEnded(end, "no more steps")])
        assert isinstance(child_lines[-1], RunEndItem)
        assert child_lines[-1].reason == reason


def test_the_reason_of_a_stopped_call_is_printed_once() -> None:
    text = "Cancelled: the terminal was closed."
    for result in (text, f"{text}\nOutput before that:\none"):
        stopped = call_item("bash", "cancelled", {"command": "make"}, result=result, summary=text)
        rows = plain(ItemRenderer().closed(stopped, 80))
        assert sum(text in row for row in rows) == 1
        assert "make · stopped" in rows[1]


def test_a_cut_answer_has_a_reason() -> None:
    child_lines = notices(TranscriptView().take([answer("It is", "length")]))
    assert len(child_lines) == 1 and "max_output_tokens" in child_lines[0]
    assert "declined" in notices(TranscriptView().take([answer("", "refusal")]))[0]
    assert notices(TranscriptView().take([answer("It is so.")])) == []


def test_sources_are_listed_once_below_the_answer() -> None:
    cited = events.SourceCited("m1", "https://a.example/x", "A page")
    blocks = TranscriptView().take(
        [cited, events.SourceCited("m1", "https://b.example"), cited, answer("So.")]
    )
    assert notices(blocks) == ["sources:\nA page https://a.example/x\nhttps://b.example"]
    assert blocks[-1] == notice(notices(blocks)[0])


def test_a_steer_differs_from_a_prompt() -> None:
    transcript, rows = TranscriptView(), ItemRenderer()
    prompt, steer = transcript.take(
        [events.UserMessage((Text("go"),)), events.UserMessage((Text("left"),), source="steer")]
    )
    assert isinstance(steer, UserItem) and steer.source == "steer"
    assert len(rows.closed(steer, 80)) == len(rows.closed(prompt, 80)) + 1


def test_an_answer_from_elsewhere_is_printed_without_secrets() -> None:
    def question_asked(id: str, **more: Any) -> events.QuestionAsked:
        return events.QuestionAsked(id, Question(text="Go on?", **more))

    transcript = TranscriptView()
    transcript.take(
        [
            question_asked("a", kind="permission"),
            question_asked("b", kind="permission"),
            question_asked("c", kind="text"),
        ]
    )
    assert transcript.take([events.QuestionAnswered("a", "answered", "yes")]) == []
    elsewhere = transcript.take([events.QuestionAnswered("b", "answered", "yes", by="ana")])
    assert notices(elsewhere) == ["Go on? → yes by ana"]
    assert notices(transcript.take([events.QuestionAnswered("c", "answered", {"n": 1})])) == [
        'Go on? → {"n":1}'
    ]
    transcript.take([question_asked("d", kind="text", secret=True)])
    assert "canary" not in str(transcript.take([events.QuestionAnswered("d", "answered", "canary")]))


def test_reasoning_is_folded_and_the_last_one_can_be_shown() -> None:
    transcript = TranscriptView()
    blocks = transcript.take(
        [
            thought("One "),
            thought("way.", offset=4),
            text("So."),
        ]
    )
    assert [type(block) for block in blocks] == [ReasoningItem]
    assert transcript.last_reasoning == "One way."
    transcript.take([events.AssistantMessage("m2", (Reasoning("Another."), Text("No.")), "end")])
    assert transcript.last_reasoning == "Another."


def test_unknown_token_counts_are_reported() -> None:
    ended = events.RunEnded("completed", own=Totals(model_calls=1, usage=Usage(cost=None)))
    (receipt,) = TranscriptView().take([ended])
    assert plain(ItemRenderer().closed(receipt, 50))[-1] == "✓ completed · tokens unknown"


def test_reasoning_differs_from_prompts_without_colours() -> None:
    rows = plain(ItemRenderer().reasoning("One way.", 50))
    assert rows == ["", "╭─ thought 2 words", "│ One way.", "╰─"]


# --- children -----------------------------------------------------------------------------------------


def child_lines(block: CallItem) -> tuple[str, ...]:
    return tuple(
        f"{child.agent or 'child'}: {child_line(child)}".removesuffix(": ") for child in block.children
    )


def test_the_newest_words_of_a_child_are_shown() -> None:
    transcript = TranscriptView(lambda: 0.0)
    transcript.take([events.ToolCalled("c1", "delegate", {}, 1), events.ToolStarted("c1", "delegate")])
    transcript.take([events.ChildStarted("c1", "s1", "reviewer", "Read it")])
    words = " ".join(f"word{number}" for number in range(60))
    saying = msgspec.Raw(msgspec.json.encode(text(words, "m")))
    transcript.take([events.ChildEvent("c1", "s1", saying)])
    (call,) = transcript.tail()
    (row,) = [row for row in plain(ItemRenderer().opened(call, 60, 20)) if "⚙" in row]
    assert row.startswith("│ ⚙ reviewer: …") and row.endswith(" word58 word59")
    assert len(row) == 60


def test_children_are_listed_in_their_call_with_their_cost() -> None:
    transcript = TranscriptView(lambda: 0.0)
    transcript.take(
        [events.ToolCalled("c1", "delegate", {"task": "look"}, 1), events.ToolStarted("c1", "delegate")]
    )
    transcript.take(
        [events.ChildStarted("c1", "s1", "reviewer", "Read\nit all"), events.ChildStarted("c1", "s2")]
    )

    def lines() -> tuple[str, ...]:
        (call,) = transcript.tail()
        assert isinstance(call, OpenCallView)
        return child_lines(call.item)

    assert lines() == ("reviewer: Read it all", "child")

    def child(event: Event) -> events.ChildEvent:
        return events.ChildEvent("c1", "s1", msgspec.Raw(msgspec.json.encode(event)))

    transcript.take([child(text("It is\nfine", "m")), child(text(" so far", "m"))])
    assert lines()[0] == "reviewer: fine so far"
    transcript.take([child(events.ToolCalled("x", "read", {"path": "a.py"}, 1))])
    assert lines()[0] == "reviewer: read a.py"
    used = Totals(tool_calls=2, usage=Usage(input_tokens=10, cost=0.5))
    transcript.take([events.ChildEnded("c1", "s1", "completed", used)])
    assert lines()[0] == "reviewer: completed · 2 calls · $0.50"
    (closed,) = transcript.take([events.ToolResultFact("c1", "delegate", (Text("Fine."),))])
    assert isinstance(closed, CallItem)
    assert child_lines(closed)[0] == "reviewer: completed · 2 calls · $0.50"
    (row,) = [row for row in plain(ItemRenderer().closed(closed, 80)) if "⚙" in row]
    assert "$0.50" in row


def test_a_driven_agent_is_listed_in_its_call_with_its_cost() -> None:
    transcript = TranscriptView(lambda: 0.0)
    transcript.take([events.ToolCalled("c1", "agent", {}, 1), events.ToolStarted("c1", "agent")])
    transcript.take([events.ChildStarted("c1", "s1", "claude", "Read it")])
    transcript.take([events.ChildUsed("c1", "s1", Usage(input_tokens=10, cost=0.5))])
    transcript.take([events.ChildEnded("c1", "s1", "completed")])
    (closed,) = transcript.take([events.ToolResultFact("c1", "agent", (Text("Fine."),))])
    assert isinstance(closed, CallItem)
    assert child_lines(closed) == ("claude: completed · $0.50",)


# --- what is going on -----------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def follow() -> Callable[..., str]:
    """The activity after these events."""
    clock = Clock()
    transcript = TranscriptView(clock)
    activity = Activity(transcript, clock)

    def take(*batch: Event, later: float = 0.0) -> str:
        for event in batch:
            activity.take(event)
        transcript.take(batch)
        clock.now += later
        return activity.words

    return take


def test_every_stage_of_a_run_has_a_status_text(follow: Callable[..., str]) -> None:
    assert follow() == ""
    assert follow(events.RunStarted("1", "/", "a/b")) == "starting"
    assert follow(events.ModelCalled("m1", "a/b", "")) == "asking a/b"
    failed = events.ModelFailed("m1", Failure("overloaded", "busy"), retry_in=7.5)
    assert follow(failed) == "retrying in 8 s"
    assert follow(later=7.0) == "retrying in 1 s"
    assert follow(later=1.0) == "retrying"
    assert follow(events.ModelCalled("m2", "a/b", "", attempt=2)) == "asking a/b"
    assert follow(thought("hm", "m2")) == "thinking"
    assert follow(text("so", "m2")) == "answering"
    assert follow(events.ToolInputStarted("m2", 0, "c1", "write")) == "writing a call of write"
    assert follow(events.ToolInputDelta("m2", 0, "c1", 0, '{"path": "a.py", "con')) == "writing a.py"
    follow(answer("so", "tool_calls", "m2"), events.ToolCalled("c1", "write", {"path": "a.py"}, 1))
    question_asked = events.QuestionAsked("q1", Question(kind="permission", text="May it?"), "c1")
    assert follow(question_asked) == "waiting for you"
    assert follow(events.QuestionAnswered("q1", "answered", "yes")) != "waiting for you"
    assert follow(events.ToolStarted("c1", "write")) == "running write a.py"
    bash = events.ToolCalled("c2", "bash", {"command": "make test"}, 1)
    assert follow(bash, events.ToolStarted("c2", "bash")) == "running 2 calls"
    assert follow(events.ToolResultFact("c1", "write")) == "running bash make test"
    follow(events.ToolResultFact("c2", "bash"))
    assert follow(events.ModelCalled("m3", "a/b", "", purpose="compaction")) == "compacting"
    assert follow(events.RunWaiting("pending")) == "waiting for a result"
    assert follow(events.RunEnded("completed")) == ""


# --- long sessions --------------------------------------------------------------------------------------


def test_closed_items_take_no_memory() -> None:
    transcript = TranscriptView()

    def step(number: int) -> None:
        message, call = f"m{number}", f"c{number}"
        transcript.take([thought("hm " * 50, message), text("word " * 100, message)])
        transcript.take(
            [answer("word " * 100, "tool_calls", message), events.ToolCalled(call, "bash", {}, 1)]
        )
        transcript.take([events.ToolStarted(call, "bash"), events.ToolOutput(call, 0, "out\n" * 100)])
        transcript.take([events.ToolResultFact(call, "bash", (Text("out\n" * 100),))])

    def used_memory() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    for number in range(50):
        step(number)
    tracemalloc.start()
    try:
        before = used_memory()
        for number in range(50, 550):
            step(number)
        assert used_memory() - before < 20_000
    finally:
        tracemalloc.stop()
