from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.history import partial_json
from ostler.history.partial_json import StreamingString

NAMES = st.sampled_from(["content", "edits", "new_text", 'new_text":"', "*", ""]) | st.text(max_size=3)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
EDITS = st.lists(st.dictionaries(NAMES, VALUES, max_size=3) | VALUES, max_size=4)
STYLES = st.fixed_dictionaries(
    {
        "ensure_ascii": st.booleans(),
        "indent": st.sampled_from([None, 0, 2]),
        "separators": st.sampled_from([(",", ":"), (" , ", " : "), (",\n", "\t:\r\n")]),
    }
)


def streaming_string(document: str, *path: str) -> StreamingString:
    field = StreamingString(*path)
    field.feed(document)
    return field


@st.composite
def documents(draw: st.DrawFn) -> str:
    fields = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    if draw(st.booleans()):
        fields["content"] = draw(TEXTS)
    if draw(st.booleans()):
        fields["edits"] = draw(EDITS)
    return json.dumps(fields, **draw(STYLES))


def occurrences(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """What a complete parse finds at a path, in the order of the document."""
    if not path:
        yield value
    elif path[0] == "*" and isinstance(value, list):
        for element in value:
            yield from occurrences(element, path[1:])
    elif path[0] != "*" and isinstance(value, dict) and path[0] in value:
        yield from occurrences(value[path[0]], path[1:])


def check_against_a_complete_parse(document: str, path: tuple[str, ...]) -> None:
    everything = list(occurrences(json.loads(document), path))
    field = StreamingString(*path)
    seen = ""
    for character in document:
        before = field.index
        added = field.feed(character)
        seen = seen + added if field.index == before else added
        assert field.value == seen
        if field.is_found:
            assert everything[field.index - 1].startswith(seen)
    assert field.index == len(everything)
    expected = everything[-1] if everything and isinstance(everything[-1], str) else None
    assert (field.value if field.is_found else None) == expected
    assert field.done == (expected is not None)


@given(documents())
def test_a_document_fed_by_the_character_yields_prefixes_of_the_value(document: str) -> None:
    check_against_a_complete_parse(document, ("content",))


@given(documents())
def test_a_field_in_an_array_yields_prefixes_of_each_value(document: str) -> None:
    check_against_a_complete_parse(document, ("edits", "*", "new_text"))


@pytest.mark.long
@settings(max_examples=2_000, deadline=None)
@given(documents(), st.sampled_from([("content",), ("edits", "*", "new_text"), ("new_text", "content")]))
def test_many_documents_yield_prefixes_of_the_value(document: str, path: tuple[str, ...]) -> None:
    check_against_a_complete_parse(document, path)


@given(documents(), st.lists(st.integers(0, 400)))
def test_the_size_of_fragments_makes_no_difference(document: str, cuts: list[int]) -> None:
    field = StreamingString("content")
    edges = [0, *sorted(min(cut, len(document)) for cut in cuts), len(document)]
    pieces = [field.feed(document[start:end]) for start, end in pairwise(edges)]

    whole = streaming_string(document, "content")
    assert (field.value, field.is_found, field.done, field.index) == (
        whole.value,
        whole.is_found,
        whole.done,
        whole.index,
    )
    assert "".join(pieces) == whole.value


@given(st.text(alphabet='{}[]",:\\u0dD8c\n content', max_size=60))
def test_invalid_json_never_raises_or_removes_characters(garbage: str) -> None:
    field = StreamingString("content")
    seen = ""
    for character in '{"content":"' + garbage:
        index = field.index
        added = field.feed(character)
        seen = seen + added if field.index == index else added
        assert field.value == seen


def state(document: str, *path: str) -> tuple[str, bool, bool]:
    field = streaming_string(document, *path)
    return field.value, field.is_found, field.done


@pytest.mark.parametrize(
    "document", ["", "{", '{"path":"a.txt"}', '{"content"', '{"content":', '{"content": ']
)
def test_nothing_is_found_before_the_value_begins(document: str) -> None:
    assert state(document, "content") == ("", False, False)


def test_an_open_string_is_found_and_not_done() -> None:
    assert state('{"content":"', "content") == ("", True, False)
    assert state('{"content":"hel', "content") == ("hel", True, False)
    assert state('{"content":"hello"', "content") == ("hello", True, True)


def test_white_space_around_the_colon_is_ignored() -> None:
    assert state('{ "content" \n:\t "x"', "content") == ("x", True, True)


def test_a_value_that_is_not_a_string_is_not_found() -> None:
    for value in ("12", "null", "true", "[]", '["x"]', '{"content":"x"}'):
        assert state('{"content":' + value + "}", "content") == ("", False, False)


def test_every_escape_is_decoded() -> None:
    escaped = r"\" \\ \/ \n \t \r \b \f \u0041 \u00e9 \u00E9"
    assert state('{"content":"' + escaped, "content")[0] == '" \\ / \n \t \r \b \f A é é'


def test_an_incomplete_escape_is_withheld() -> None:
    assert state('{"content":"before\\', "content") == ("before", True, False)
    for digits in ("", "0", "00", "004"):
        assert state('{"content":"before\\u' + digits, "content") == ("before", True, False)


def test_an_unknown_escape_is_copied() -> None:
    assert state(r'{"content":"a\qb"', "content") == (r"a\qb", True, True)


def test_a_broken_unicode_escape_ends_the_value() -> None:
    assert state(r'{"content":"a\u00zzb"}', "content") == ("a", True, False)
    assert state(r'{"content":"a\u00"}', "content") == ("a", True, False)


@pytest.mark.parametrize("broken", [r"\u00zz", r"\u00", r"\u", r"\ud83d\u"])
def test_a_broken_escape_does_not_hide_the_next_occurrence(broken: str) -> None:
    document = '{"edits":[{"new_text":"a' + broken + '"},{"new_text":"b"}]}'
    assert state(document, "edits", "*", "new_text") == ("b", True, True)


def test_a_surrogate_pair_becomes_one_character() -> None:
    assert state(r'{"content":"\ud83d\ude00"', "content") == ("😀", True, True)
    assert state(r'{"content":"\uD83D\uDE00"', "content") == ("😀", True, True)


def test_half_a_surrogate_pair_is_withheld() -> None:
    for tail in ("", "\\", "\\u", "\\ude", "\\ude0"):
        assert state(r'{"content":"x\ud83d' + tail, "content") == ("x", True, False)


@pytest.mark.parametrize(
    ("written", "decoded"),
    [
        (r"\ud83dX", "\ufffdX"),
        (r"\ud83d\n", "\ufffd\n"),
        (r"\ud83d\u0041", "\ufffdA"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\ude00", "\ufffd"),
        (r"\ude00\ud83d", "\ufffd\ufffd"),
        (r"\ud83d", "\ufffd"),
    ],
)
def test_a_lone_surrogate_becomes_one_replacement_character(written: str, decoded: str) -> None:
    assert state('{"content":"' + written + '"', "content") == (decoded, True, True)


def test_raw_control_characters_are_copied() -> None:
    assert state('{"content":"a\nb\x00c"', "content") == ("a\nb\x00c", True, True)


def test_the_same_key_in_another_object_is_another_field() -> None:
    document = '{"options":{"content":"no"},"list":[{"content":"no"}],"content":"yes"}'
    assert state(document, "content") == ("yes", True, True)
    assert state(document, "options", "content") == ("no", True, True)


def test_a_key_written_with_escapes_is_recognised() -> None:
    assert state(r'{"con\u0074ent":"x"}', "content") == ("x", True, True)


def test_what_follows_the_document_is_ignored() -> None:
    assert state('{"content":"x"}{"content":"y"}', "content") == ("x", True, True)


def test_each_edit_starts_afresh_with_the_next_index() -> None:
    field = StreamingString("edits", "*", "new_text")
    assert (field.feed('{"edits":[{"old_text":"a",'), field.index) == ("", 0)
    assert (field.feed('"new_text":'), field.index, field.is_found) == ("", 1, False)
    assert (field.feed('"fir'), field.index, field.done) == ("fir", 1, False)
    assert (field.feed('st"},'), field.value, field.done) == ("st", "first", True)
    assert (field.feed('{"old_text":"b","new_text":"sec'), field.index, field.done) == ("sec", 2, False)
    assert (field.feed('ond"}]}'), field.value, field.done) == ("ond", "second", True)


def test_an_edit_that_quotes_the_key_is_not_mistaken_for_two() -> None:
    field = streaming_string(r'{"edits":[{"new_text":"say \"new_text\":\"x\""}]}', "edits", "*", "new_text")
    assert (field.value, field.index) == ('say "new_text":"x"', 1)


def test_the_last_of_two_equal_keys_counts_as_it_does_for_a_parser() -> None:
    field = streaming_string('{"content":"one","content":"two"}', "content")
    assert (field.value, field.index) == ("two", 2)


def test_strings_in_an_array_can_be_followed() -> None:
    field = streaming_string('{"lines":["one",2,"thr', "lines", "*")
    assert (field.value, field.index, field.done) == ("thr", 2, False)


def calls_made_while_feeding(document: str) -> int:
    """How many functions run, C functions included, when a document is fed by the character."""
    field = StreamingString("content")
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        for character in document:
            field.feed(character)
    finally:
        sys.setprofile(previous)
    assert field.done
    return calls


def test_each_character_costs_the_same_however_much_came_before() -> None:
    short, long = (json.dumps({"path": "x", "content": 'line "of" text\n' * n}) for n in (100, 1_000))
    cost_per_character = calls_made_while_feeding(short) / len(short)
    assert calls_made_while_feeding(long) / len(long) == pytest.approx(cost_per_character, rel=0.05)


def test_no_character_is_scanned_more_than_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    scanned = 0
    scan = partial_json._end_of

    def counting(pattern: Any, text: str, at: int) -> int:
        nonlocal scanned
        end = scan(pattern, text, at)
        scanned += end - at + 1
        return end

    monkeypatch.setattr(partial_json, "_end_of", counting)
    items = [{"key": f"item {n}", "escaped": '"\n😀'} for n in range(500)]
    document = json.dumps({"items": items, "content": "a\nb" * 500})
    for size in (1, 7, len(document)):
        scanned = 0
        field = StreamingString("content")
        for start in range(0, len(document), size):
            field.feed(document[start : start + size])
        assert field.done
        assert scanned <= 2 * len(document)
