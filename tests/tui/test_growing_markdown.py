from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ostler.faces.tui.drawing.growing_markdown import PORTION, GrowingMarkdown, Part, parts_of

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
def test_parts_and_rest_are_the_text_however_it_is_cut(text: str, places: list[int]) -> None:
    growing = GrowingMarkdown()
    closed: list[Part] = []
    fed = ""
    for delta in cut(text, places):
        closed += growing.feed(delta)
        fed += delta
        assert "".join(part.text for part in closed) + growing.rest == fed
    closed += growing.finish()
    assert "".join(part.text for part in closed) == text
    assert growing.rest == ""
    assert closed == parts_of(text)


def shapes(parser: MarkdownIt, text: str) -> Iterator[tuple[str, str, str]]:
    for token in parser.parse(text):
        yield token.type, token.info, token.content


@settings(max_examples=20000)
@given(st.lists(st.sampled_from(USUAL), max_size=14).map("\n".join))
@example("> quote\n2. two")
@example("- item\n\n one")
@example("\n===\ntext")
def test_parts_read_one_by_one_say_what_the_whole_text_says(text: str) -> None:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    one_by_one = [shape for part in parts_of(text) for shape in shapes(parser, part.text)]
    assert one_by_one == list(shapes(parser, text))
