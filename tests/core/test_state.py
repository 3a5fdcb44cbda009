"""Adding up the facts of long sessions, whose events are decoded a few hundred at a time."""

from __future__ import annotations

import pytest

from ostler.core.state import fold
from ostler.core.transcript import Transcript
from ostler.schema.errors import StoreCorrupt
from ostler.schema.events import AssistantMessage, Event, SessionStarted, ToolResultFact, UserMessage
from ostler.schema.facts import Fact, encode_event
from ostler.schema.messages import Text, ToolCall, ToolResult, user

CALLS = 450


def long_session() -> list[Fact]:
    events: list[Event] = [SessionStarted("/", "1"), UserMessage((Text("begin"),))]
    for number in range(CALLS):
        call = ToolCall(f"call_{number}", "ls", "{}")
        events.append(AssistantMessage(f"msg_{number}", (call,), "tool_calls"))
        events.append(ToolResultFact(call.id, "ls", (Text(f"result {number}"),)))
    return [
        Fact(seq, "ses_1", "run_1", seq, encode_event(event), parent=seq - 1 if seq > 1 else None)
        for seq, event in enumerate(events, 1)
    ]


def test_the_transcript_of_a_long_session_is_in_order() -> None:
    state = fold(long_session())
    assert [message.role for message in state.transcript] == ["user"] + ["assistant", "tool"] * CALLS
    results = [message.content for message in state.transcript if message.role == "tool"]
    assert results == [
        (ToolResult(f"call_{number}", "ls", (Text(f"result {number}"),)),) for number in range(CALLS)
    ]
    assert state.builder.sources == list(range(2, 2 * CALLS + 3))
    assert len(state.call_ids) == CALLS


@pytest.mark.parametrize("body", [b'{"type":"tool_result"}', b'{"type":"tool_result","call":"c","na'])
def test_a_damaged_fact_is_named_among_hundreds(body: bytes) -> None:
    facts = long_session()
    facts[700] = Fact(701, "ses_1", "run_1", 701, body, type="tool_result", parent=700)
    with pytest.raises(StoreCorrupt, match="fact 701 of session ses_1"):
        fold(facts)


def test_two_events_in_one_fact_are_an_error() -> None:
    facts = long_session()
    facts[700] = Fact(701, "ses_1", "run_1", 701, b",".join([facts[700].body] * 2), parent=700)
    with pytest.raises(StoreCorrupt, match="fact 701"):
        fold(facts)


def test_the_digest_of_a_long_transcript_is_the_same_however_it_grew() -> None:
    messages = [user(f"message {number}") for number in range(CALLS)]
    at_once, one_by_one = Transcript(messages), Transcript()
    for message in messages:
        one_by_one.append(message)
        one_by_one.digest()
    assert at_once.digest() == one_by_one.digest() != Transcript(messages[1:]).digest()
