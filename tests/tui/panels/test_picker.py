"""Pickers without a terminal: keys in, rows out."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ostler.app.default_model import Candidate, fallback_candidates
from ostler.core.store import SessionSummary
from ostler.store.memory import MemoryStore
from ostler.tui.commands.models import model_choice
from ostler.tui.commands.sessions import PAGE, SessionPages
from ostler.tui.model_setup import fallback_choices
from ostler.tui.panels import picker as picker_module
from ostler.tui.panels.panel import Panels, ReadingPanel, TextLine
from ostler.tui.panels.picker import Choice, Picked, Picker
from ostler.tui.render.spans import Row

FRUIT = [
    Choice("apple", 1, ("red",)),
    Choice("banana", 2, ("yellow",), about="peels it"),
    Choice("cherry", 3),
]


def picker(choices: Sequence[Choice], **options: object) -> Picker:
    return Picker("fruit", choices, lambda: None, **options)  # type: ignore[arg-type]


def plain(rows: Sequence[str]) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", row) for row in rows]


def press(one: Picker | TextLine | ReadingPanel, *keys: str) -> None:
    for key in keys:
        one.key(key)


async def picked_with(one: Picker, *keys: str) -> Picked | None:
    asking = asyncio.ensure_future(one.ask(Panels(lambda: None)))
    await asyncio.sleep(0)
    press(one, *keys)
    return await asyncio.wait_for(asking, 60)


async def test_enter_chooses_the_marked_row_and_closes_the_panel() -> None:
    panels = Panels(lambda: None)
    one = picker(FRUIT)
    asking = asyncio.ensure_future(one.ask(panels))
    await asyncio.sleep(0)
    assert panels.present is one
    press(one, "down", "enter")
    picked = await asking
    assert picked is not None and picked.choice.value == 2
    assert panels.present is None


async def test_escape_chooses_nothing() -> None:
    assert await picked_with(picker(FRUIT), "esc") is None


async def test_typing_filters_the_list_by_any_column() -> None:
    one = picker(FRUIT)
    press(one, *"yel")
    assert [choice.text for choice in [one.present] if choice] == ["banana"] and len(one) == 1
    press(one, "backspace", "backspace", "backspace")
    assert len(one) == 3
    picked = await picked_with(picker(FRUIT), *"chy", "enter")
    assert picked is not None and (picked.choice.value, picked.query) == (3, "chy")


async def test_a_picker_key_chooses_and_is_reported() -> None:
    one = picker(FRUIT, keys={"ctrl+d": "deletes"})
    assert any("ctrl+d deletes" in row for row in plain(one.rows(60, 12)))
    picked = await picked_with(one, "ctrl+d")
    assert picked is not None and picked.key == "ctrl+d"


def test_the_marked_row_describes_what_choosing_it_does() -> None:
    one = picker(FRUIT)
    press(one, "down")
    rows = plain(one.rows(60, 12))
    assert any("❯ banana" in row for row in rows)
    assert any("peels it" in row for row in rows)


def test_the_current_choice_is_marked_first() -> None:
    one = picker([*FRUIT, Choice("date", 4, is_present=True)])
    assert one.present is not None and one.present.value == 4


def test_moving_the_mark_calls_back_for_a_preview() -> None:
    moves: list[object] = []
    one = picker(FRUIT, moved=lambda choice: moves.append(choice.value))
    press(one, "down", "down", "down", "up")
    assert moves == [2, 3, 1, 3]


def test_an_empty_list_shows_a_message_and_offers_no_choice() -> None:
    one = picker([], empty="there is no fruit")
    press(one, "down", "up", "pgdown", "end", "enter")
    assert any("there is no fruit" in row for row in plain(one.rows(60, 12)))


def test_a_long_list_is_paged_and_only_visible_rows_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    real = picker_module._text

    def counted(text: str, positions: Sequence[int], room: int, style: str) -> Row:
        drawn.append(text)
        return real(text, positions, room, style)

    monkeypatch.setattr(picker_module, "_text", counted)
    one = picker([Choice(f"row {number}", number) for number in range(20_000)])
    rows = plain(one.rows(60, 12))
    assert len(rows) == 12 and len(drawn) <= 10
    press(one, "pgdown")
    assert one.present is not None and one.present.value == 9
    press(one, "end")
    assert any("❯ row 19999" in row for row in plain(one.rows(60, 12)))
    press(one, "down")
    assert one.present.value == 0
    assert len(drawn) <= 30


async def test_more_rows_are_loaded_near_the_end() -> None:
    fetched: list[int] = []

    async def more() -> list[Choice]:
        fetched.append(len(fetched))
        return [] if len(fetched) > 3 else [Choice(f"page {len(fetched)} {at}") for at in range(100)]

    one = picker([Choice(f"first {at}") for at in range(100)], more=more)
    asking = asyncio.ensure_future(one.ask(Panels(lambda: None)))
    await asyncio.sleep(0)
    assert not fetched
    press(one, "end")
    for _ in range(5):
        await asyncio.sleep(0)
    assert fetched == [0] and len(one) == 200
    press(one, *"page 3 99")
    for _ in range(20):
        await asyncio.sleep(0)
    assert one.present is not None and one.present.text == "page 3 99"
    press(one, "esc")
    assert await asking is None


@given(
    texts=st.lists(st.text(max_size=40), max_size=30),
    cells=st.lists(st.text(max_size=30), max_size=3),
    width=st.integers(12, 120),
    most=st.integers(5, 30),
    keys=st.lists(
        st.sampled_from(["up", "down", "pgup", "pgdown", "home", "end", "a", "backspace"]), max_size=12
    ),
)
def test_rows_fit_into_any_terminal(
    texts: list[str], cells: list[str], width: int, most: int, keys: list[str]
) -> None:
    one = picker([Choice(text, cells=tuple(cells)) for text in texts], keys={"tab": "more"})
    for key in ["", *keys]:
        press(one, *filter(None, [key]))
        rows = plain(one.rows(width, most))
        assert len(rows) <= most
        assert all(cell_len(row) <= width and "\x1b" not in row and "\n" not in row for row in rows)


def test_columns_are_dropped_on_narrow_terminals() -> None:
    choice = Choice("a title that says much", cells=("2h", "completed", "of a folder far away"))
    wide = "\n".join(plain(picker([choice]).rows(100, 8)))
    narrow = "\n".join(plain(picker([choice]).rows(40, 8)))
    assert "completed" in wide and "far away" in wide
    assert "a title that" in narrow and "far away" not in narrow


async def test_a_secret_is_never_drawn() -> None:
    one = TextLine("key for somebody", lambda: None, is_secret=True)
    asking = asyncio.ensure_future(one.ask(Panels(lambda: None)))
    await asyncio.sleep(0)
    press(one, *"sk-secretx", "backspace")
    assert "secret" not in "".join(plain(one.rows(60, 8)))
    press(one, "enter")
    assert await asking == "sk-secret"


def test_a_reading_panel_scrolls_and_closes_with_escape() -> None:
    closed: list[bool] = []
    panel = ReadingPanel("btw", "why?", lambda: None, lambda: closed.append(True))
    panel.text = "\n\n".join(f"paragraph {number}" for number in range(30))
    first = plain(panel.rows(60, 10))
    assert any("paragraph 0" in row for row in first) and len(first) <= 10
    press(panel, "end")
    assert any("paragraph 29" in row for row in plain(panel.rows(60, 10)))
    press(panel, "home", "pgdown")
    assert not any("paragraph 0" in row for row in plain(panel.rows(60, 10)))
    assert not panel.takes("enter")
    press(panel, "esc")
    assert closed == [True]


class _Index(MemoryStore):
    """Any number of sessions, without a file."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.limits: list[int | None] = []
        self._known = [
            SessionSummary(
                f"ses_{at}", "/w", 0, 10**6 - at, 3, preview=f"prompt {at}", child_of="" if at % 5 else "x"
            )
            for at in range(number)
        ]

    async def sessions(
        self, *, cwd: str | None = None, limit: int | None = None, prefix: str = ""
    ) -> list[SessionSummary]:
        self.limits.append(limit)
        return self._known[:limit]


async def test_sessions_are_paged_without_child_sessions() -> None:
    store = _Index(1000)
    pages = SessionPages(store, None, "ses_1")
    first = await pages.more()
    assert store.limits == [PAGE]
    assert first[0].is_present and first[0].text == "prompt 1" and len(first) == PAGE * 4 // 5
    read = [*first]
    while page := await pages.more():
        read += page
    assert [one.value for one in read] == [f"ses_{at}" for at in range(1000) if at % 5]


def test_a_failed_model_and_providers_with_a_refused_key_are_not_offered() -> None:
    candidates = [
        Candidate("a/one", "a", is_default=True),
        Candidate("a/two", "a"),
        Candidate("b/one", "b"),
        Candidate("b/best", "b", is_default=True),
        Candidate("c/one", "c", to_do="needs a key"),
    ]
    assert [one.name for one in fallback_candidates(candidates, "a/one", "overloaded")] == [
        "b/best",
        "b/one",
        "a/two",
    ]
    assert [one.name for one in fallback_candidates(candidates, "a/one", "authentication_failed")] == [
        "b/best",
        "b/one",
    ]


def test_the_failed_model_is_listed_before_others_of_its_provider() -> None:
    others = [Candidate("b/best", "b"), Candidate("a/oldest", "a")]
    offered = [one.text for one in fallback_choices(others, "a/one", "connection_failed")]
    assert offered == ["b/best", "a/one again", "a/oldest"]


def test_a_model_without_a_key_says_how_to_set_one() -> None:
    choice = model_choice(Candidate("c/one", "c", to_do="needs a key: /key set c"), "")
    assert choice.about == "needs a key: /key set c"
    assert "no key" in choice.cells
