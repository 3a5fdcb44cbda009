from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ostler.tui.attach.viewport import Keyboard, control_key

DETACH = control_key("ctrl+]")
PIECES = st.sampled_from(
    [
        b"a",
        "ü".encode(),
        "你".encode(),
        b"\x1b",
        b"\x1b[A",
        b"\x1b[5;2~",
        b"\x1b[6;3~",
        b"\x1b[200~",
        b"\x1b[201~",
    ]
)


def said(keyboard: Keyboard, *pieces: bytes) -> tuple[list[str], str]:
    """The wishes, and what goes through."""
    found = [one for piece in pieces for one in keyboard.feed(piece)]
    keys = "".join(keys for _, keys in found) + keyboard.flush()
    return [wish for wish, _ in found if wish], keys


def test_keys_go_through_and_wishes_do_not() -> None:
    typed = b"ab\x03\x1b[A" + DETACH + b"\x1b[5;2~c\x1b[6;3~"
    assert said(Keyboard(DETACH), typed) == (["detach", "back", "forth"], "ab\x03\x1b[Ac")


def test_in_a_paste_nothing_is_a_wish() -> None:
    pasted = b"\x1b[200~" + DETACH + b"\x1b[5;2~\x1b[201~"
    assert said(Keyboard(DETACH), pasted + DETACH) == (["detach"], pasted.decode())


def test_an_escape_alone_is_held_for_a_moment_only() -> None:
    keyboard = Keyboard(DETACH)
    assert keyboard.feed(b"\x1b") == []
    assert keyboard.held
    assert keyboard.flush() == "\x1b"
    assert not keyboard.held


@given(st.lists(PIECES), st.data())
def test_it_does_not_matter_in_which_pieces_it_arrives(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    parts = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert said(Keyboard(DETACH), *parts) == said(Keyboard(DETACH), whole)


@given(st.binary())
def test_any_bytes_are_taken(data: bytes) -> None:
    said(Keyboard(DETACH), data)
