"""Text in columns: it fits, it is aligned, and a terminal does not obey it."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from ostler.app.console import aligned
from ostler.schema.text import cells, cut, cut_start, one_line, short_ids

WORDS = st.text(st.sampled_from("ab 日本é\u0301…"), max_size=30)


@given(WORDS, st.integers(0, 30))
def test_a_cut_text_fits_and_is_its_beginning(text: str, width: int) -> None:
    result = cut(text, width)
    assert cells(result) <= width
    assert result == text or width == 0 or (result[-1] == "…" and text.startswith(result[:-1]))
    assert result == text or cells(text) > width


@given(WORDS, st.integers(1, 30))
def test_a_text_cut_on_the_left_keeps_its_end(text: str, width: int) -> None:
    result = cut_start(text, width)
    assert cells(result) <= width
    assert text.endswith(result.removeprefix("…"))


@given(st.lists(st.tuples(WORDS, WORDS, st.just("|")), min_size=1, max_size=5))
def test_columns_begin_at_the_same_place(rows: list[tuple[str, str, str]]) -> None:
    assert len({cells(line) for line in aligned(rows)}) == 1


@given(st.text())
def test_a_line_has_no_control_characters(text: str) -> None:
    categories = {unicodedata.category(character) for character in one_line(text) if character != "\u200d"}
    assert not categories & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.sets(st.text("abc", min_size=10, max_size=10), min_size=1, max_size=30))
def test_short_ids_name_one_session_each(ids: set[str]) -> None:
    short = short_ids(sorted(ids))
    assert set(short) == ids
    for one, beginning in short.items():
        assert [other for other in ids if other.startswith(beginning)] == [one]
