"""Scripts of the fake vendor, read from a file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ostler.testkit.vendors import Refusal, Trouble, read_script, say, turn


def test_a_script_is_a_list_of_answers(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(
        """[
        {"type": "refusal", "status": 529},
        {"type": "turn", "parts": ["Hello ", {"type": "say", "pieces": ["wor", "ld"]}],
         "trouble": {"kind": "cut", "after": 2}}
        ]"""
    )
    expected = turn("Hello ", say("wor", "ld"), trouble=Trouble("cut", after=2))
    assert read_script(script) == [Refusal(529), expected]


@pytest.mark.parametrize(
    "answer",
    [
        '{"type": "turn", "pats": ["Hello"]}',
        '{"type": "turn", "parts": [{"type": "say", "pieces": ["a"], "dealy": 1}]}',
        '{"type": "turn", "trouble": {"kind": "cut", "after": 1, "before": 2}}',
        '{"type": "refusal", "status": 500, "messag": "no"}',
    ],
)
def test_a_field_that_does_not_exist_is_refused(tmp_path: Path, answer: str) -> None:
    script = tmp_path / "script.json"
    script.write_text(f"[{answer}]")
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        read_script(script)
