from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.drivers.announcements import Announcements


def announced(agent_type: str, *pieces: bytes) -> str:
    announcements = Announcements(agent_type)
    for piece in pieces:
        announcements.feed(piece)
    return announcements.state


@pytest.mark.parametrize(
    ("agent_type", "output", "state"),
    [
        ("codex", b"\x1b]7501;state=blocked:app=codex:kind=permission\x1b\\", "asking"),
        ("codex", b"\x1b]7501;state=blocked;kind=permission\x07", "asking"),
        ("codex", b"\x1b]7501;state=working:app=codex\x1b\\", "working"),
        ("codex", b"\x1b]7501;state=done:app=codex\x07", "idle"),
        ("codex", b"\x1b]0;[ ! ] Action Required | orchard\x07", "asking"),
        ("codex", "\x1b]0;⠼ orchard\x07".encode(), ""),
        ("gemini", "\x1b]0;✋  Action Required (orchard)   \x07".encode(), "asking"),
        ("gemini", "\x1b]2;✦  Working… (orchard)\x07".encode(), "working"),
        ("gemini", "\x1b]0;◇  Ready (orchard)\x07".encode(), "idle"),
        ("claude", "\x1b]0;✳ Claude Code\x07".encode(), "idle"),
        ("claude", "\x1b]0;◐ Claude Code\x07".encode(), "working"),
        ("claude", "\x1b]0;⠂ Plant an orchard\x1b\\".encode(), "working"),
        ("claude", b"\x1b]7501;?\x07", ""),
        ("claude", b"\x1b]0;\x07", ""),
        ("custom", b"\x1b]0;Action Required\x07", ""),
        ("custom", b"\x1b]7501;state=blocked:kind=permission\x07", "asking"),
        ("claude", b"7501;state=blocked:kind=permission", ""),
        ("codex", b"\x1b]7501;state=blocked:kind=permission", ""),
    ],
)
def test_an_agent_announces_what_it_does(agent_type: str, output: bytes, state: str) -> None:
    assert announced(agent_type, output) == state


def test_the_last_announcement_counts() -> None:
    asks = b"\x1b]7501;state=blocked:app=codex:kind=permission\x07text"
    assert announced("codex", asks, b"\x1b]7501;state=working:app=codex\x07") == "working"
    assert announced("codex", b"\x1b]7501;state=idle\x07", asks) == "asking"
    assert announced("codex", b"\x1b]0;Action Required\x07\x1b]7501;state=working\x07") == "asking"


@given(st.lists(st.integers(1, 12), max_size=20))
def test_it_does_not_matter_how_the_output_is_cut(lengths: list[int]) -> None:
    output = "plain \x1b[1mbold\x1b]0;✋  Action Required (a)\x1b\\ more \x1b]8;;x\x07".encode()
    pieces = []
    for length in lengths:
        pieces.append(output[:length])
        output = output[length:]
    assert announced("gemini", *pieces, output) == "asking"


def test_a_sequence_without_end_is_not_kept_forever() -> None:
    announcements = Announcements("codex")
    for _ in range(100):
        announcements.feed(b"\x1b]0;" + b"x" * 1000)
    announcements.feed(b"\x07\x1b]7501;state=blocked:kind=permission\x07")
    assert announcements.state == "asking"
    assert len(announcements._tail) < 5000
