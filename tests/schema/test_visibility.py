from __future__ import annotations

import pytest

from ostler.schema import events
from ostler.schema.events import EVENT_TYPES, AssistantMessage, Event, ExtensionEntry, UserMessage
from ostler.schema.facts import UnknownEvent, decode_event
from ostler.schema.messages import Image, Reasoning, Text, ToolCall
from ostler.schema.visibility import Visibility, opens_with, visibility_of
from tests.support.paths import GOLDEN

SENT = Visibility(stored=True, shown=True, sent=True, live=True)
FACT = Visibility(stored=True, shown=True, sent=False, live=True)
INTERNAL = Visibility(stored=True, shown=False, sent=False, live=True)
SENT_ONLY = Visibility(stored=True, shown=False, sent=True, live=True)
LIVE_ONLY = Visibility(stored=False, shown=True, sent=False, live=True)

EXPECTED = {
    "session_started": FACT,
    "session_renamed": FACT,
    "labelled": FACT,
    "leaf_moved": FACT,
    "settings_changed": INTERNAL,
    "request_refused": FACT,
    "prompts_held": FACT,
    "prompts_released": FACT,
    "run_started": FACT,
    "user_message": SENT,
    "step_started": FACT,
    "model_called": INTERNAL,
    "usage": FACT,
    "assistant_message": SENT,
    "model_failed": FACT,
    "tool_called": FACT,
    "tool_started": FACT,
    "child_started": FACT,
    "child_used": FACT,
    "child_ended": FACT,
    "tool_deferred": FACT,
    "tool_result": SENT,
    "step_ended": FACT,
    "question_asked": FACT,
    "question_answered": FACT,
    "permission_remembered": FACT,
    "run_waiting": FACT,
    "run_resumed": FACT,
    "run_ended": FACT,
    "history_replaced": SENT,
    "compacted": SENT,
    "compaction_undone": FACT,
    "branch_collapsed": SENT,
    "extension_entry": FACT,
    "extension_state": INTERNAL,
    "todo_updated": FACT,
    "source_cited": FACT,
    "warned": FACT,
    "audited": INTERNAL,
    "delivered": INTERNAL,
    "message_revised": FACT,
    "text_delta": LIVE_ONLY,
    "reasoning_delta": LIVE_ONLY,
    "tool_input_started": LIVE_ONLY,
    "tool_input_delta": LIVE_ONLY,
    "tool_input_ended": LIVE_ONLY,
    "tool_output": LIVE_ONLY,
    "child_event": LIVE_ONLY,
    "live_value": LIVE_ONLY,
    "printed": LIVE_ONLY,
    "command_ran": FACT,
    "store_failed": LIVE_ONLY,
    "stream_incomplete": LIVE_ONLY,
    "caught_up": LIVE_ONLY,
    "session_listed": LIVE_ONLY,
}
GOLDEN_FILE = GOLDEN / "events-v1.jsonl"
UNMARKED = {
    event.type: event
    for line in reversed(GOLDEN_FILE.read_bytes().splitlines())
    if isinstance(event := decode_event(line), Event)
}


def answer(*content: events.Block, suppressed: bool = False) -> AssistantMessage:
    return AssistantMessage("mc_1", content, "end", suppressed=suppressed)


def test_every_event_type_has_an_expected_visibility() -> None:
    assert set(EXPECTED) == set(EVENT_TYPES)


@pytest.mark.parametrize("tag", EXPECTED)
def test_an_unmarked_event_has_the_visibility_of_its_type(tag: str) -> None:
    assert visibility_of(UNMARKED[tag]) == EXPECTED[tag]


def test_a_hidden_user_message_is_sent_but_not_shown() -> None:
    assert visibility_of(UserMessage((Text("x"),), hidden=True)) == SENT_ONLY


@pytest.mark.parametrize("content", [(), (Text(""),), (Text(" \n"), Text("\t"))])
def test_a_blank_answer_is_stored_but_not_sent(content: tuple[Text, ...]) -> None:
    assert visibility_of(answer(*content)) == FACT
    assert visibility_of(answer(*content, suppressed=True)).sent is False


@pytest.mark.parametrize(
    "block", [Text("x"), Reasoning("hm"), ToolCall("call_1", "read", "{}"), Image("image/png", "aGk=")]
)
def test_an_answer_with_any_content_is_sent(block: events.Block) -> None:
    assert visibility_of(answer(Text(""), block)) == SENT


def test_a_suppressed_answer_is_sent_but_not_shown() -> None:
    assert visibility_of(answer(Text("x"), suppressed=True)) == SENT_ONLY


def test_an_extension_entry_is_sent_only_if_it_has_content() -> None:
    assert visibility_of(ExtensionEntry("todo", "note", told=(Text("x"),))) == SENT
    assert visibility_of(ExtensionEntry("todo", "note", data={"text": "x"})) == FACT


def test_an_unknown_event_is_stored_but_not_shown() -> None:
    assert visibility_of(UnknownEvent("hologram_shown", b'{"type":"hologram_shown"}')) == INTERNAL


def test_opening_a_session_reads_its_entries_and_lasting_records() -> None:
    needed = {tag for tag, event_type in EVENT_TYPES.items() if opens_with(event_type)}
    entries = {tag for tag, event_type in EVENT_TYPES.items() if issubclass(event_type, events.Entry)}
    assert needed - entries == {
        "session_started",
        "session_renamed",
        "labelled",
        "leaf_moved",
        "settings_changed",
        "prompts_held",
        "prompts_released",
        "extension_state",
        "permission_remembered",
        "run_ended",
        "message_revised",
    }
    assert entries - needed == {"tool_called"}, "its message says the same"
    assert opens_with(None), "an unknown event may be an entry"
