from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.tui.render import code as code_module
from ostler.tui.render.code import (
    MOST_LINES,
    OPEN_LINES,
    CodeStream,
    code_rows,
    highlighted_lines,
    lexer_of,
    lines_of_words,
)
from tests.tui.rows import COLORS, assert_drawable, color_of, plain

PYTHON = Path(code_module.__file__).read_text()
SCRIPT = """/**
 * if this were code
 * return or while
 */
function f(a) {
  return `while ${a}
    for if
    return ${a + 1}`
}
/* open
   if
   for
   while
   return
*/
const x = 1
"""
SHELL = "cat > a <<'EOF'\nif then\nwhile\nfor\ndo\ndone\nEOF\nif a; then ls b/*; fi\nfor x in 1; do y; done\n"
PLAIN_C = "int main(void)\n{\n  /* return\n   if\n   for\n   while */\n  return 1;\n}\n\n\n\n"


def test_code_is_highlighted_in_the_colours_of_the_theme() -> None:
    (row,) = code_rows('def total(): return "a" + 1  # why', 80, COLORS, language="python")
    assert color_of(row, "def") == "md_keyword"
    assert color_of(row, '"a"') == "md_string"
    assert color_of(row, "1") == "md_number"
    assert color_of(row, "# why") == "md_comment"
    assert color_of(row, "total") == "info"


def test_the_language_is_detected_by_the_file_name() -> None:
    (row,) = code_rows("fn main() {}", 80, COLORS, path="src/main.rs")
    assert color_of(row, "fn") == "md_keyword"
    assert code_rows("fn main() {}", 80, COLORS, path="no.such") == ["fn main() {}"]
    assert code_rows("fn main() {}", 80, COLORS, language="no such") == ["fn main() {}"]


def test_line_numbers_are_in_a_gutter_and_long_lines_wrap_beside_it() -> None:
    rows = code_rows("short\n\tand this is a long one\n", 20, None, first_line=99)
    assert plain(rows) == [" 99 short", "100     and this is", "    a long one"]


def test_a_tail_shows_the_last_rows_with_their_numbers() -> None:
    growing = CodeStream(path="a.py")
    for number in range(1, 1001):
        growing.feed(f"x = {number}\n")
    assert plain(growing.tail(3, 40, None)) == [" 998 x = 998", " 999 x = 999", "1000 x = 1000"]
    growing.feed("y = '" + "long " * 20)
    assert len(growing.tail(3, 40, None)) == 3
    assert plain(growing.tail(9, 40, None))[-3].startswith("1001 y = 'long")


def test_a_file_first_drawn_late_shows_its_end() -> None:
    growing = CodeStream(path="a.py")
    growing.feed("text = '''\n" + "if\n" * 2 * MOST_LINES + "'''\r")
    growing.feed("\nreturn 1\n")
    rows = growing.tail(3, 40, COLORS)
    assert plain(rows) == ["401 if", "402 '''", "403 return 1"]
    assert color_of(rows[0], "if") == "md_string"
    assert color_of(rows[2], "return") == "md_keyword"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", PYTHON),
        ("a.js", SCRIPT),
        ("a.sh", SHELL),
        ("a.c", PLAIN_C),
        ("a.json", '{"a":\n[1,\ntrue,\n"b"\n]\n}\n'),
    ],
)
def test_a_growing_file_is_highlighted_like_the_complete_one(path: str, text: str) -> None:
    growing = CodeStream(path=path)
    for line in text.splitlines(keepends=True):
        growing.feed(line)
        growing.tail(10, 120, COLORS)
    whole = code_rows(text, 120, COLORS, path=path)
    assert growing.tail(MOST_LINES, 120, COLORS, gutter=False) == whole[-MOST_LINES:]


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            ["x = 1", '"""', "'", "def f(", "# c", "  y", "", "{", "}", "/*", "*/", "`", "<<E", "E"]
        )
    )
)
def test_highlighting_continues_after_final_lines(lines: list[str]) -> None:
    code = "".join(f"{line}\n" for line in lines)
    for path in ("a.py", "a.js", "a.json", "a.sh", "a.md", "a.yaml", "a.html"):
        lexer = lexer_of("", path)
        count, state = highlighted_lines(lexer, code)
        rest = "".join(f"{line}\n" for line in lines[count:])
        both = [*lines_of_words(lexer, code)[:count], *lines_of_words(lexer, rest, state)]
        assert ["".join(text for text, _ in line) for line in both] == lines


def test_only_the_end_of_a_growing_file_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    real = lines_of_words

    def counting(*arguments: object) -> object:
        nonlocal read
        read += len(str(arguments[1]))
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(code_module, "lines_of_words", counting)
    growing = CodeStream(path="a.py")
    line = "value = function(argument)\n"
    for _ in range(500):
        growing.feed(line)
        growing.tail(10, 80, None)
    assert read <= 500 * len(line) * (2 * OPEN_LINES + 4)


@given(st.text(max_size=60), st.integers(2, 40))
def test_any_code_fits_the_width_and_has_no_control_characters(text: str, width: int) -> None:
    text = "".join(
        character for character in text if character.isprintable() or character in "\n\t\r\x1b\x9b"
    )
    assert_drawable(code_rows(text, width, COLORS, language="python", first_line=1), width)
