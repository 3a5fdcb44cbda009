"""What the vendors' real programs drew, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostler.drivers import format_message, is_ready, new_text, split_tool_calls
from tests.drivers.recorded import RECORDED, read

MOMENTS = sorted(RECORDED.rglob("*.txt"))


def named(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", MOMENTS, ids=named)
def test_what_a_program_drew_becomes_its_message(path: Path) -> None:
    moment, agent_type = read(path), path.parent.name
    new = new_text(moment.before, moment.after, agent_type)
    text, calls = split_tool_calls(agent_type, format_message(agent_type, new, moment.user))
    assert text == moment.message
    assert calls == []


@pytest.mark.parametrize("path", MOMENTS, ids=named)
def test_a_program_that_shows_its_input_box_is_ready(path: Path) -> None:
    moment = read(path)
    assert is_ready(path.parent.name, moment.after) is moment.ready


@pytest.mark.parametrize("path", MOMENTS, ids=named)
def test_of_a_program_that_shows_nothing_new_nothing_is_new(path: Path) -> None:
    moment = read(path)
    assert new_text(moment.after, moment.after, path.parent.name) == ""
