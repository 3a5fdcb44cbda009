from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.tools.diff import Splice, diff_of_splices, diff_of_texts, lines_of, splice

TEXT = st.text("ab\n", max_size=60)


def rebuilt(old: str, diff: str) -> str:
    """A small `patch` of our own: replays the hunks, checking every line they claim."""
    lines, out, position = lines_of(old), [], 0
    rows = diff.split("\n")[2:-1]
    for index, row in enumerate(rows):
        ends_open = index + 1 < len(rows) and rows[index + 1].startswith("\\")
        end = "" if ends_open else "\n"
        if row.startswith("@@"):
            start, _, length = row.split()[1].removeprefix("-").partition(",")
            begin = int(start) if length == "0" else int(start) - 1
            out += lines[position:begin]
            position = begin
        elif row.startswith("\\"):
            continue
        elif row[0] == "+":
            out.append(row[1:] + end)
        else:
            assert lines[position] == row[1:] + end
            if row[0] == " ":
                out.append(lines[position])
            position += 1
    return "".join(out + lines[position:])


@given(TEXT, TEXT)
def test_a_diff_leads_from_the_old_text_to_the_new(old: str, new: str) -> None:
    diff = diff_of_texts(old, new, "f", "f")
    assert rebuilt(old, diff.text) == new
    assert (diff.text == "") == (old == new)


@settings(max_examples=300)
@given(TEXT, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6), TEXT), max_size=4))
def test_a_diff_of_splices_leads_from_the_old_text_to_the_new(
    old: str, wanted: list[tuple[int, int, str]]
) -> None:
    splices: list[Splice] = []
    position = 0
    for start, length, text in sorted(wanted):
        if start >= position and start + length <= len(old):
            splices.append(Splice(start, start + length, text))
            position = start + length
    diff = diff_of_splices(old, splices, "f")
    assert rebuilt(old, diff.text) == splice(old, splices)


def test_a_diff_has_numbered_hunks_with_three_lines_around() -> None:
    old = "".join(f"{n}\n" for n in range(1, 31))
    new = old.replace("\n5\n", "\nfive\n").replace("\n25\n", "\n")
    diff = diff_of_texts(old, new, "a", "b")
    assert diff.text.splitlines() == [
        "--- a",
        "+++ b",
        "@@ -2,7 +2,7 @@",
        " 2",
        " 3",
        " 4",
        "-5",
        "+five",
        " 6",
        " 7",
        " 8",
        "@@ -22,7 +22,6 @@",
        " 22",
        " 23",
        " 24",
        "-25",
        " 26",
        " 27",
        " 28",
    ]
    assert (diff.added, diff.removed, diff.first_line) == (1, 2, 5)


def test_a_large_diff_is_truncated_and_marked() -> None:
    diff = diff_of_texts("", "line\n" * 5000, "/dev/null", "f")
    assert diff.truncated
    assert len(diff.text.splitlines()) == 2000
    assert diff.added == 5000


def test_many_equal_lines_are_compared_in_little_time() -> None:
    old = "".join(f"{n % 50}\n" for n in range(20_000))
    new = "".join(f"{(n * 7) % 50}\n" for n in range(20_000))
    assert diff_of_texts(old, new, "f", "f").removed > 0


def test_only_a_newline_ends_a_line() -> None:
    assert lines_of("a\u2028b\x0bc\r\nd") == ["a\u2028b\x0bc\r\n", "d"]
