from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator

import pytest

from ostler.drivers import format_message, new_text
from ostler.drivers.screen import Screen, cell_width, open_screen, read_out
from ostler.schema.errors import UsageError
from tests.drivers.emulators import ALL, EMULATORS
from tests.drivers.test_screen_escape_sequences import CASES, QUERIES
from tests.support.needed import missing


@pytest.fixture(params=EMULATORS)
def screen(request: pytest.FixtureRequest) -> Iterator[Screen]:
    opened = open_screen(20, 10, emulator=request.param, scrolled_off=50)
    yield opened
    opened.close()


def again(screen: Screen) -> Screen:
    """A fresh screen on the same emulator."""
    return type(screen)(screen.columns, screen.rows, 50)  # type: ignore[call-arg]


@pytest.mark.parametrize("emulator", ALL)
def test_each_emulator_can_be_named(emulator: str) -> None:
    if emulator not in EMULATORS:
        missing(emulator, "make .venv/.dev")
    open_screen(20, 10, emulator=emulator).close()


def test_scrolled_off_rows_are_stored_up_to_a_limit(screen: Screen) -> None:
    for number in range(30):
        screen.feed(b"line %d\r\n" % number)
    assert screen.scrolled_off() == tuple(f"line {number}" for number in range(21))
    assert screen.lines()[0] == "line 21"
    screen.feed(b"".join(b"more %d\r\n" % number for number in range(9_000)))
    assert screen.scrolled_off() == tuple(f"more {number}" for number in range(8_941, 8_991))


def test_an_answer_longer_than_the_screen_is_read_from_its_beginning(screen: Screen) -> None:
    screen.feed(b"hello\r\n> ")
    before = read_out(screen)
    screen.feed(b"count\r\n" + b"".join(b"line %d\r\n" % number for number in range(30)) + b"> ")
    shown = format_message("custom", new_text(before, read_out(screen), "custom"), "count")
    assert shown.split("\n") == [f"line {number}" for number in range(30)]


def test_what_a_program_erases_behind_itself_is_gone(screen: Screen) -> None:
    screen.feed(b"x\r\n" * 30 + b"\x1b[3J\x1b[2J\x1b[H")
    assert screen.scrolled_off() == ()
    assert screen.lines() == ("",) * 10


def test_the_alternate_screen_leaves_the_other_alone(screen: Screen) -> None:
    screen.feed(b"".join(b"line %d\r\n" % number for number in range(20)))
    before, behind = screen.lines(), screen.scrolled_off()
    screen.feed(b"\x1b[?1049h\x1b[2J\x1b[H" + b"full screen\r\n" * 30)
    assert screen.modes().alternate
    assert screen.lines()[0] == "full screen"
    assert screen.scrolled_off() == ()
    screen.feed(b"\x1b[?1049l")
    assert not screen.modes().alternate
    assert (screen.lines(), screen.scrolled_off()) == (before, behind)


def test_a_long_line_wraps_and_is_one_line_again_on_a_wider_screen(screen: Screen) -> None:
    screen.feed(b"short\r\n" + b"x" * 45 + b"\r\nend")
    assert screen.lines()[:5] == ("short", "x" * 20, "x" * 20, "x" * 5, "end")
    screen.resize(50, 10)
    assert "x" * 45 in screen.lines()


def test_a_resize_keeps_the_text(screen: Screen) -> None:
    screen.feed(b"one\r\n" + b"y" * 30 + b"\r\ntwo")
    screen.resize(40, 12)
    assert (screen.columns, screen.rows) == (40, 12)
    assert len(screen.lines()) == 12
    shown = [line for line in screen.lines() if line]
    assert "".join(shown) == "one" + "y" * 30 + "two"
    screen.resize(12, 10)
    shown = [*screen.scrolled_off(), *screen.lines()]
    assert "".join(shown) == "one" + "y" * 30 + "two"
    assert screen.feed(b"\x1b[18t") == b"\x1b[8;10;12t"


def test_a_program_cannot_resize_the_screen(screen: Screen) -> None:
    screen.feed(b"\x1b[?40h\x1b[?3h\x1b[8;50;100t" + b"a" * 21)
    assert screen.lines()[:2] == ("a" * 20, "a")
    assert screen.feed(b"\x1b[18t") == b"\x1b[8;10;20t"


def test_modes_that_matter_are_known(screen: Screen) -> None:
    assert not screen.modes().bracketed_paste
    screen.feed(b"\x1b[?2004h\x1b[?2026h\x1b[?25l")
    assert screen.modes().bracketed_paste
    assert screen.modes().drawing
    assert not screen.cursor().visible
    screen.feed(b"\x1b[?2026l\x1b[?25h")
    assert not screen.modes().drawing
    assert screen.cursor().visible


def test_a_snapshot_has_colours(screen: Screen) -> None:
    screen.feed(b"\x1b[31mred\x1b[0m \x1b[1;38;2;1;2;3mexact\x1b[0m")
    drawn = screen.ansi()
    assert "\x1b[31m" in drawn or "38;5;1m" in drawn
    assert "38;2;1;2;3" in drawn
    assert "red" in drawn


@pytest.mark.parametrize("data", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_a_snapshot_draws_the_same_screen(screen: Screen, data: bytes) -> None:
    screen.feed(data)
    copy = again(screen)
    copy.feed(screen.ansi().encode())
    assert copy.lines() == screen.lines()
    assert copy.cursor() == screen.cursor()
    assert copy.modes() == screen.modes()


def test_reading_twice_is_reading_once(screen: Screen) -> None:
    screen.feed(b"hello")
    assert screen.lines() is screen.lines()


PIECES = [
    *(case[1] for case in CASES),
    *(query[1] for query in QUERIES),
    b"\x1b[", b"\x1b]", b"\x1bP", b"\x1b_", b"\x1b\\", b"\x9b", b"\x90", b"\x07", b"\x18",
    b"\x1b[99999999999999999999b", b"x\x1b[65535b", b"\x1b[2147483648L", b"\x1b[65535S", b"\x1b[65535T",
    b"\x1b[-1;-1H", b"\x1b[0;0r", b"\x1b[9;2r", b"\x1b[?69h\x1b[5;3s", b"\x1b[?3h", b"\x1b[?1049h",
    b"\x1b[?1049l", b"\x1b[?1047h", b"\x1b[?47l", b"\x1b[!p", b"\x1bc", b"\x1b#8", b"\x1b#3", b"\x1b[?2l",
    b"\x1b<", b"\x1b[5i", b"\x1b[4i", b"\x1bPq" + b"~" * 500 + b"\x1b\\",
    b"\x1b_Ga=T,f=24,s=1000,v=1000;" + b"A" * 500 + b"\x1b\\",
    b"\x1b]52;c;" + b"QUJD" * 50 + b"\x07", b"\x1b]4;1;?\x07", b"\x1b]1337;File=:AAAA\x07", b"\x1b[?2026h",
    "👩‍👩‍👧‍👦".encode(), "\u0301" * 50 + "e", "\u200d", "\ufe0f", "\U000e0001", "\u202e",
]  # fmt: skip


def fed_with_anything(screen: Screen, rng: random.Random, inputs: int) -> None:
    pieces = [piece.encode() if isinstance(piece, str) else piece for piece in PIECES]
    slowest = 0.0
    for number in range(inputs):
        if number % 2:
            data = rng.randbytes(rng.randrange(1, 120))
        else:
            data = b"".join(rng.choices(pieces, k=rng.randrange(1, 5)))
            mutated = bytearray(data)
            for _ in range(rng.randrange(4)):
                mutated[rng.randrange(len(mutated))] = rng.randrange(256)
            data = bytes(mutated[: rng.randrange(len(mutated)) + 1])
        begun = time.process_time()
        answers = screen.feed(data)
        slowest = max(slowest, time.process_time() - begun)
        assert len(answers) < 100_000
        if number % 20 == 0:
            check_readable(screen)
        if number % 500 == 0:
            screen.resize(rng.randrange(10, 60), rng.randrange(10, 30))
    assert slowest < 2


def check_readable(screen: Screen) -> None:
    lines = screen.lines()
    assert len(lines) == screen.rows
    assert not any("\n" in line or "\x1b" in line or line != line.rstrip(" ") for line in lines)
    assert len(screen.scrolled_off()) <= 50
    cursor = screen.cursor()
    assert 0 <= cursor.column < screen.columns
    assert 0 <= cursor.row < screen.rows
    screen.modes()
    screen.ansi().encode()


@pytest.mark.parametrize("seed", range(2))
def test_no_bytes_make_it_raise_or_hang(screen: Screen, seed: int) -> None:
    fed_with_anything(screen, random.Random(seed), 5_000)


def test_the_first_emulator_that_is_installed_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ostler.drivers.ghostty", raising=False)
    monkeypatch.setitem(sys.modules, "pyghostty", None)
    monkeypatch.setitem(sys.modules, "bittty", None)
    with pytest.raises(UsageError, match=r"install ostler\[terminals\]"):
        open_screen()


@pytest.mark.parametrize(("columns", "rows"), [(9, 24), (80, 9), (80, 5001), (-1, -1)])
def test_a_size_that_makes_no_sense_is_refused(columns: int, rows: int) -> None:
    with pytest.raises(UsageError, match="10 to 5000 columns"):
        open_screen(columns, rows)


def test_wide_characters_take_two_columns() -> None:
    assert cell_width("木は") == 4
    assert cell_width("ab") == 2
