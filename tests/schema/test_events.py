from __future__ import annotations

import json
import typing

import msgspec
import pytest
from hypothesis import given

from ostler.schema.errors import StoreCorrupt
from ostler.schema.events import EVENT_TYPES, Delta, Entry, Event, LiveEvent, Record
from ostler.schema.facts import Fact, UnknownEvent, decode_event, encode_event, type_of
from tests.support.event_strategies import any_event
from tests.support.paths import GOLDEN

GOLDEN_FILE = GOLDEN / "events-v1.jsonl"
LINES = GOLDEN_FILE.read_bytes().splitlines()
ENVELOPE = {"seq", "session", "run", "time", "parent", "origin", "type"}


def fact_of(body: bytes) -> Fact:
    return Fact(7, "ses_1", "run_1", 1_767_225_600_123, body, parent=6, origin="ses_0:3")


@given(any_event())
def test_every_event_comes_back_as_it_was_written(event: Event) -> None:
    assert decode_event(encode_event(event)) == event


@given(any_event())
def test_the_line_of_every_fact_is_one_json_object_with_event_and_envelope(event: Event) -> None:
    fact = Fact.of(event, seq=7, session="ses_1", run="run_1", time_ms=1_767_225_600_123, parent=6)
    line = fact.line()
    assert b"\n" not in line
    assert json.loads(line) == {**json.loads(encode_event(event)), **fact.envelope()}


def test_every_class_is_in_the_table_under_a_tag_of_its_own() -> None:
    def leaves(kind: type[Event]) -> list[type[Event]]:
        below = kind.__subclasses__()
        return [leaf for child in below for leaf in leaves(child)] if below else [kind]

    classes = leaves(Event)
    tags = [str(event_type.__struct_config__.tag) for event_type in classes]
    assert len(set(tags)) == len(tags)
    assert set(EVENT_TYPES.values()) == set(classes)
    assert all(EVENT_TYPES[tag] is event_type for tag, event_type in zip(tags, classes, strict=True))


@pytest.mark.parametrize("event_type", EVENT_TYPES.values(), ids=list(EVENT_TYPES))
def test_every_event_is_of_one_kind_and_leaves_the_envelope_its_names(event_type: type[Event]) -> None:
    assert sum(issubclass(event_type, kind) for kind in (Entry, Record, Delta, LiveEvent)) == 1
    assert not ENVELOPE & {field.encode_name for field in msgspec.structs.fields(event_type)}


@pytest.mark.parametrize("event_type", EVENT_TYPES.values(), ids=list(EVENT_TYPES))
def test_every_event_says_what_it_means(event_type: type[Event]) -> None:
    assert event_type.__doc__


@pytest.mark.parametrize("line", LINES, ids=[f"{n}-{type_of(line)}" for n, line in enumerate(LINES, 1)])
def test_events_of_the_first_version_are_read_and_written_unchanged(line: bytes) -> None:
    event = decode_event(line)
    assert isinstance(event, Event)
    assert encode_event(event) == line


def test_the_stored_lines_have_every_event_with_minimal_and_all_fields() -> None:
    seen: dict[str, list[set[str]]] = {}
    for line in LINES:
        fields = set(json.loads(line)) - {"type"}
        seen.setdefault(type_of(line), []).append(fields)
    assert set(seen) == set(EVENT_TYPES)
    for tag, event_type in EVENT_TYPES.items():
        fields = msgspec.structs.fields(event_type)
        assert {field.encode_name for field in fields if field.required} in seen[tag]
        assert set().union(*seen[tag]) >= {field.encode_name for field in fields}


def test_the_tag_of_a_stored_event_is_its_first_field() -> None:
    assert type_of(b'{"type":"usage","call":"x"}') == "usage"
    with pytest.raises(msgspec.ValidationError, match="begin with its type"):
        type_of(b'{"call":"x","type":"usage"}')


def test_an_event_of_a_newer_version_survives_byte_for_byte() -> None:
    body = b'{"type":"hologram_shown","depth": 3 ,"n":1.0,"text":"\\u00e9\xc3\xa9","call":{"a":[ ]}}'
    fact = fact_of(body)
    assert fact.event == UnknownEvent("hologram_shown", body)
    rewritten = fact_of(fact.body)
    assert rewritten == fact
    assert rewritten.body == body
    assert body[len(b'{"type":"hologram_shown"') :] in fact.line()


def test_a_field_of_a_newer_version_survives_byte_for_byte() -> None:
    body = b'{"type":"leaf_moved","to":4,"because": {"x":1e0, "y":"\\n"},"request":"req_1"}'
    fact = fact_of(body)
    assert fact.event == EVENT_TYPES["leaf_moved"](to=4, request="req_1")  # type: ignore[call-arg]
    assert fact_of(fact.body).body == body
    assert json.loads(fact.line())["because"] == {"x": 1.0, "y": "\n"}


def test_an_event_without_fields_has_a_line_too() -> None:
    assert json.loads(fact_of(b'{"type":"run_resumed"}').line()) == {
        "type": "run_resumed",
        "seq": 7,
        "session": "ses_1",
        "run": "run_1",
        "time": "2026-01-01T00:00:00.123Z",
        "parent": 6,
        "origin": "ses_0:3",
    }


def test_a_record_has_no_parent_and_an_original_no_origin_in_its_line() -> None:
    fact = Fact(1, "ses_1", "", 0, b'{"type":"run_resumed"}')
    assert set(json.loads(fact.line())) == {"type", "seq", "session", "run", "time"}


def test_a_known_event_with_a_wrong_field_is_refused() -> None:
    with pytest.raises(StoreCorrupt, match=r"fact 7 of session ses_1 is damaged.*entry"):
        _ = fact_of(b'{"type":"labelled","entry":"four","label":"x"}').event


def test_facts_are_equal_when_their_envelope_and_bytes_are() -> None:
    body = b'{"type":"leaf_moved","to":4}'
    assert fact_of(body) == fact_of(body)
    assert fact_of(body) != fact_of(b'{"type":"leaf_moved","to":5}')
    assert fact_of(body) != Fact(8, "ses_1", "run_1", 1_767_225_600_123, body, parent=6, origin="ses_0:3")


def test_the_fields_of_events_can_be_resolved_to_types() -> None:
    for event_type in EVENT_TYPES.values():
        assert typing.get_type_hints(event_type)
