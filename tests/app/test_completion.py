"""Fuzzy matching: which texts match, in which order, and at what cost."""

from __future__ import annotations

import random
import re
import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.app import completion
from ostler.app.completion import best, folded, match


def order(query: str, *texts: str) -> list[str]:
    return [one.text for one in best(query, texts, len(texts))]


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("app", "src/app.py", "app/src.py"),  # in the last part
        ("app", "src/app.py", "src/apparatus.py"),  # a whole word
        ("app", "src/app.py", "src/wrapper.py"),  # at a word's start
        ("fb", "foo_bar.py", "affable.py"),  # initials
        ("fb", "fooBar.py", "foobar.py"),  # camel case
        ("fb", "foo/bar.py", "foo_xbar.py"),  # parts of a path
        ("test", "test.py", "t_e_s_t.py"),  # a run
        ("con", "config.toml", "c/o/n.toml"),
        ("abc", "axbc", "axxxxxxbc"),  # a smaller gap
        ("md", "README.md", "models/driver.py"),
        ("tuiapp", "src/ostler/tui/inline_app.py", "src/ostler/tools/utility/support/apply_patch.py"),
        ("src/ost", "src/ostler/__init__.py", "src/other/stones.py"),
        ("same", "same", "same_but_longer"),
    ],
)
def test_the_likeliest_match_comes_first(query: str, better: str, worse: str) -> None:
    assert order(query, worse, better)[0] == better
    assert order(query, better, worse)[0] == better


@pytest.mark.parametrize(
    ("query", "text", "positions"),
    [
        ("fb", "foo_bar", (0, 4)),
        ("bar", "bar/xbar/bar.py", (9, 10, 11)),
        ("gf", "getFile", (0, 3)),
        ("", "anything", ()),
        ("py src", "src/a.py", (0, 1, 2, 6, 7)),
        ("aa", "aXa", (0, 2)),
        ("ß", "Straße", (4,)),
        ("x", "İİx", (2,)),
        ("[^a]", "b[^a]", (1, 2, 3, 4)),
        ("b", "a\nb", (2,)),
    ],
)
def test_a_match_has_its_positions(query: str, text: str, positions: tuple[int, ...]) -> None:
    result = match(query, text)
    assert result is not None
    assert result.positions == positions


@pytest.mark.parametrize(
    ("query", "text"),
    [("ba", "abc"), ("aab", "ab"), ("x", ""), ("src zz", "src/a.py"), ("Read", "read.py")],
)
def test_a_text_without_a_letter_of_the_query_does_not_match(query: str, text: str) -> None:
    assert match(query, text) is None


def test_lower_case_matches_both_cases_and_upper_case_only_itself() -> None:
    assert order("readme", "README.md", "readme.txt") == ["README.md", "readme.txt"]
    assert order("READ", "README.md", "readme.txt") == ["README.md"]


def test_equal_matches_keep_their_order_up_to_the_limit() -> None:
    assert [one.place for one in best("a", ["a1", "a2", "a", "b"], 2)] == [2, 0]
    assert order("", "long one", "b", "a") == ["b", "a", "long one"]


def score_of(text: str, places: tuple[int, ...]) -> int:
    """Said once more, in the plainest way."""
    total = 0
    last_part = text.rfind("/", 0, -1)
    for number, at in enumerate(places):
        total += 16 + (3 if at > last_part else 0)
        left = text[at - 1] if at else "/"
        if not left.isalnum():
            total += 12 if left == "/" else 10
        elif text[at].isupper() and not left.isupper():
            total += 8
        if number:
            gap = at - places[number - 1] - 1
            total += -4 - gap if gap else 10
    return total + (4 if places[-1] + 1 == len(text) or not text[places[-1] + 1].isalnum() else 0)


@given(st.text("abB/_", min_size=1, max_size=4), st.text("abAB/_ ", max_size=10))
def test_the_score_is_that_of_the_best_alignment(query: str, text: str) -> None:
    searched = folded(text) if query == query.lower() else text
    ways = [
        places
        for places in combinations(range(len(text)), len(query))
        if all(searched[at] == letter for at, letter in zip(places, query, strict=True))
    ]
    result = match(query, text)
    if result is None:
        assert ways == []
        return
    assert result.positions in ways
    assert result.score == score_of(text, result.positions) == max(score_of(text, one) for one in ways)


@given(st.text(max_size=6), st.text(max_size=20))
def test_any_text_can_be_searched_in_any_text(query: str, text: str) -> None:
    result = match(query, text)
    if result is not None:
        assert list(result.positions) == sorted(set(result.positions))
        assert all(0 <= at < len(text) for at in result.positions)
    assert match(text, text) is not None


def many_paths() -> list[str]:
    chosen = random.Random(7)
    words = ["source", "tests", "session", "model", "context", "editor", "terminal", "vendor", "README"]
    return [
        "/".join(chosen.choices(words, k=chosen.randint(2, 6))) + f"_{number}.py" for number in range(10_000)
    ]


@pytest.mark.parametrize("query", ["s", "te", "sessn", "editor", "src tst", "eeeee", "zz"])
def test_ten_thousand_paths_are_searched_between_two_keystrokes(query: str) -> None:
    paths = many_paths()
    seconds = []
    for _ in range(3):
        begun = time.thread_time()
        best(query, paths, 20)
        seconds.append(time.thread_time() - begun)
    assert min(seconds) < 0.1


def test_a_whole_name_is_found_among_very_many_matches() -> None:
    paths = [*many_paths(), "a/long/way/down/to/the/very/last/of/all/the/places/in/here/set.py"]
    assert len([path for path in paths if re.search("s.*e.*t", path)]) > completion.MOST_WEIGHED
    assert best("set", paths, 5)[0].text == paths[-1]


def test_a_long_text_that_nearly_matches_is_scanned_once() -> None:
    text = "ab" * 20_000
    begun = time.thread_time()
    assert match("ab" * 20 + "c", text) is None
    assert time.thread_time() - begun < 0.1
