"""Escape sequences and what a terminal of 20 columns and 10 rows shows after them."""

from __future__ import annotations

import pytest

from ostler.drivers.screen import open_screen
from tests.drivers.emulators import EMULATORS

FULL = b"".join(b"%d\r\n" % number for number in range(9)) + b"9"

# name, bytes, the first rows (the rest must be blank), cursor as (column, row)
CASES: list[tuple[str, bytes, list[str], tuple[int, int]]] = [
    ("text and new lines", b"one\r\ntwo", ["one", "two"], (3, 1)),
    ("a line feed alone keeps the column", b"one\ntwo", ["one", "   two"], (6, 1)),
    ("a return writes over", b"hello\rJ", ["Jello"], (1, 0)),
    ("a backspace moves only", b"abc\b\bX", ["aXc"], (2, 0)),
    ("a backspace stops at the edge", b"\b\bX", ["X"], (1, 0)),
    ("tabs each eight columns", b"a\tb\tc", ["a       b       c"], (17, 0)),
    ("a tab stop of one's own", b"\x1b[3g\x1b[5G\x1bH\r\tx", ["    x"], (5, 0)),
    ("a full line does not wrap yet", b"a" * 20, ["a" * 20], (19, 0)),
    ("a full line wraps at the next character", b"a" * 20 + b"b", ["a" * 20, "b"], (1, 1)),
    ("a return takes the pending wrap back", b"a" * 20 + b"\rb", ["b" + "a" * 19], (1, 0)),
    ("no wrap when switched off", b"\x1b[?7l" + b"a" * 22 + b"b", ["a" * 19 + "b"], (19, 0)),
    ("position", b"\x1b[3;5Hx", ["", "", "    x"], (5, 2)),
    ("position by f", b"\x1b[3;5fx", ["", "", "    x"], (5, 2)),
    ("position beyond the edge", b"\x1b[999;999Hx", [""] * 9 + [" " * 19 + "x"], (19, 9)),
    ("up, down, forward, back", b"\x1b[5;5H\x1b[2A\x1b[3B\x1b[4C\x1b[1Dx", [""] * 5 + ["       x"], (8, 5)),
    ("next and previous line", b"\x1b[5;5H\x1b[2Ea\x1b[3Fb", [""] * 3 + ["b"] + [""] * 2 + ["a"], (1, 3)),
    ("column and row alone", b"\x1b[4G\x1b[3dx", ["", "", "   x"], (4, 2)),
    ("column and row by ` a e", b"\x1b[4`\x1b[2a\x1b[2ex", ["", "", "     x"], (6, 2)),
    ("erase to the end of the line", b"abcdef\x1b[3D\x1b[K", ["abc"], (3, 0)),
    ("erase to the start of the line", b"abcdef\x1b[3D\x1b[1K", ["    ef"], (3, 0)),
    ("erase the line", b"abcdef\x1b[2K", [""], (6, 0)),
    ("erase to the end of the screen", b"a\r\nb\r\nc\x1b[2;1H\x1b[J", ["a"], (0, 1)),
    ("erase to the start of the screen", b"a\r\nb\r\ncd\x1b[2;1H\x1b[1J", ["", "", "cd"], (0, 1)),
    ("erase the screen", b"a\r\nb\x1b[2J", [""], (1, 1)),
    ("erase characters", b"abcdef\x1b[2G\x1b[3X", ["a   ef"], (1, 0)),
    ("insert characters", b"abc\x1b[2G\x1b[2@", ["a  bc"], (1, 0)),
    ("delete characters", b"abcdef\x1b[2G\x1b[2P", ["adef"], (1, 0)),
    ("insert lines", b"a\r\nb\r\nc\x1b[2;1H\x1b[2L", ["a", "", "", "b", "c"], (0, 1)),
    ("delete lines", b"a\r\nb\r\nc\x1b[1;1H\x1b[1M", ["b", "c"], (0, 0)),
    ("scroll up", b"a\r\nb\r\nc\x1b[S", ["b", "c"], (1, 2)),
    ("scroll down", b"a\r\nb\x1b[2T", ["", "", "a", "b"], (1, 1)),
    ("the screen scrolls at its end", FULL + b"\r\nten", [*"123456789", "ten"], (3, 9)),
    (
        "a region scrolls alone",
        FULL + b"\x1b[2;4r\x1b[4;1H\nx",
        [*"023x456789"],
        (1, 3),
    ),
    ("reverse index scrolls down", FULL + b"\x1b[H\x1bMx", ["x", *"012345678"], (1, 0)),
    ("index and next line", b"a\x1bDb\x1bEc", ["a", " b", "c"], (1, 2)),
    ("origin mode counts from the region", b"\x1b[3;5r\x1b[?6h\x1b[1;1Hx", ["", "", "x"], (1, 2)),
    ("repeat", b"ab\x1b[3b", ["abbbb"], (5, 0)),
    ("insert mode", b"abc\x1b[2G\x1b[4hXY\x1b[4lZ", ["aXYZc"], (4, 0)),
    ("saved cursor by 7 and 8", b"\x1b[3;3H\x1b7\x1b[Hx\x1b8y", ["x", "", "  y"], (3, 2)),
    ("saved cursor by s and u", b"\x1b[3;3H\x1b[s\x1b[Hx\x1b[uy", ["x", "", "  y"], (3, 2)),
    (
        "keyboard protocol moves nothing",
        b"\x1b[3;3H\x1b[s\x1b[H\x1b[>1u\x1b[?u\x1b[=1u\x1b[<ux",
        ["x"],
        (1, 0),
    ),
    ("alternate screen", b"old\x1b[?1049h\x1b[Hnew", ["new"], (3, 0)),
    ("leaving the alternate screen", b"old\x1b[?1049h\x1b[2J\x1b[5;5Hnew\x1b[?1049l!", ["old!"], (4, 0)),
    ("alternate screen of old", b"old\x1b[?47h\x1b[2J\x1b[Hnew\x1b[?47l", ["old"], (3, 0)),
    ("line drawing", b"\x1b(0lqk\x1b(Bq", ["┌─┐q"], (4, 0)),
    ("line drawing by shift", b"\x1b)0\x0eqq\x0fq", ["──q"], (3, 0)),
    ("a title is not shown", b"\x1b]0;title\x07a\x1b]2;more\x1b\\b", ["ab"], (2, 0)),
    ("a link shows its text", b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\.", ["link."], (5, 0)),
    ("device strings are not shown", b"a\x1bPq#0;2;0;0;0~\x1b\\b", ["ab"], (2, 0)),
    ("application strings are not shown", b"a\x1b_Gf=24;AAAA\x1b\\b\x1b^pm\x1b\\c", ["abc"], (3, 0)),
    (
        "colours in all spellings",
        b"\x1b[38;2;1;2;3ma\x1b[38:2::4:5:6mb\x1b[48;5;9;4:3mc\x1b[md",
        ["abcd"],
        (4, 0),
    ),
    ("a cancelled sequence", b"a\x1b[3\x18b", ["ab"], (2, 0)),
    ("an escape begins anew", b"a\x1b[3\x1b[4Gb", ["a  b"], (4, 0)),
    ("a control within a sequence", b"abc\x1b[\r2Cx", ["abx"], (3, 0)),
    ("an unknown sequence", b"a\x1b[?9999h\x1b[5;6;7yb", ["ab"], (2, 0)),
    ("too many parameters", b"a\x1b[" + b"1;" * 400 + b"mb", ["ab"], (2, 0)),
    ("everything anew", b"abc\x1b[?6h\x1b[2;3r\x1bcd", ["d"], (1, 0)),
    ("wide characters", "木は🍎x".encode(), ["木は🍎x"], (7, 0)),
    ("a wide character does not fit", b"a" * 19 + "木".encode(), ["a" * 19, "木"], (2, 1)),
    ("half of a wide character", "木x\r a".encode(), [" ax"], (2, 0)),
    ("combining marks", "e\u0301x".encode(), ["e\u0301x"], (2, 0)),
    ("a joined accent at the edge", b"a" * 19 + "e\u0301".encode(), ["a" * 19 + "e\u0301"], (19, 0)),
    ("an invalid byte", b"a\xffb", ["a\ufffdb"], (3, 0)),
    ("a cut character", b"a\xe6\x9cb", ["a\ufffdb"], (3, 0)),
    ("a bell", b"a\x07b", ["ab"], (2, 0)),
    ("a null", b"a\x00b", ["ab"], (2, 0)),
]


@pytest.mark.parametrize("emulator", EMULATORS)
@pytest.mark.parametrize(("data", "rows", "cursor"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_a_sequence_does_what_it_should(
    emulator: str, data: bytes, rows: list[str], cursor: tuple[int, int]
) -> None:
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        screen = open_screen(20, 10, emulator=emulator)
        for piece in pieces:
            screen.feed(piece)
        shown = screen.lines()
        assert shown == (*rows, *[""] * (10 - len(rows)))
        assert (screen.cursor().column, screen.cursor().row) == cursor
        screen.close()


# what a program asks, how the answer begins, how it ends
QUERIES = [
    ("what are you", b"\x1b[c", b"\x1b[?6", b"c"),
    ("what are you exactly", b"\x1b[>c", b"\x1b[>", b"c"),
    ("are you well", b"\x1b[5n", b"\x1b[0n", b""),
    ("where is the cursor", b"\x1b[3;7H\x1b[6n", b"\x1b[3;7R", b""),
    ("foreground", b"\x1b]10;?\x1b\\", b"\x1b]10;rgb:", b""),
    ("background", b"\x1b]11;?\x07", b"\x1b]11;rgb:0000/0000/0000", b"\x07"),
    ("name and version", b"\x1b[>q", b"\x1bP>|", b"\x1b\\"),
    ("are frames understood", b"\x1b[?2026$p", b"\x1b[?2026;2$y", b""),
    ("is paste bracketed", b"\x1b[?2004h\x1b[?2004$p", b"\x1b[?2004;1$y", b""),
    ("keyboard protocol", b"\x1b[?u", b"\x1b[?0u", b""),
    ("how large", b"\x1b[18t", b"\x1b[8;10;20t", b""),
]


@pytest.mark.parametrize("emulator", EMULATORS)
@pytest.mark.parametrize(("query", "begins", "ends"), [q[1:] for q in QUERIES], ids=[q[0] for q in QUERIES])
def test_a_query_is_answered(emulator: str, query: bytes, begins: bytes, ends: bytes) -> None:
    screen = open_screen(20, 10, emulator=emulator)
    answer = screen.feed(query)
    assert answer.startswith(begins)
    assert answer.endswith(ends)
    assert screen.feed(b"text") == b""
