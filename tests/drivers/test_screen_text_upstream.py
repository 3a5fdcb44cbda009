"""The original's own screens, where a copy of them lies beside this repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostler.drivers import format_message, is_ready, remove_user_input, split_tool_calls
from tests.support.paths import SHARED

RECORDED = SHARED / "agentapi"
FORMATTED = sorted(RECORDED.glob("format/*/*"))
ECHOES = sorted(RECORDED.glob("remove-user-input/*"))
STARTS = sorted(RECORDED.glob("initialization/*/*/*.txt"))


def named(path: Path) -> str:
    return path.relative_to(RECORDED).as_posix()


def read(path: Path) -> str:
    return path.read_bytes().decode()


@pytest.mark.parametrize("case", FORMATTED, ids=named)
def test_a_recorded_screen_becomes_its_message(case: Path) -> None:
    agent_type = case.parent.name
    text, calls = split_tool_calls(
        agent_type, format_message(agent_type, read(case / "msg.txt"), read(case / "user.txt"))
    )
    assert text == read(case / "expected.txt")
    if (case / "expected_tool_calls.txt").exists():
        assert "\n---\n".join(calls) == read(case / "expected_tool_calls.txt")


@pytest.mark.parametrize("case", ECHOES, ids=named)
def test_a_recorded_echo_is_removed(case: Path) -> None:
    kept = remove_user_input(read(case / "msg.txt"), read(case / "user.txt"), "custom")
    assert kept == read(case / "expected.txt")


@pytest.mark.parametrize("path", STARTS, ids=named)
def test_a_recorded_start_is_ready_or_not(path: Path) -> None:
    assert is_ready(path.parents[1].name, read(path)) is (path.parent.name == "ready")
