from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ostler.tools.line_window import LineWindow
from ostler.tools.truncation import (
    MAX_BYTES,
    MAX_LINES,
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
def test_a_text_within_the_limits_is_kept_as_it_is(text: str, cuts: list[int]) -> None:
    tail = Tail()
    for piece in pieces_of(text, cuts):
        tail.feed(piece)
    kept = tail.kept()
    assert kept.text == text
    assert not kept.truncated


@given(
    TEXT, st.lists(st.integers(0, 200), max_size=5), st.integers(1, 8), st.integers(1, 40), st.integers(1, 10)
)
def test_a_tail_never_exceeds_its_limits(
    text: str, cuts: list[int], max_lines: int, max_bytes: int, max_line: int
) -> None:
    tail = Tail(max_lines=max_lines, max_bytes=max_bytes, max_line=max_line)
    for piece in pieces_of(text, cuts):
        tail.feed(piece)
    kept = tail.kept()
    assert len(kept.text.encode()) <= max_bytes
    assert kept.lines <= max_lines
    assert kept.total_lines == text.count("\n") + (0 if text.endswith("\n") or not text else 1)
    assert kept == tail_of(text, max_lines=max_lines, max_bytes=max_bytes, max_line=max_line).kept()


@given(TEXT, st.integers(1, 8), st.integers(10, 60))
def test_a_tail_of_short_lines_is_the_end_of_the_text_from_the_start_of_a_line(
    text: str, max_lines: int, max_bytes: int
) -> None:
    kept = tail_of(text, max_lines=max_lines, max_bytes=max_bytes).kept()
    assert text.endswith(kept.text)
    if kept.cut_lines == 0 and kept.text != text:
        assert text[: len(text) - len(kept.text)].endswith("\n")


def test_a_tail_holds_little_however_much_it_was_fed() -> None:
    tail = Tail()
    for _ in range(2000):
        tail.feed("x" * 10_000)
    kept = tail.kept()
    assert len(kept.text) < 2100
    assert kept.text.endswith(f"[+{2000 * 10_000 - 2000} characters]")
    assert kept.truncated


def test_a_long_line_is_cut_with_a_word_on_how_much_is_missing() -> None:
    assert cut_line("abcdef", 4) == "abcd… [+2 characters]"
    assert cut_line("abcd", 4) == "abcd"


@given(st.lists(st.text("aé\U0001f600", max_size=9), max_size=9), st.integers(0, 60))
def test_the_first_lines_that_fit_are_a_prefix_within_the_limit(lines: list[str], limit: int) -> None:
    kept = first_that_fit(lines, limit)
    assert kept == lines[: len(kept)]
    assert sum(byte_length(line) + 1 for line in kept) <= limit
    if len(kept) < len(lines):
        assert sum(byte_length(line) + 1 for line in lines[: len(kept) + 1]) > limit


def test_sizes_are_told_in_a_unit_that_fits() -> None:
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


def test_a_line_of_many_megabytes_is_shown_by_its_beginning() -> None:
    window = LineWindow(2, 1)
    window.feed(b"first\n")
    for _ in range(1000):
        window.feed("é".encode() * 1000)
    window.feed(b"\nthird")
    window.finish()
    assert window.lines == ["é" * 2000 + "… [+998000 characters]"]
    assert window.total == 3
    assert not window.invalid_utf8
