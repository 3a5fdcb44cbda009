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


def feed_all(keyboard: Keyboard, *pieces: bytes) -> tuple[list[str], str]:
    """The commands of the view, and the keys for the agent."""
    parts = [one for piece in pieces for one in keyboard.feed(piece)]
    keys = "".join(keys for _, keys in parts) + keyboard.flush()
    return [command for command, _ in parts if command], keys


def test_keys_reach_the_agent_and_view_commands_do_not() -> None:
    typed = b"ab\x03\x1b[A" + DETACH + b"\x1b[5;2~c\x1b[6;3~"
    assert feed_all(Keyboard(DETACH), typed) == (["detach", "back", "forth"], "ab\x03\x1b[Ac")


def test_a_paste_contains_no_view_commands() -> None:
    pasted = b"\x1b[200~" + DETACH + b"\x1b[5;2~\x1b[201~"
    assert feed_all(Keyboard(DETACH), pasted + DETACH) == (["detach"], pasted.decode())


def test_a_lone_escape_is_held_until_flush() -> None:
    keyboard = Keyboard(DETACH)
    assert keyboard.feed(b"\x1b") == []
    assert keyboard.held
    assert keyboard.flush() == "\x1b"
    assert not keyboard.held


@given(st.lists(PIECES), st.data())
def test_input_may_arrive_in_any_pieces(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    parts = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert feed_all(Keyboard(DETACH), *parts) == feed_all(Keyboard(DETACH), whole)


@given(st.binary())
def test_any_bytes_are_accepted_as_input(data: bytes) -> None:
    commands, _ = feed_all(Keyboard(DETACH), data)
    assert set(commands) <= {"detach", "back", "forth"}
