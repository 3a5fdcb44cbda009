from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.schema.outcomes import Ok
from ostler.testkit.fakes import FakeToolContext, run_tool
from ostler.tools.diff import diff_of_texts
from ostler.tools.edit import edit
from ostler.tools.write import write
from ostler.tui.render.call_arguments import EditStream, WriteStream
from ostler.tui.render.diff import change_rows, diff_lines, diff_rows
from tests.tui.rows import COLORS, assert_drawable, color_of, plain

OLD = "".join(f"line {number}\n" for number in range(1, 41))


def details(old: str, new: str, **more: object) -> dict[str, object]:
    diff = diff_of_texts(old, new, "a.py", "a.py")
    return {"path": "a.py", "diff": diff.text, "diff_truncated": diff.truncated, **more}


def test_a_diff_has_line_numbers() -> None:
    new = OLD.replace("line 7\n", "line seven\n").replace("line 30\n", "")
    rows = plain(change_rows(details(OLD, new), 60, None))
    assert rows == [
        " 4   line 4",
        " 5   line 5",
        " 6   line 6",
        " 7 - line 7",
        " 7 + line seven",
        " 8   line 8",
        " 9   line 9",
        "10   line 10",
        "   ⋮",
        "27   line 27",
        "28   line 28",
        "29   line 29",
        "30 - line 30",
        "30   line 31",
        "31   line 32",
        "32   line 33",
    ]


def test_changed_lines_are_coloured_and_changed_words_are_highlighted() -> None:
    rows = change_rows(details("a = old(1)\n", "a = new(1)\n"), 60, COLORS)
    assert color_of(rows[0], "a = ") == "error" and color_of(rows[1], "a = ") == "success"
    assert "\x1b[38;2;0;0;7;48;2;0;0;9mold\x1b[0m" in rows[0]
    without = change_rows(details("a = old(1)\n", "a = new(1)\n"), 60, None)
    assert "\x1b[4mold\x1b[0m" in without[0] and "\x1b[4mnew\x1b[0m" in without[1]


def test_dissimilar_lines_are_not_compared_by_words() -> None:
    rows = change_rows(details("completely different\n", "x = 1\n"), 60, None)
    assert not any("\x1b[4m" in row for row in rows)


def test_a_missing_final_newline_is_marked() -> None:
    assert plain(change_rows(details("a\n", "a"), 40, None)) == [
        "1 - a",
        "1 + a",
        "  ⋮ No newline at end of file",
    ]


def test_a_line_that_looks_like_a_diff_header_is_content() -> None:
    lines = diff_lines("--- a\n+++ a\n@@ -1,2 +1 @@\n--- old\n-@@ x\n+++ new\n")
    assert [(line.sign, line.number, line.text) for line in lines] == [
        ("-", 1, "-- old"),
        ("-", 2, "@@ x"),
        ("+", 1, "++ new"),
    ]


def test_a_long_change_is_folded_in_the_middle() -> None:
    rows = plain(change_rows(details("", OLD), 40, None, most=6))
    assert rows == [
        " 1 + line 1",
        " 2 + line 2",
        " 3 + line 3",
        "… 35 more rows",
        "39 + line 39",
        "40 + line 40",
    ]


def test_a_truncated_diff_says_so() -> None:
    rows = plain(change_rows({**details("a\n", "b\n"), "diff_truncated": True}, 60, None))
    assert rows[-1] == "the rest of the change is not shown"


def test_a_new_file_is_drawn_as_code() -> None:
    rows = change_rows(details("", "def f():\n    return 1\n", created=True), 60, COLORS)
    assert plain(rows) == ["1 def f():", "2     return 1"]
    assert color_of(rows[1], "return") == "md_keyword"


def test_a_narrow_diff_has_no_line_numbers() -> None:
    assert plain(change_rows(details("a\n", "b\n"), 12, None)) == ["- a", "+ b"]


ARGUMENTS = json.dumps(
    {
        "path": "src/a.py",
        "edits": [
            {"old_text": "a\nb", "new_text": 'c "quoted"\nd é😀\n'},
            {"old_text": "x", "new_text": "y\nz"},
        ],
    }
)


@pytest.mark.parametrize("size", [1, 7, len(ARGUMENTS)])
def test_a_streaming_edit_is_drawn_as_a_diff(size: int) -> None:
    edit = EditStream()
    for start in range(0, len(ARGUMENTS), size):
        edit.feed(ARGUMENTS[start : start + size])
    assert edit.path == "src/a.py"
    rows = ["- a", "- b", '+ c "quoted"', "+ d é😀", "⋮ edit 2", "- x", "+ y", "+ z"]
    assert plain(edit.tail(20, 60, None)) == rows
    assert plain(edit.tail(3, 60, None)) == rows[-3:]


def test_a_streaming_edit_is_drawable_after_every_fragment() -> None:
    edit = EditStream()
    edit.feed('{"path": "a.py", "edits": [{"old_text": "one\\ntw')
    assert plain(edit.tail(5, 60, None)) == ["- one", "- tw"]
    edit.feed('o", "new_text": "th')
    assert plain(edit.tail(5, 60, None)) == ["- one", "- two", "+ th"]


def test_a_streaming_file_is_drawn_as_code() -> None:
    write = WriteStream()
    content = "".join(f"import m{number}\n" for number in range(1, 31))
    document = json.dumps({"path": "a.py", "content": content})
    for character in document[:-6]:
        write.feed(character)
    assert write.path == "a.py"
    rows = write.tail(2, 60, COLORS)
    assert plain(rows) == ["29 import m29", "30 import m"]
    assert color_of(rows[1], "import") == "md_keyword"


@given(
    st.lists(st.text(st.sampled_from("ab日\t\x1b 1"), max_size=40), max_size=8),
    st.lists(st.text(st.sampled_from("ab日\t\x1b 1"), max_size=40), max_size=8),
    st.integers(4, 40),
)
def test_any_diff_fits_the_width_and_has_no_control_characters(
    old: list[str], new: list[str], width: int
) -> None:
    diff = diff_of_texts("\n".join(old), "\n".join(new), "a", "a")
    rows = diff_rows(diff_lines(diff.text), width, COLORS)
    assert_drawable(rows, width)


async def test_the_details_of_edit_and_write_are_drawn(tmp_path: Path) -> None:
    context = FakeToolContext(tmp_path)
    written = await run_tool(write, {"path": "a.py", "content": "one = 1\ntwo = 2\n"}, context)
    assert isinstance(written, Ok) and written.details
    assert plain(change_rows(written.details, 40, None)) == ["1 one = 1", "2 two = 2"]
    arguments = {"path": "a.py", "edits": [{"old_text": "2", "new_text": "3"}]}
    edited = await run_tool(edit, arguments, context)
    assert isinstance(edited, Ok) and edited.details
    assert plain(change_rows(edited.details, 40, None)) == ["1   one = 1", "2 - two = 2", "2 + two = 3"]
