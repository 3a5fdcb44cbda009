"""Front matter: what is parsed, and what is refused instead of guessed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.context.markdown import DEEPEST, Document, InvalidFrontMatter, read_front_matter


def fields(text: str) -> dict[str, Any]:
    return read_front_matter(f"---\n{text}\n---\nbody").fields


def complaint(text: str) -> str:
    with pytest.raises(InvalidFrontMatter) as refused:
        fields(text)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_text_without_front_matter_is_all_body() -> None:
    for text in ("", "# Title\n---\nname: x\n---\n", " ---\nname: x\n---", "----\n"):
        assert read_front_matter(text) == Document({}, text)


def test_fields_and_body_are_separated() -> None:
    document = read_front_matter("---\nname: reviewer\n---\n\nYou review.\n---\nAnd more.\n")
    assert document == Document({"name": "reviewer"}, "\nYou review.\n---\nAnd more.\n")
    assert read_front_matter("---\n---") == Document({}, "")
    assert read_front_matter("---\n# only a comment\n\n---\nx") == Document({}, "x")


def test_the_mark_and_the_line_ends_of_windows_do_not_matter() -> None:
    document = read_front_matter("\ufeff---\r\nname: a\r\ntext: |\r\n  b\r\n  c\r\n--- \r\nd\r\ne")
    assert document == Document({"name": "a", "text": "b\nc\n"}, "d\ne")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("Reads, and says.", "Reads, and says."),
        ("Read, Grep, Glob", "Read, Grep, Glob"),
        ("Use when: always. See http://x.example:80/a#b", "Use when: always. See http://x.example:80/a#b"),
        ('it\'s "so" [1] {2}', 'it\'s "so" [1] {2}'),
        ("text # a comment", "text"),
        ("", None),
        ("# a comment", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("12", 12),
        ("-3", -3),
        ("007", "007"),
        ("1.10", "1.10"),
        ("2026-11-16", "2026-11-16"),
        ("9" * 5000, "9" * 5000),
        ('"a: b # c"', "a: b # c"),
        (r'"\"quoted\"\n\u00e9 \\"', '"quoted"\né \\'),
        ("'it''s' # so", "it's"),
        ('"12"', "12"),
        ("''", ""),
        ("[]", []),
        ("[ ]  # none", []),
        ("[Read, Grep,]", ["Read", "Grep"]),
        (
            "[ 'a, b' , \"c]\", 3, true, null, Bash(git diff) ]",
            ["a, b", "c]", 3, True, None, "Bash(git diff)"],
        ),
    ],
)
def test_a_one_line_value_is_parsed(written: str, value: Any) -> None:
    read = fields(f"before: x\nkey: {written}\nafter: y")
    assert read == {"before": "x", "key": value, "after": "y"}
    assert type(read["key"]) is type(value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("|\n  a\n    b\n\n  c: # d\n\n", "a\n  b\n\nc: # d\n"),
        ("|-\n  a\n  b\n", "a\nb"),
        ("|+ # kept\n  a\n\n", "a\n\n\n"),
        (">\n  a\n  b\n\n  c\n    d\n  e\n", "a b\nc\n  d\ne\n"),
        (">-\n\n  a\n  b", "\na b"),
        ("|", ""),
        ("\n  - a\n  - 'b: c' # d\n\n  # e\n  - 3\n  -\n", ["a", "b: c", 3, None]),
        ("\n- a\n-  b\n", ["a", "b"]),
        ("\n  - >\n    a\n    b\n  - c", ["a b\n", "c"]),
        ("\n  write: false\n  'git *': ask\n  deep:\n    er: [x]\n",
         {"write": False, "git *": "ask", "deep": {"er": ["x"]}}),
        ("\n  - matcher: Bash\n    hooks:\n    - type: command\n  - - a\n    - b",
         [{"matcher": "Bash", "hooks": [{"type": "command"}]}, ["a", "b"]]),
        ("one\n  two\n\n  three # end", "one two\nthree"),
        ("\n  one\n  two", "one two"),
        ("'one\n  two''s\n\n  three'", "one two's\nthree"),
        ('"one: \n  two\\n"', "one: two\n"),
        ('"one\n\n\n  two\\\\\n  three"', "one\n\ntwo\\ three"),
    ],
)  # fmt: skip
def test_a_value_may_go_on_below_its_name(written: str, value: Any) -> None:
    assert fields(f"key: {written}\nafter: y") == {"key": value, "after": "y"}


@pytest.mark.parametrize(
    ("written", "line", "why"),
    [
        ("name", 2, "expected `name: value`"),
        ("a: b\nname:value", 3, "a space after the colon"),
        ("- a", 2, "expected `name: value`"),
        ("a: b\n\n# c\na: d", 5, "'a' is defined twice"),
        ("a: b\n\tc: d", 3, "with spaces, not with tabs"),
        ("  a: b", 2, "indented further"),
        ("a:\n    b: c\n  d: e", 4, "indented further"),
        ("a:\n  - b\n   - c: d", 3, "a text of several lines with a colon"),
        ("a: b\n  c: d", 2, "a text of several lines with a colon"),
        ("a:\n  Use when: always", 3, "a text with a colon in it needs quotes"),
        ("a:\n- Use when: always", 3, "a text with a colon in it needs quotes"),
        ("a: [b: c]", 2, "a text with a colon in it needs quotes"),
        ("a: [b #c]", 2, "a text with # in it needs quotes"),
        ("a: [b, c", 2, "a list in brackets is [a, b, c] on one line"),
        ("a: [b,\n  c]", 2, "on one line"),
        ("a: [b, [c]]", 2, "quote what has brackets"),
        ("a: [b] [c]", 2, "there is text after the end"),
        ("a: {b: c}", 2, "{ has a special meaning"),
        ("a: *b", 2, "* has a special meaning"),
        ("a: &b c", 2, "& has a special meaning"),
        ("a: !b c", 2, "! has a special meaning"),
        ("a: @b", 2, "@ has a special meaning"),
        ("a: - b", 2, "- has a special meaning"),
        ("a: 'b' c", 2, "there is text after the end"),
        ('x: y\na: "b', 3, 'the text has no " at its end'),
        ("a: 'b\nc: d'", 2, "the text has no ' at its end"),
        ('a: "b\\\n\n  c"', 2, "a backslash at the end of a line"),
        (r'a: "\x41"', 2, "a backslash begins"),
        (r'a: "\ud800"', 2, "a backslash begins"),
        ("a: |2\n    b", 2, "after | only + or - may follow"),
        ("a: > b", 2, "after > only + or - may follow"),
        ("a: |\n     \n  b", 2, "a line of too many spaces"),
        ("\n".join(f"{' ' * depth}a:" for depth in range(DEEPEST + 2)), DEEPEST + 3, "nested more than"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(written: str, line: int, why: str) -> None:
    refused = complaint(written)
    assert refused.startswith(f"line {line}: ") and why in refused


def test_front_matter_without_an_end_is_refused() -> None:
    with pytest.raises(InvalidFrontMatter, match=r"^line 1: .*a line `---` is missing"):
        read_front_matter("---\nname: x\n")


ATOMS = [
    "a", "key: ", "b:", "- ", "-", "\n", "\n  ", "\n    ", "\n\n", '"', "'", "\\", "[", "]", ", ", "#",
    " # c", ": ", ":", ">", "|", "|-", ">+", "true", "12", "x y", "\t", " ", "~", "{", "&", "?", "---",
    "\r\n", "\ud800", "é",
]  # fmt: skip


@given(st.text() | st.lists(st.sampled_from(ATOMS)).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\nbody", f"---\nkey: {text}\n---"):
        try:
            document = read_front_matter(whole)
        except InvalidFrontMatter as refused:
            assert 1 <= refused.line <= whole.count("\n") + whole.count("\r") + 1
        else:
            assert whole.replace("\r\n", "\n").replace("\r", "\n").endswith(document.body)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(st.characters(codec="utf-8"))))
def test_any_quoted_string_round_trips(values: dict[str, str]) -> None:
    def single(text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    plain = {name: " ".join(text.split()) for name, text in values.items()}
    assert fields("\n".join(f"{name}: {single(text)}" for name, text in plain.items())) == plain
    assert fields("\n".join(f"{name}: [{single(text)}]" for name, text in plain.items())) == {
        name: [text] for name, text in plain.items()
    }
    blocks = {name: text.replace("\r", "").strip() for name, text in values.items()}
    written = "\n".join(
        f"{name}: |-\n" + "\n".join(f"  {line}" for line in text.split("\n")) for name, text in blocks.items()
    )
    assert fields(written) == blocks
