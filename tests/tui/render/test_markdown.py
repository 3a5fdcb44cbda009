from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it.token import Token

from ostler.tui.render import markdown
from ostler.tui.render.markdown import markdown_rows, part_rows
from ostler.tui.render.markdown_stream import PORTION, MarkdownStream
from tests.tui.rows import COLORS, assert_drawable, color_of, plain


def drawn(text: str, width: int = 60) -> str:
    rows = plain(markdown_rows(dedent(text).strip("\n"), width, None))
    return "\n".join(rows)


def expected(text: str) -> str:
    return dedent(text).strip("\n")


def test_markdown_blocks_are_separated_by_one_blank_row() -> None:
    assert drawn("# Title\nText\n\n\n\nMore\n***\n> quoted\n> - item\n") == expected(
        """
        Title

        Text

        More

        ────────────────────────────────

        ▎ quoted
        ▎ • item
        """
    )


def test_lists_are_nested_and_keep_their_first_number() -> None:
    text = """
        9. nine, which is long enough to be wrapped to the next row
        1. ten
           - inside
             - deeper
        """
    assert drawn(text, 32) == expected(
        """
         9. nine, which is long enough
            to be wrapped to the next
            row
        10. ten
            • inside
              • deeper
        """
    )


def test_task_items_have_check_boxes() -> None:
    assert drawn("- [ ] open\n- [x] done\n- [link](x)") == "☐ open\n☑ done\n• link (x)"


def test_items_of_several_blocks_are_separated_by_blank_rows() -> None:
    assert drawn("- one\n\n  more\n- two\n\n- three") == "• one\n\n  more\n\n• two\n• three"


def test_a_table_is_aligned_and_wrapped_to_the_width() -> None:
    text = """
        | Name | What it is for | Count |
        |:-----|:---:|------:|
        | first | a text that is far too long for one row of a narrow terminal | 7 |
        | `b` | short | 12345 |
        """
    rows = markdown_rows(dedent(text), 40, None)
    assert "\n".join(plain(rows)) == expected(
        """
        Name  │      What it is for      │ Count
        ──────┼──────────────────────────┼──────
        first │  a text that is far too  │     7
              │  long for one row of a   │
              │     narrow terminal      │
        ──────┼──────────────────────────┼──────
        b     │          short           │ 12345
        """
    )


def test_a_table_of_wide_characters_stays_aligned_at_80_columns() -> None:
    text = f"| 名前 | text |\n|---|---|\n| 日本語 | {'word ' * 40} |\n| ascii | emoji 👩‍🚀 here |\n"
    rows = plain(markdown_rows(text, 80, None))
    assert_drawable(rows, 80)
    assert rows[:2] == ["名前   │ text", "───────┼" + "─" * 72]
    assert rows[2].startswith("日本語 │ word word") and rows[3].startswith("       │ word")


def test_a_table_with_too_many_columns_has_a_line_for_each_cell() -> None:
    text = "|aaaaaa|bbbbbb|cccccc|\n|--|--|--|\n|one|two|three|\n|1|2|3|\n"
    assert drawn(text, 18) == "aaaaaa: one\nbbbbbb: two\ncccccc: three\n\naaaaaa: 1\nbbbbbb: 2\ncccccc: 3"


def test_links_are_followed_by_their_address_or_clickable() -> None:
    text = "[a text](https://example.com/x) <https://example.com> [evil](https://a.b/\x1b]8) [rel](src/a.py)"
    without = plain(markdown_rows(text, 200, None))
    assert without[0].startswith("a text (https://example.com/x) https://example.com ")
    (linked,) = markdown_rows(text, 200, None, hyperlinks=True)
    assert "\x1b]8;;https://example.com/x\x1b\\\x1b[4ma text\x1b[0m\x1b]8;;\x1b\\" in linked
    assert "rel" in linked and "(src/a.py)" in linked
    assert_drawable([linked], 200)


def test_markdown_uses_the_colours_of_the_theme() -> None:
    text = "# Head\n\n[link](x) `code`\n\n```python\nimport os  # why\n```\n"
    rows = markdown_rows(text, 60, COLORS)
    assert color_of(rows[0], "Head") == "md_heading"
    assert color_of(rows[2], "link") == "md_link"
    assert color_of(rows[2], "code") == "accent"
    assert color_of(rows[4], "import") == "md_keyword"
    assert color_of(rows[4], "# why") == "md_comment"
    assert "38;2" not in "".join(markdown_rows(text, 60, None))


def test_html_tags_are_printed_and_line_breaks_stay() -> None:
    assert drawn("<b>bold</b> a<br>b\nnext  \nlast") == "<b>bold</b> a\nb\nnext\nlast"


def test_link_definitions_alone_are_printed() -> None:
    assert drawn("see [1]\n\n[1]: https://example.com") == "see [1]\n\n[1]: https://example.com"


def test_long_code_in_portions_is_highlighted_like_one_piece() -> None:
    lines = ["def f():", '    """A text', *["    if that is no code"] * 60, '    """', "    return 1"]
    text = "```python\n" + "\n".join(lines) + "\n```\n"
    growing = MarkdownStream()
    parts = [*growing.feed(text), *growing.finish()]
    assert len(parts) == 2 and parts[1].continues
    rows = [row for part in parts for row in part_rows(part, 60, COLORS)]
    assert plain(rows) == [f"  {line}" for line in lines]
    assert {color_of(row, "no code") for row in rows[2:62]} == {"md_string"}
    assert color_of(rows[-1], "return") == "md_keyword"


def test_a_long_list_in_portions_continues_its_numbers() -> None:
    text = "1. item\n" * (PORTION * 2 + 5)
    assert drawn(text).split("\n")[-1] == f"{PORTION * 2 + 5}. item"


def test_closed_parts_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parser, parsed = markdown._parser(), 0

    class Counting:
        def parse(self, text: str) -> list[Token]:
            nonlocal parsed
            parsed += len(text)
            return parser.parse(text)

    monkeypatch.setattr(markdown, "_parser", Counting)
    paragraph = "A paragraph of some words.\n\n"
    growing = MarkdownStream()
    for character in paragraph * 100:
        for part in [*growing.feed(character), growing.open_part()]:
            if part is not None:
                part_rows(part, 60, None)
    assert parsed <= 100 * len(paragraph) ** 2


def test_ambiguous_marks_at_the_end_are_not_drawn_yet() -> None:
    growing = MarkdownStream()
    growing.feed("A paragraph\n-")
    part = growing.open_part()
    assert part is not None and plain(part_rows(part, 60, None)) == ["A paragraph"]
    growing.feed(" item")
    part = growing.open_part()
    assert part is not None and plain(part_rows(part, 60, None)) == ["A paragraph", "", "• item"]


TEXTS = st.text(
    st.sampled_from("ab *_`[](){}<>|-#>\n\n  1.\t\x1b\x9b\u202e\ud800\r~!&;日한👩\u200d🚀e\u0301")
    | st.characters(),
    max_size=120,
)


@given(TEXTS, st.integers(2, 60))
def test_any_markdown_fits_the_width_and_has_no_control_characters(text: str, width: int) -> None:
    assert_drawable(markdown_rows(text, width, COLORS), width)
    assert_drawable(
        markdown_rows(f"```py\n{text}\n```\n| a | b |\n|--|--|\n| {text} | c |", width, None), width
    )


@given(st.text(alphabet="ab1 .,:;!?'\"()-+=#/\\`*_~[]<>&|é漢\n\t", max_size=60), st.integers(1, 30))
def test_plain_lines_are_drawn_as_the_parser_draws_them(text: str, width: int) -> None:
    rows = markdown_rows(text, width, COLORS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(markdown, "_plain", lambda text: "")
        assert markdown_rows(text, width, COLORS) == rows


def test_plain_lines_do_not_load_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AssertionError("a parser was asked")

    monkeypatch.setattr(markdown, "_parser", fail)
    assert drawn("Plain words: nothing to parse here, or is there?") != ""
