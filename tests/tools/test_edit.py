from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ostler.schema.errors import ToolFailed
from ostler.schema.outcomes import Failed, Ok, Outcome
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool
from ostler.tools.diff import splice
from ostler.tools.edit import Replacement, edit, plan
from ostler.tools.read import read


async def edited(
    context: FakeToolContext, content: bytes, *edits: tuple[str, str], replace_all: bool = False
) -> tuple[Outcome, bytes]:
    file = context.cwd / "f.txt"
    file.write_bytes(content)
    await run_tool(read, {"path": "f.txt"}, context)
    arguments: dict[str, Any] = {
        "path": "f.txt",
        "edits": [{"old_text": old, "new_text": new, "replace_all": replace_all} for old, new in edits],
    }
    return await run_tool(edit, arguments, context), file.read_bytes()


def diff_of(outcome: Outcome) -> list[str]:
    assert isinstance(outcome, Ok) and outcome.details
    rows: list[str] = outcome.details["diff"].splitlines()
    return [row for row in rows if row[0] in "+-" and row[:3] not in ("+++", "---")]


async def test_one_place_is_changed(context: FakeToolContext) -> None:
    outcome, after = await edited(context, b"one\ntwo\nthree\n", ("two", "2"))
    assert after == b"one\n2\nthree\n"
    assert result_text(outcome) == "edited f.txt: 1 replacement, first at line 2 (+1 -1 lines)"
    assert isinstance(outcome, Ok) and outcome.details
    assert outcome.details["first_line"] == 2
    assert outcome.details["edits"] == 1
    assert outcome.details["diff"] == "--- f.txt\n+++ f.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"


async def test_two_places_are_changed_in_any_order(context: FakeToolContext) -> None:
    outcome, after = await edited(context, b"one\ntwo\nthree\n", ("three", "3"), ("one", "1"))
    assert after == b"1\ntwo\n3\n"
    assert diff_of(outcome) == ["-one", "+1", "-three", "+3"]


async def test_edits_see_the_original_and_not_each_other(context: FakeToolContext) -> None:
    _, after = await edited(context, b"a\nb\n", ("a", "b"), ("b", "a"))
    assert after == b"b\na\n"


async def test_an_ambiguous_text_is_refused_with_its_count_and_lines(context: FakeToolContext) -> None:
    outcome, after = await edited(context, b"x\ny\nx\nx\n", ("x", "z"))
    assert isinstance(outcome, Failed)
    assert "edit 1: old_text occurs 3 times (lines 1, 3, 4)" in result_text(outcome)
    assert after == b"x\ny\nx\nx\n"


async def test_places_that_overlap_each_other_are_ambiguous_too(context: FakeToolContext) -> None:
    outcome, _ = await edited(context, b"aaa\n", ("aa", "b"))
    assert "occurs 2 times" in result_text(outcome)


async def test_replace_all_changes_all_occurrences(context: FakeToolContext) -> None:
    outcome, after = await edited(context, b"x y x\nx\n", ("x", "zz"), replace_all=True)
    assert after == b"zz y zz\nzz\n"
    assert isinstance(outcome, Ok) and outcome.details and outcome.details["replacements"] == 3


async def test_a_failing_second_edit_leaves_the_file_untouched(context: FakeToolContext) -> None:
    outcome, after = await edited(context, b"one\ntwo\n", ("one", "1"), ("nowhere at all", "x"))
    assert isinstance(outcome, Failed)
    assert result_text(outcome).startswith("nothing was changed\nedit 2: old_text was not found")
    assert after == b"one\ntwo\n"


async def test_all_problems_are_reported_at_once(context: FakeToolContext) -> None:
    outcome, _ = await edited(context, b"a\na\nb\n", ("a", "c"), ("", "x"), ("b", "b"))
    assert [row.partition(":")[0] for row in result_text(outcome).split("\n")[1:]] == [
        "edit 1",
        "edit 2",
        "edit 3",
    ]
    assert "empty" in result_text(outcome)
    assert "the same" in result_text(outcome)


async def test_overlapping_edits_are_refused(context: FakeToolContext) -> None:
    outcome, after = await edited(context, b"one\ntwo\nthree\n", ("two\nthree", "x"), ("one\ntwo", "y"))
    assert isinstance(outcome, Failed)
    assert "edits 1 and 2 overlap at line 2" in result_text(outcome)
    assert after == b"one\ntwo\nthree\n"


async def test_edits_that_touch_do_not_overlap(context: FakeToolContext) -> None:
    _, after = await edited(context, b"onetwo", ("one", "1"), ("two", "2"))
    assert after == b"12"


async def test_carriage_returns_stay_and_the_diff_has_only_the_changed_line(
    context: FakeToolContext,
) -> None:
    outcome, after = await edited(context, b"one\r\ntwo\r\nthree\r\n", ("two\nthree", "2\n2b\nthree"))
    assert after == b"one\r\n2\r\n2b\r\nthree\r\n"
    assert diff_of(outcome) == ["-two", "+2", "+2b"]


async def test_an_old_text_with_carriage_returns_matches(context: FakeToolContext) -> None:
    _, after = await edited(context, b"one\r\ntwo\r\n", ("one\r\ntwo", "1\r\n2"))
    assert after == b"1\r\n2\r\n"
    _, after = await edited(context, b"one\ntwo\n", ("one\r\ntwo", "1\r\n2"))
    assert after == b"1\n2\n"


async def test_mixed_line_ends_stay_as_they_are_where_nothing_changes(context: FakeToolContext) -> None:
    outcome, after = await edited(context, b"a\r\nb\nc\r\nd\ne", ("a\nb\nc\nd", "a\nb\nC\nd"), ("e", "e\nf"))
    assert after == b"a\r\nb\nC\r\nd\ne\nf"
    assert diff_of(outcome) == ["-c", "+C", "-e", "+e", "+f"]


async def test_an_edit_keeps_the_byte_order_mark(context: FakeToolContext) -> None:
    _, after = await edited(context, b"\xef\xbb\xbfone\n", ("one", "two"))
    assert after == b"\xef\xbb\xbftwo\n"


async def test_bytes_that_are_not_utf8_pass_through(context: FakeToolContext) -> None:
    outcome, after = await edited(context, b"caf\xe9\none\n", ("one", "two"))
    assert after == b"caf\xe9\ntwo\n"
    assert isinstance(outcome, Ok) and outcome.details
    outcome.details["diff"].encode()
    missed, _ = await edited(context, b"  caf\xe9 one\n", ("caf? one", "x"))
    result_text(missed).encode()


@pytest.mark.parametrize(
    ("content", "old", "new", "after"),
    [
        ("a  \nb\n", "a\nb", "x\ny", "x\ny\n"),
        ("say \u201chello\u201d\n", 'say "hello"', "bye", "bye\n"),
        ("1\u20132\n", "1-2", "1 to 2", "1 to 2\n"),
        ("a\u00a0b\n", "a b", "c", "c\n"),
        ("foo\nbar   \nbaz\n", "foo  \nbar", "x", "x\nbaz\n"),
    ],
)
async def test_look_alikes_match_a_unique_place_with_a_note(
    context: FakeToolContext, content: str, old: str, new: str, after: str
) -> None:
    outcome, content_after = await edited(context, content.encode(), (old, new))
    assert content_after.decode() == after
    assert "edit 1: matched ignoring" in result_text(outcome)


@pytest.mark.parametrize(
    ("content", "old"),
    [
        ("\u201cx\u201d\n\u201cx\u201d\n", '"x"'),  # two places
        ("x = 1\n", "x =  "),  # the blanks it ends with are not trailing ones
        ("    x\n", "\tx"),  # indentation is never guessed
    ],
)
async def test_doubtful_look_alikes_do_not_match(context: FakeToolContext, content: str, old: str) -> None:
    outcome, after = await edited(context, content.encode(), (old, "new"))
    assert isinstance(outcome, Failed)
    assert after.decode() == content


async def test_a_miss_that_differs_only_in_indentation_is_explained(context: FakeToolContext) -> None:
    outcome, _ = await edited(context, b"def f():\n\treturn 1\n", ("def f():\n    return 1", "x"))
    assert "lines 1-2 differ from it only in whitespace" in result_text(outcome)
    assert "2\t\treturn 1" in result_text(outcome)


async def test_a_miss_shows_the_nearest_lines(context: FakeToolContext) -> None:
    content = b"import os\n\ndef total(values):\n    return sum(values)\n"
    outcome, _ = await edited(context, content, ("def total(items):\n    return sum(items)", "x"))
    assert "the most similar lines are:\n3\tdef total(values):\n4\t    return sum(values)" in result_text(
        outcome
    )


async def test_a_file_must_have_been_read(context: FakeToolContext) -> None:
    (context.cwd / "f").write_text("one")
    outcome = await run_tool(edit, {"path": "f", "edits": [{"old_text": "one", "new_text": "two"}]}, context)
    assert "read it first" in result_text(outcome)
    assert (context.cwd / "f").read_text() == "one"


async def test_a_file_that_changed_outside_is_refused_also_after_reopening(context: FakeToolContext) -> None:
    file = context.cwd / "f"
    arguments = {"path": "f", "edits": [{"old_text": "one", "new_text": "two"}]}
    file.write_text("one")
    await run_tool(read, {"path": "f"}, context)
    file.write_text("one and more")
    for each in (context, context.reopened()):
        outcome = await run_tool(edit, arguments, each)
        assert isinstance(outcome, Failed)
        assert "changed since" in result_text(outcome)
    assert file.read_text() == "one and more"
    file.write_text("one")
    assert isinstance(await run_tool(edit, arguments, context.reopened()), Ok)
    assert file.read_text() == "two"


async def test_edits_can_follow_each_other(context: FakeToolContext) -> None:
    await edited(context, b"one\n", ("one", "two"))
    again = {"path": "f.txt", "edits": [{"old_text": "two", "new_text": "three"}]}
    assert isinstance(await run_tool(edit, again, context), Ok)
    assert isinstance(await run_tool(edit, again, context), Failed)


@pytest.mark.parametrize(("path", "word"), [("nope", "no such file"), (".", "not a regular file")])
async def test_only_regular_files_can_be_edited(context: FakeToolContext, path: str, word: str) -> None:
    outcome = await run_tool(edit, {"path": path, "edits": [{"old_text": "a", "new_text": "b"}]}, context)
    assert word in result_text(outcome)


async def test_no_edits_are_an_error(context: FakeToolContext) -> None:
    outcome, _ = await edited(context, b"x")
    assert "edits is empty" in result_text(outcome)


LETTERS = st.text("abc\n", max_size=40)
MIXED = st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=30).map("".join)


@st.composite
def marked_texts(draw: st.DrawFn, gaps: st.SearchStrategy[str]) -> tuple[list[str], list[Replacement]]:
    """Gaps, and between each two of them an edit whose old text occurs nowhere else."""
    edits = []
    for number in range(draw(st.integers(1, 4))):
        old = draw(LETTERS) + f"<{number}>" + draw(LETTERS)
        new = draw(
            st.one_of(
                LETTERS, st.builds(lambda a, b, old=old: old[:a] + b + old[-a:], st.integers(0, 9), LETTERS)
            )
        )
        if new != old:
            edits.append(Replacement(old, new))
    return [draw(gaps) for _ in range(len(edits) + 1)], edits


@given(marked_texts(LETTERS), st.randoms(use_true_random=False))
def test_splicing_equals_replacing_one_after_the_other(
    drawn: tuple[list[str], list[Replacement]], random: Random
) -> None:
    gaps, edits = drawn
    text, expected = gaps[0], gaps[0]
    for edit_made, gap in zip(edits, gaps[1:], strict=True):
        text += edit_made.old_text + gap
        expected += edit_made.new_text + gap
    shuffled = random.sample(edits, len(edits))
    if shuffled:
        assert splice(text, plan(text, shuffled).splices) == expected


@given(st.lists(LETTERS, min_size=2, max_size=5), st.text("abc\n", min_size=1, max_size=3), LETTERS)
def test_replace_all_equals_pythons_replace(gaps: list[str], old: str, new: str) -> None:
    assume(old != new)
    text = old.join(gaps)
    assert splice(text, plan(text, [Replacement(old, new, replace_all=True)]).splices) == text.replace(
        old, new
    )


@given(MIXED, LETTERS, LETTERS, MIXED)
def test_lines_around_an_edit_keep_their_line_ends(before: str, around: str, new: str, after: str) -> None:
    old = f"{around}<0>{around}"
    mixed_old = old.replace("\n", "\r\n", 1)
    spliced = splice(
        before + mixed_old + after, plan(before + mixed_old + after, [Replacement(old, new)]).splices
    )
    assert spliced.startswith(before)
    assert spliced.endswith(after)
    assert spliced.replace("\r\n", "\n") == (before + new + after).replace("\r\n", "\n")


def test_a_plan_names_the_edit_that_fails(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="edit 2: old_text was not found"):
        plan("one", [Replacement("one", "1"), Replacement("zwei", "2")])
