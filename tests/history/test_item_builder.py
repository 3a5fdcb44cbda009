"""The projection of events to items: every event type is handled, and deltas are cheap."""

from __future__ import annotations

import msgspec

from ostler.history.item_builder import NOT_SHOWN, ItemBuilder, items_of
from ostler.history.items import (
    CallItem,
    Changed,
    ChildItem,
    Closed,
    Grown,
    NoticeItem,
    Opened,
    PathMoved,
    QuestionItem,
    TextItem,
)
from ostler.schema import events
from ostler.schema.events import EVENT_TYPES
from ostler.schema.messages import Text
from ostler.schema.outcomes import Question
from tests.support.stored import facts_of


def test_every_event_type_makes_items_or_has_a_reason_not_to() -> None:
    handled = {tag for tag, event in EVENT_TYPES.items() if event in ItemBuilder().handlers}
    assert handled.isdisjoint(NOT_SHOWN)
    assert handled | set(NOT_SHOWN) == set(EVENT_TYPES)
    assert all(NOT_SHOWN.values())


def test_a_delta_grows_the_item_and_the_message_closes_it() -> None:
    builder = ItemBuilder("open")
    first = builder.apply([events.TextDelta("m", 0, 0, "One "), events.TextDelta("m", 0, 4, "way.")])
    assert isinstance(first[0], Opened)
    assert first[1:] == [Grown("text:m:0", "text", "way.")]
    (item,) = builder.open_items()
    assert isinstance(item, TextItem) and item.text == "One way." and not item.complete
    (closed,) = builder.apply([events.AssistantMessage("m", (Text("One way."),), "end")])
    assert isinstance(closed, Closed) and isinstance(closed.item, TextItem) and closed.item.complete
    assert builder.open_items() == builder.items() == []


def test_streamed_text_that_the_message_lacks_is_hidden() -> None:
    builder = ItemBuilder()
    builder.apply([events.TextDelta("m", 0, 0, "Secret")])
    changes = builder.apply([events.AssistantMessage("m", (Text("Secret"),), "end", suppressed=True)])
    assert [change.item.hidden for change in changes if isinstance(change, Closed)] == [False, True]
    (notice,) = builder.items()
    assert isinstance(notice, NoticeItem) and notice.code == "withheld"


def test_a_childs_question_is_an_item_of_the_session() -> None:
    builder = ItemBuilder("open")
    asked = events.QuestionAsked("q_1", Question("May it?"), call="call_9")
    (line,) = facts_of(asked, session="ses_2")[-1:]
    builder.apply(
        [
            events.ToolCalled("call_1", "delegate", {}, 1),
            events.ChildStarted("call_1", "ses_2", "critic", "Judge it"),
        ]
    )
    (opened,) = builder.apply([events.ChildEvent("call_1", "ses_2", msgspec.Raw(line.line()))])
    assert isinstance(opened, Opened) and isinstance(opened.item, QuestionItem)
    assert (opened.item.session, opened.item.agent) == ("ses_2", "critic")
    assert opened.item.asked is not None and opened.item.asked.call == ""
    (closed,) = builder.apply(
        [events.ChildEvent("call_1", "ses_2", events.QuestionAnswered("q_1", "declined"))]
    )
    assert isinstance(closed, Closed) and isinstance(closed.item, QuestionItem)
    assert closed.item.state == "declined"


def test_children_of_a_call_are_opened_and_closed_on_their_own() -> None:
    builder = ItemBuilder()
    facts = facts_of(
        events.ToolCalled("call_1", "delegate", {}, 1),
        events.ChildStarted("call_1", "ses_2", "critic", "Judge it"),
        events.ChildEnded("call_1", "ses_2", "completed"),
    )
    changes = builder.apply(facts)
    kinds = [type(change) for change in changes if isinstance(getattr(change, "item", None), ChildItem)]
    assert kinds == [Opened, Closed]
    (call,) = builder.items()
    assert isinstance(call, CallItem) and [child.status for child in call.children] == ["completed"]


def test_items_of_other_branches_stay_reachable() -> None:
    facts = facts_of(
        events.UserMessage((Text("one"),)),
        events.AssistantMessage("m", (Text("two"),), "end"),
    )
    builder = ItemBuilder()
    builder.apply(facts)
    first = next(fact.seq for fact in facts if fact.type == "user_message")
    assert builder.apply([events.LeafMoved(first)]) == [PathMoved(first)]
    assert [item.seq for item in builder.items()] == [first]
    assert len(builder.items(all_branches=True)) == 2
    assert [item.seq for item in builder.items_at(first)] == [first]
    assert len(items_of(facts)) == len(items_of(facts, all_branches=True)) == 2


def test_a_revised_message_of_a_terminal_agent_changes_its_item() -> None:
    builder = ItemBuilder("open")
    facts = facts_of(events.AssistantMessage("", (Text("Think"),), "end"))
    builder.apply(facts)
    (changed,) = builder.apply([events.MessageRevised(facts[-1].seq, (Text("Thinking done"),))])
    assert isinstance(changed, Changed) and isinstance(changed.item, TextItem)
    assert (changed.item.text, changed.item.revised) == ("Thinking done", True)


def test_a_call_stays_open_while_the_agent_writes() -> None:
    """Its messages belong to no model call, and neither do its calls."""
    builder = ItemBuilder()
    builder.apply(
        facts_of(
            events.ToolCalled("call_1", "bash", {"command": "make"}, 1),
            events.ToolStarted("call_1", "bash"),
            events.AssistantMessage("", (Text("It runs."),), "end"),
        )
    )
    call, text = builder.items()
    assert isinstance(call, CallItem) and call.stage == "running"
    assert isinstance(text, TextItem) and text.text == "It runs."
