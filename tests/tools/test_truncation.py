from __future__ import annotations

import itertools
import re
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.tools.truncation import (
    MAX_BYTES,
    MAX_LINES,
    LineWindow,
    Tail,
    byte_length,
    cut_line,
    first_that_fit,
    size_text,
)

# Characters of one to four bytes, and enough newlines to make lines.
TEXT = st.text(st.sampled_from("ab\n\r\té\u20ac\U0001f600\u2028"), max_size=200)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    positions = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(positions)]


def tail_of(text: str, **limits: int) -> Tail:
    tail = Tail(**limits)
    tail.feed(text)
    return tail


@given(TEXT, st.lists(st.integers(0, 200), max_size=5))
def test_a_text_within_the_limits_is_unchanged(text: str, cuts: list[int]) -> None:
    tail = Tail()
    for piece in pieces_of(text, cuts):
        tail.feed(piece)
    result = tail.truncated()
    assert result.text == text
    assert not result.truncated


@given(
    TEXT, st.lists(st.integers(0, 200), max_size=5), st.integers(1, 8), st.integers(1, 40), st.integers(1, 10)
)
def test_a_tail_never_exceeds_its_limits(
    text: str, cuts: list[int], max_lines: int, max_bytes: int, max_line: int
) -> None:
    tail = Tail(max_lines=max_lines, max_bytes=max_bytes, max_line=max_line)
    for piece in pieces_of(text, cuts):
        tail.feed(piece)
    result = tail.truncated()
    assert len(result.text.encode()) <= max_bytes
    assert result.lines <= max_lines
    assert result.total_lines == text.count("\n") + (0 if text.endswith("\n") or not text else 1)
    assert result == tail_of(text, max_lines=max_lines, max_bytes=max_bytes, max_line=max_line).truncated()


@given(TEXT, st.integers(1, 8), st.integers(10, 60))
def test_a_tail_of_short_lines_is_the_end_of_the_text_from_the_start_of_a_line(
    text: str, max_lines: int, max_bytes: int
) -> None:
    result = tail_of(text, max_lines=max_lines, max_bytes=max_bytes).truncated()
    assert text.endswith(result.text)
    if result.cut_lines == 0 and result.text != text:
        assert text[: len(text) - len(result.text)].endswith("\n")


def test_a_tail_holds_little_however_much_it_was_fed() -> None:
    tail = Tail()
    for _ in range(2000):
        tail.feed("x" * 10_000)
    result = tail.truncated()
    assert len(result.text) < 2100
    assert result.text.endswith(f"[+{2000 * 10_000 - 2000} characters]")
    assert result.truncated


def test_a_long_line_is_cut_with_a_word_on_how_much_is_missing() -> None:
    assert cut_line("abcdef", 4) == "abcd… [+2 characters]"
    assert cut_line("abcd", 4) == "abcd"


@given(st.lists(st.text("aé\U0001f600", max_size=9), max_size=9), st.integers(0, 60))
def test_the_first_lines_that_fit_are_a_prefix_within_the_limit(lines: list[str], limit: int) -> None:
    result = first_that_fit(lines, limit)
    assert result == lines[: len(result)]
    assert sum(byte_length(line) + 1 for line in result) <= limit
    if len(result) < len(lines):
        assert sum(byte_length(line) + 1 for line in lines[: len(result) + 1]) > limit


def test_sizes_have_a_fitting_unit() -> None:
    assert [size_text(n) for n in (0, 1023, 1024, 1536, 5 << 20, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "5.0 MiB",
        "3.0 TiB",
    ]


@given(TEXT, st.lists(st.integers(0, 600), max_size=6), st.integers(0, 12), st.integers(1, 6))
def test_a_window_shows_the_same_lines_however_the_bytes_arrive(
    text: str, cuts: list[int], offset: int, limit: int
) -> None:
    data = text.encode()
    window = LineWindow(offset, limit)
    positions = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for a, b in itertools.pairwise(positions):
        window.feed(data[a:b])
    window.finish()
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    first = max(offset, 1)
    assert window.lines == [line.removesuffix("\r") for line in lines[first - 1 : first - 1 + limit]]
    assert window.total == len(lines)
    assert not window.invalid_utf8


def test_a_window_ends_before_the_byte_limit_and_keeps_at_least_one_line() -> None:
    window = LineWindow(1, MAX_LINES)
    window.feed(("\U0001f600" * 1500 + "\n").encode() * 20)
    window.finish()
    assert len(window.lines) == MAX_BYTES // 6003
    assert window.full
    assert window.total == 20


def test_the_start_of_a_very_long_line_is_shown() -> None:
    window = LineWindow(2, 1)
    window.feed(b"first\n")
    for _ in range(1000):
        window.feed("é".encode() * 1000)
    window.feed(b"\nthird")
    window.finish()
    assert window.lines == ["é" * 2000 + "… [+998000 characters; use offset=2, column=2001 for the rest]"]
    assert window.total == 3
    assert not window.invalid_utf8


LONG_LINES = st.lists(
    st.tuples(st.sampled_from([b"a", "é".encode(), "\U0001f600".encode(), b"\xff", b"\xe2\x82", b"\r", b""]))
    .map(lambda part: part[0])
    .flatmap(lambda part: st.integers(0, 30_000).map(lambda times: part * times)),
    max_size=4,
).map(b"x".join)
MARKER = re.compile(r"… \[\+(\d+) characters; use offset=(\d+), column=(\d+) for the rest\]")


def window_of(data: bytes, offset: int, column: int, piece: int = 1 << 20, limit: int = 1) -> LineWindow:
    window = LineWindow(offset, limit, column)
    for start in range(0, len(data), piece):
        window.feed(data[start : start + piece])
    window.finish()
    return window


@settings(max_examples=60)
@given(LONG_LINES, LONG_LINES, st.integers(1, 5000))
def test_following_the_columns_shows_the_whole_of_every_line(first: bytes, second: bytes, piece: int) -> None:
    data = first + b"\n" + second
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        text_seen = ""
        column = 1
        while True:
            window = window_of(data, number, column, piece)
            shown = window.lines[0]
            assert len(f"{number}\t{shown}\n".encode()) <= MAX_BYTES
            marker = MARKER.search(shown)
            text_seen += shown[: marker.start()] if marker else shown
            if marker is None:
                break
            assert int(marker[2]) == number
            assert int(marker[3]) == len(text_seen) + 1
            assert int(marker[1]) + len(text_seen) == window.first_line_length
            column = int(marker[3])
        whole = line.removesuffix(b"\r").decode("utf-8", "surrogateescape")
        assert text_seen == re.sub("[\udc80-\udcff]", "\ufffd", whole)


@given(LONG_LINES, st.integers(1, 40_000), st.integers(1, 3000))
@settings(max_examples=40)
def test_a_column_means_the_same_character_however_the_bytes_arrive(
    data: bytes, column: int, piece: int
) -> None:
    whole, pieces = window_of(data, 1, column), window_of(data, 1, column, piece)
    assert (pieces.lines, pieces.invalid_utf8) == (whole.lines, whole.invalid_utf8)
    assert pieces.first_line_length == whole.first_line_length


def test_a_window_holds_little_of_a_line_without_end() -> None:
    window = LineWindow(1, 1, 500_000)
    piece = b"x" * 65536
    tracemalloc.start()
    try:
        for _ in range(1000):
            window.feed(piece)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    window.finish()
    assert window.lines[0].endswith("for the rest]")
