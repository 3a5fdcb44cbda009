from __future__ import annotations

import pytest

from ostler.schema import events
from ostler.schema.events import EVENT_TYPES, AssistantMessage, Event, ExtensionEntry, UserMessage
from ostler.schema.facts import UnknownEvent, decode_event
from ostler.schema.messages import Image, Reasoning, Text, ToolCall
from ostler.schema.visibility import Visibility, opens_with, visibility_of
from tests.support.paths import GOLDEN

TOLD = Visibility(stored=True, shown=True, sent=True, live=True)
SHOWN = Visibility(stored=True, shown=True, sent=False, live=True)
BACKSTAGE = Visibility(stored=True, shown=False, sent=False, live=True)
UNSEEN = Visibility(stored=True, shown=False, sent=True, live=True)
LIVE_ONLY = Visibility(stored=False, shown=True, sent=False, live=True)

EXPECTED = {
    "session_started": SHOWN,
    "session_renamed": SHOWN,
    "labelled": SHOWN,
    "leaf_moved": SHOWN,
    "settings_changed": BACKSTAGE,
    "request_refused": SHOWN,
    "prompts_held": SHOWN,
    "prompts_released": SHOWN,
    "run_started": SHOWN,
    "user_message": TOLD,
    "step_started": SHOWN,
    "model_called": BACKSTAGE,
    "usage": SHOWN,
    "assistant_message": TOLD,
    "model_failed": SHOWN,
    "tool_called": SHOWN,
    "tool_started": SHOWN,
    "child_started": SHOWN,
    "child_used": SHOWN,
    "child_ended": SHOWN,
    "tool_deferred": SHOWN,
    "tool_result": TOLD,
    "step_ended": SHOWN,
    "question_asked": SHOWN,
    "question_answered": SHOWN,
    "permission_remembered": SHOWN,
    "run_waiting": SHOWN,
    "run_resumed": SHOWN,
    "run_ended": SHOWN,
    "history_replaced": TOLD,
    "compacted": TOLD,
    "compaction_undone": SHOWN,
    "branch_collapsed": TOLD,
    "extension_entry": SHOWN,
    "extension_state": BACKSTAGE,
    "todo_updated": SHOWN,
    "source_cited": SHOWN,
    "warned": SHOWN,
    "audited": BACKSTAGE,
    "delivered": BACKSTAGE,
    "message_revised": SHOWN,
    "text_delta": LIVE_ONLY,
    "reasoning_delta": LIVE_ONLY,
    "tool_input_started": LIVE_ONLY,
    "tool_input_delta": LIVE_ONLY,
    "tool_input_ended": LIVE_ONLY,
    "tool_output": LIVE_ONLY,
    "child_event": LIVE_ONLY,
    "live_value": LIVE_ONLY,
    "printed": LIVE_ONLY,
    "command_ran": SHOWN,
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
    assert visibility_of(UserMessage((Text("x"),), hidden=True)) == UNSEEN


@pytest.mark.parametrize("content", [(), (Text(""),), (Text(" \n"), Text("\t"))])
def test_a_blank_answer_is_stored_but_not_sent(content: tuple[Text, ...]) -> None:
    assert visibility_of(answer(*content)) == SHOWN
    assert visibility_of(answer(*content, suppressed=True)).sent is False


@pytest.mark.parametrize(
    "block", [Text("x"), Reasoning("hm"), ToolCall("call_1", "read", "{}"), Image("image/png", "aGk=")]
)
def test_an_answer_with_any_content_is_sent(block: events.Block) -> None:
    assert visibility_of(answer(Text(""), block)) == TOLD


def test_a_suppressed_answer_is_sent_but_not_shown() -> None:
    assert visibility_of(answer(Text("x"), suppressed=True)) == UNSEEN


def test_an_extension_entry_is_sent_only_if_it_has_content() -> None:
    assert visibility_of(ExtensionEntry("todo", "note", told=(Text("x"),))) == TOLD
    assert visibility_of(ExtensionEntry("todo", "note", data={"text": "x"})) == SHOWN


def test_an_unknown_event_is_stored_but_not_shown() -> None:
    assert visibility_of(UnknownEvent("hologram_shown", b'{"type":"hologram_shown"}')) == BACKSTAGE


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
