"""Viewers of a live terminal: each sees the screen as it is, however late it comes or slowly it reads."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.drivers.screen_stream import MAX_UNSEEN, ScreenSubscription, unfinished

SEQUENCES = [
    b"\x1b[31m",
    b"\x1b[12;3H",
    b"\x1b[?2004h",
    b"\x1b[38;2;1;2;3m",
    b"\x1b]0;title\x07",
    b"\x1b]8;;http://a/\x1b\\",
    b"\x1bP+q544e\x1b\\",
    b"\x1b(B",
    b"\x1b7",
    "é".encode(),
    "漢".encode(),
    "👋".encode(),
]
PIECES = st.lists(st.sampled_from([*SEQUENCES, b"plain", b"\r\n", b"x"]), min_size=1, max_size=8)


@given(PIECES, st.data())
def test_what_is_cut_in_the_middle_is_found_whole(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [0, *accumulate(len(piece) for piece in pieces)]
    begun = max(end for end in ends if end <= cut)
    expected = whole[begun:cut] if any(whole[begun:].startswith(one) for one in SEQUENCES) else b""
    assert unfinished(whole[:cut]) == expected


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_leave_an_end_of_themselves(pieces: list[bytes]) -> None:
    left = b""
    for piece in pieces:
        assert (left + piece).endswith(left := unfinished(left + piece))


class Stage:
    def __init__(self) -> None:
        self.drawn = b"[screen]"
        self.left: list[ScreenSubscription] = []
        self.viewer = ScreenSubscription(lambda: self.drawn)
        self.viewer.on_unsubscribe.append(self.left.append)


async def test_a_viewer_gets_the_screen_and_then_the_bytes() -> None:
    stage = Stage()
    assert await stage.viewer.next() == b"[screen]"
    stage.viewer.put(b"a")
    stage.viewer.put(b"b")
    assert await stage.viewer.next() == b"ab"


async def test_a_slow_reader_gets_the_whole_screen_again() -> None:
    stage = Stage()
    await stage.viewer.next()
    for _ in range(20):
        stage.viewer.put(b"x" * (MAX_UNSEEN // 10))
    stage.drawn = b"[later]"
    assert await stage.viewer.next() == b"\x1bc[later]"
    stage.viewer.put(b"y")
    assert await stage.viewer.next() == b"y"


@pytest.mark.parametrize("last", [b"", b"the last words"])
async def test_a_viewer_reads_a_finished_screen_to_its_end(last: bytes) -> None:
    stage = Stage()
    await stage.viewer.next()
    if last:
        stage.viewer.put(last)
    stage.viewer.finish()
    assert [await stage.viewer.next(), await stage.viewer.next()] == ([last, None] if last else [None, None])
    stage.viewer.unsubscribe()
    stage.viewer.unsubscribe()
    assert stage.left == [stage.viewer]
