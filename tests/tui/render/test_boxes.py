from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ostler.schema.events import Printed
from ostler.tui.render.boxes import barred, framed, inside, notice_rows, printed_rows, user_rows
from ostler.tui.render.spans import folded
from tests.tui.rows import COLORS, assert_drawable, color_of, plain


def test_a_call_is_framed_with_its_title_in_the_top_edge() -> None:
    rows = framed(["body", ""], 50, None, title="edit", about="src/a.py", note="+1 -2")
    assert plain(rows) == [
        "╭─ edit src/a.py · +1 -2",
        "│ body",
        "│",
        "╰─",
    ]


def test_the_subject_of_a_frame_is_cut_before_its_title_and_note() -> None:
    rows = plain(framed(["ok"], 50, None, title="bash", about="a very long\ncommand " * 9, note="1.2 s"))
    assert rows[0] == "╭─ bash a very long command a very lon… · 1.2 s"
    assert_drawable(rows, 50)


def test_frames_and_bars_have_the_colours_of_the_theme() -> None:
    rows = framed(["x"], 50, COLORS, title="edit", about="a.py", slot="error")
    assert color_of(rows[0], "╭─ ") == "error" and color_of(rows[0], "edit") == "tool"
    assert color_of(rows[1], "│") == "error"
    assert color_of(user_rows("hello", 50, COLORS)[0], "▌") == "primary"


@pytest.mark.parametrize("width", [40, 20])
def test_narrow_terminals_have_no_frames(width: int) -> None:
    assert inside(width) == width
    assert plain(framed(["body"], width, None, title="edit", about="a.py")) == ["edit a.py", "body"]
    assert barred(["body"], width, "1") == ["body"]
    assert plain(user_rows("one\ntwo", width, None)) == ["> one", "  two"]


def test_a_prompt_is_drawn_behind_a_bar() -> None:
    rows = user_rows("hello 日本\n\tthere\x1b[31m\n", 50, None, attachments=["a\nb.png"])
    assert plain(rows) == ["▌ hello 日本", "▌     there\ufffd[31m", "▌ [a b.png]"]


def test_notice_levels_differ_without_colours() -> None:
    rows = [notice_rows("text", 50, None, level=level)[0] for level in ("info", "warning", "error")]
    assert plain(rows) == ["· text", "! text", "✗ text"]
    assert plain(notice_rows("some more words", 12, None)) == ["· some more", "  words"]


def test_a_block_of_an_extension_has_a_colour_and_a_title() -> None:
    printed = Printed("said \x1b[32mgreen\x1b[0m\x1b[2J", "block", "ext", "a title", "#ff0000")
    rows = printed_rows(printed, 50, COLORS)
    assert plain(rows) == ["▌ said green", "▌ a title"]
    assert rows[0] == "\x1b[38;2;255;0;0m▌\x1b[0m said \x1b[32mgreen\x1b[0m"
    assert printed_rows(printed, 50, None)[0] == "▌ said green"
    assert printed_rows(Printed("plain\n"), 50, COLORS) == ["plain"]
    assert plain(printed_rows(Printed("bad", "error"), 50, None)) == ["✗ bad"]


def test_folding_drops_rows_in_the_middle() -> None:
    rows = [str(number) for number in range(10)]
    assert folded(rows, 10, 40, None) == rows
    assert plain(folded(rows, 5, 40, None)) == ["0", "1", "… 6 more rows", "8", "9"]
    assert plain(folded(rows, 1, 40, None)) == ["… 10 more rows"]


@given(st.text(st.sampled_from("ab 日\n\x1b\x9b\u202e👩\u200d🚀"), max_size=90), st.integers(4, 70))
@example(" \u200d\u200daa", 4)
def test_any_text_fits_the_width_and_has_no_control_characters(text: str, width: int) -> None:
    assert_drawable(user_rows(text, width, COLORS, attachments=[text]), width)
    assert_drawable(notice_rows(text, width, COLORS, level="error"), width)
    assert_drawable(framed([], width, COLORS, title=text, about=text, note=text), width)
    assert_drawable(printed_rows(Printed(text, "block", "", text), width, COLORS), width)
