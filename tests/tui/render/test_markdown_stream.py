from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ostler.tui.render import markdown_stream
from ostler.tui.render.markdown_stream import PORTION, MarkdownStream, Part, parts_of

USUAL = ["", "", "text", "more *text*", "# Heading", "***", "- item", "* item", "  - nested", "  inside"]
USUAL += ["1. one", "2. two", "> quote", "> - item", "a | b", "|---|---|", "| 1 | 2 |", "```", "```py", "~~~"]
USUAL += ["  ```", "   ```", "     far", "x = 1", "10. ten", "-    wide", "<div>", "**bold**", "    deep"]
ODD = ["===", "---", "-", ">", "3) three", "- ```", "\tdeep", "[a]: http://b.c", "\\", "\r", " one", "~~~ x"]
DOCUMENTS = st.lists(st.sampled_from(USUAL + ODD), max_size=14).map("\n".join)
LONG_DOCUMENTS = st.tuples(DOCUMENTS, st.sampled_from(["x = 1", "- item", "1. one", '"""', "/*"])).map(
    lambda both: f"{both[0]}\n" + f"{both[1]}\n" * (3 * PORTION) + both[0]
)
ANYTHING = st.text(st.sampled_from(" \n\t`~#->|*1.ax\r=_"), max_size=80) | DOCUMENTS | LONG_DOCUMENTS


def cut(text: str, places: list[int]) -> list[str]:
    borders = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(borders)]


@given(ANYTHING, st.lists(st.integers(0, 10_000), max_size=12))
def test_parts_and_remainder_are_the_text_for_any_deltas(text: str, places: list[int]) -> None:
    growing = MarkdownStream()
    closed: list[Part] = []
    fed = ""
    for delta in cut(text, places):
        closed += growing.feed(delta)
        fed += delta
        assert "".join(part.text for part in closed) + growing.remainder == fed
    closed += growing.finish()
    assert "".join(part.text for part in closed) == text
    assert growing.remainder == ""
    assert closed == parts_of(text)


def shapes(parser: MarkdownIt, text: str) -> Iterator[tuple[str, str, str]]:
    for token in parser.parse(text):
        yield token.type, token.info, token.content


@settings(max_examples=200)
@given(st.lists(st.sampled_from(USUAL), max_size=14).map("\n".join))
@example("> quote\n2. two")
@example("- item\n\n one")
@example("\n===\ntext")
def test_parts_parsed_one_by_one_equal_the_whole_text(text: str) -> None:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    one_by_one = [shape for part in parts_of(text) for shape in shapes(parser, part.text)]
    assert one_by_one == list(shapes(parser, text))


def texts(text: str) -> list[str]:
    return [part.text for part in parts_of(text)]


def test_each_kind_of_block_is_a_part() -> None:
    blocks = ["# Head\n", "Text\nmore\n\n", "- item\n\n  more\n\n- next\n\n", "> quote\nlazy\n\n", "***\n"]
    blocks += [
        "| a |\n|---|\n| b |\n\n",
        "```py\ncode\n\n# no heading\n```\n",
        "    indented\n\n",
        "1. one\n\n",
        "End",
    ]
    assert texts("".join(blocks)) == blocks


def test_a_block_is_closed_once_no_later_text_can_change_it() -> None:
    growing = MarkdownStream()
    assert [part.text for part in growing.feed("# Head\nText")] == ["# Head\n"]
    assert growing.feed("\n- item\n\n") == [Part("Text\n", begins=False)]
    assert growing.feed("  inside\n\nAfter") == []
    assert [part.text for part in growing.feed(" it\n")] == ["- item\n\n  inside\n\n"]
    assert growing.remainder == "After it\n"


def test_code_in_an_item_ends_where_the_item_ends() -> None:
    assert texts("1. Do:\n   ```sh\n   # no heading\n\n   ls\n   ```\nThen this.\n") == [
        "1. Do:\n   ```sh\n   # no heading\n\n   ls\n   ```\n",
        "Then this.\n",
    ]


def test_a_fence_has_the_span_and_language_of_its_code() -> None:
    (part,) = parts_of("\n  ~~~ python title\n  x = 1\n  ```\n  ~~~~\n")
    assert part.fence is not None
    assert (part.fence.language, part.fence.indent) == ("python", 2)
    assert part.text[part.fence.start : part.fence.end] == "  x = 1\n  ```\n"


@pytest.mark.parametrize("language", ["", "nonsense", "python", "json", "c"])
def test_the_open_part_of_long_code_stays_small(language: str) -> None:
    growing = MarkdownStream()
    growing.feed(f"```{language}\n")
    for number in range(20 * PORTION):
        growing.feed(f"x = {number};\n")
        assert growing.remainder.count("\n") <= PORTION + 1


def test_code_is_not_split_inside_an_open_comment() -> None:
    comment = "/*\n" + " * return if\n" * (PORTION + 10) + " */\n"
    parts = parts_of("```js\nlet x = 1\n" + comment + "let y = 2\n" * PORTION + "```\n")
    assert len(parts) > 1
    assert not any(part.text.startswith(" *") for part in parts)


def test_portions_of_a_long_list_keep_their_numbers() -> None:
    parts = parts_of("5. item\n   - 1. inside\n" * PORTION)
    assert [part.continues for part in parts] == [False, True]
    assert parts[1].number == 5 + PORTION // 2


def test_the_cost_does_not_depend_on_the_size_of_deltas() -> None:
    text = "A paragraph.\n\n- item\n" * 100
    assert steps(text, 1) < 3 * steps(text, len(text)) + 30 * len(text)
    assert steps(text * 4, 1) < 5 * steps(text, 1)


def steps(text: str, size: int) -> int:
    """The number of executed lines of the module."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != markdown_stream.__file__:
            return None
        count += event == "line"
        return trace

    growing = MarkdownStream()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for at in range(0, len(text), size):
            growing.feed(text[at : at + size])
    finally:
        sys.settrace(before)
    return count
