from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.tui.render.terminal_text import TerminalText, terminal_rows
from tests.tui.rows import COLORS, assert_drawable


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("a\r\nb\r\n", ["a", "b"]),
        ("abc\rx", ["xbc"]),
        ("10 %\r20 %\r\x1b[Kdone\n", ["done"]),
        ("half\x1b[2K\rnew", ["new"]),
        ("ab\b\bc", ["cb"]),
        ("\b\ba", ["a"]),
        ("a\tb\n1234567\tc", ["a       b", "1234567 c"]),
        ("日本\rab", ["ab本"]),
        ("日本\ra", ["a 本"]),
        ("a\n\nb\n", ["a", "", "b"]),
        ("\x1b]0;a title\x07x\x1b]8;;http://a.b\x1b\\link\x1b]8;;\x1b\\", ["xlink"]),
        ("\x1b[2J\x1b[H\x1b[?1049hx\x1b[3A\x1b(B\x1b7y\x1bM", ["xy"]),
        ("\x1bPq#0;2\x1b\\x\x9b5ny\x9d0;t\x9cz", ["xyz"]),
        ("\x07\x00a\x0e\x7fb", ["ab"]),
        ("\u202eabc\ud800", ["\ufffdabc\ufffd"]),
        ("\x1b]no end\nnext", ["no end", "next"]),
        ("\x1b[", []),
        ("\x1b", []),
    ],
)
def test_control_sequences_are_applied_or_removed(printed: str, expected: list[str]) -> None:
    assert terminal_rows(printed, 40, None) == expected


def test_colours_and_attributes_are_kept() -> None:
    rows = terminal_rows(
        "\x1b[1;31mred\x1b[22m thin\x1b[39m\n\x1b[38;5;200;48;2;1;2;3mx\x1b[m\x1b[97my", 40, COLORS
    )
    assert rows == [
        "\x1b[1;31mred\x1b[0m\x1b[31m thin\x1b[0m",
        "\x1b[38;5;200;48;2;1;2;3mx\x1b[0m\x1b[97my\x1b[0m",
    ]


def test_a_style_lasts_over_lines_until_it_is_ended() -> None:
    assert terminal_rows("\x1b[32ma\nb\x1b[0m\nc", 40, COLORS) == [
        "\x1b[32ma\x1b[0m",
        "\x1b[32mb\x1b[0m",
        "c",
    ]


def test_without_colours_attributes_stay() -> None:
    assert terminal_rows("\x1b[1;31;44mred\x1b[0m", 40, None) == ["\x1b[1mred\x1b[0m"]


def test_text_cannot_be_hidden_or_made_to_blink() -> None:
    assert terminal_rows("\x1b[8mhidden\x1b[5mblinking\x1b[38;5mx\x1b[38;2;999999;1;1my", 40, COLORS) == [
        "hiddenblinkingxy"
    ]


def test_wide_lines_wrap_and_only_the_last_rows_are_drawn() -> None:
    text = "first\n" + "0123456789" * 3 + "\nlast\n"
    assert terminal_rows(text, 12, None) == ["first", "012345678901", "234567890123", "456789", "last"]
    assert terminal_rows(text, 12, None, last=3) == ["234567890123", "456789", "last"]


def test_growing_output_counts_its_lines_and_keeps_the_last_ones() -> None:
    output = TerminalText()
    for number in range(5000):
        output.feed(f"line {number}\n")
    output.feed("open")
    assert output.lines == 5000
    assert output.rows(40, None, last=2) == ["line 4999", "open"]
    assert len(output.rows(40, None)) == 1000


PRINTED = st.text(
    st.sampled_from("ab日\n\r\b\t\x1b\x1b[]m0138;2K\x07\\P\x9b\x9c\u202e") | st.characters(codec="utf-8"),
    max_size=60,
)


@given(PRINTED, st.lists(st.integers(0, 60), max_size=6), st.integers(2, 30))
def test_output_looks_the_same_for_any_pieces(text: str, places: list[int], width: int) -> None:
    output = TerminalText()
    for start, end in pairwise([0, *sorted(place % (len(text) + 1) for place in places), len(text)]):
        output.feed(text[start:end])
    output.finish()
    assert output.rows(width, COLORS) == terminal_rows(text, width, COLORS)


@given(PRINTED, st.integers(2, 30))
def test_any_output_fits_the_width_and_has_no_control_characters(text: str, width: int) -> None:
    assert_drawable(terminal_rows(text, width, COLORS), width)
