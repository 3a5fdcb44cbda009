"""The part of a screen that is written to a window, read back by an emulator of the window's size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ostler.drivers.screen import Screen, open_screen
from ostler.tui.attach.viewport import Painter, Part, cut_row, part_of
from tests.drivers.emulators import EMULATORS

ROWS = 5
COLUMNS = 20


@pytest.fixture(params=EMULATORS)
def screen(request: pytest.FixtureRequest) -> Screen:
    return open_screen(40, 30, emulator=request.param)


def painted_rows(window: Screen, painter: Painter, screen: Screen, top: int | None = None) -> list[str]:
    part = part_of(screen, COLUMNS, ROWS, top)
    window.feed(painter.painted(screen, part, ROWS + 1, "status"))
    return list(window.lines()[: ROWS + 1])


def test_the_part_with_the_cursor_and_the_end_is_visible(screen: Screen) -> None:
    window, painter = open_screen(COLUMNS, 10), Painter()
    screen.feed(b"\r\n".join(b"row %d" % number for number in range(9)))
    assert painted_rows(window, painter, screen) == ["row 4", "row 5", "row 6", "row 7", "row 8", "status"]
    cursor = window.cursor()
    assert (cursor.column, cursor.row, cursor.visible) == (5, 4, True)
    assert painted_rows(window, painter, screen, top=0) == [
        "row 0",
        "row 1",
        "row 2",
        "row 3",
        "row 4",
        "status",
    ]
    assert not window.cursor().visible
    screen.feed(b"\x1b[2;1H")
    assert painted_rows(window, painter, screen) == ["row 1", "row 2", "row 3", "row 4", "row 5", "status"]


def test_the_scrollback_is_visible_when_scrolled_back(screen: Screen) -> None:
    window, painter = open_screen(COLUMNS, 10), Painter()
    screen.feed(b"\r\n".join(b"row %d" % number for number in range(40)))
    assert painted_rows(window, painter, screen, top=-10)[:2] == ["row 0", "row 1"]
    assert painted_rows(window, painter, screen, top=-2)[:4] == ["row 8", "row 9", "row 10", "row 11"]


def test_many_empty_rows_are_collapsed_into_one(screen: Screen) -> None:
    window, painter = open_screen(COLUMNS, 10), Painter()
    screen.feed(b"first\r\n\r\nsecond\x1b[28;1Hbox\r\nfoot\x1b[28;4H")
    assert painted_rows(window, painter, screen) == ["", "second", "⋯", "box", "foot", "status"]
    cursor = window.cursor()
    assert (cursor.column, cursor.row, cursor.visible) == (3, 3, True)
    part = part_of(screen, COLUMNS, ROWS)
    assert part.words(screen) == "rows 2-3, 28-29 of 30, columns 1-20 of 40"
    assert painted_rows(window, painter, screen, top=part.top - 1)[:3] == ["first", "", "second"]
    assert painted_rows(window, painter, screen, top=99)[3:] == ["box", "foot", "status"]
    screen.feed(b"\x1b[15;2H")
    assert painted_rows(window, painter, screen) == ["⋯", "", "⋯", "box", "foot", "status"]
    assert window.cursor().row == 1
    assert part_of(screen, COLUMNS, 30).rows == tuple(range(30))


def test_only_changed_rows_are_written(screen: Screen) -> None:
    painter, part = Painter(), Part(tuple(range(ROWS)), 0, COLUMNS)
    screen.feed(b"\x1b[31mred\x1b[0m\r\nsecond\r\nthird")
    first = painter.painted(screen, part, ROWS + 1, "status")
    assert b"red" in first and b"\x1b[3" in first
    screen.feed(b"!")
    again = painter.painted(screen, part, ROWS + 1, "status")
    assert b"third!" in again
    assert b"second" not in again and b"status" not in again
    painter.forget()
    assert b"second" in painter.painted(screen, part, ROWS + 1, "status")


def test_keyboard_modes_of_the_agent_are_applied(screen: Screen) -> None:
    painter, part = Painter(), Part(tuple(range(ROWS)), 0, COLUMNS)
    screen.feed(b"\x1b[?2004h\x1b[?1h")
    assert b"\x1b[?2004h\x1b[?1h" in painter.painted(screen, part, ROWS + 1, "")
    assert b"?2004" not in painter.painted(screen, part, ROWS + 1, "")
    screen.feed(b"\x1b[?2004l")
    assert b"\x1b[?2004l" in painter.painted(screen, part, ROWS + 1, "")


def test_a_wide_character_at_the_edge_does_not_shift_other_cells() -> None:
    assert cut_row("a你好b", 0, 4) == "a你"
    assert cut_row("a你好b", 1, 4) == "你好"
    assert cut_row("a你好b", 2, 4) == " 好b"
    assert cut_row("\x1b[31ma你好\x1b[0mb", 5, 4) == "\x1b[31m\x1b[0mb"


def test_control_sequences_are_removed_from_rows() -> None:
    assert cut_row("a\x1b[2Jb\x1b]0;title\x07c\x9bd", 0, 20).startswith("ab")
    assert "\x1b" not in cut_row("\x1b[?25h\x1b7\x1b(0x", 0, 20)


@given(st.text(st.sampled_from("ab 你🙂é"), max_size=30), st.integers(0, 40), st.integers(1, 40))
def test_a_cut_row_is_no_wider_than_its_content(text: str, left: int, columns: int) -> None:
    width = cell_len(cut_row(text, left, columns))
    there = max(0, min(cell_len(text) - left, columns))
    assert there - 1 <= width <= there
