from __future__ import annotations

import subprocess
import sys

import pytest

from ostler.drivers import detect
from ostler.drivers.agent_spec import AGENT_TYPES
from ostler.schema.errors import UsageError


@pytest.mark.parametrize(
    ("command", "agent_type"),
    [
        (["claude"], "claude"),
        (["claude", "--model", "goose"], "claude"),
        (["q", "chat"], "amazonq"),
        (["cursor-agent"], "cursor"),
        (["/usr/local/bin/codex"], "codex"),
        (["npx", "-y", "@openai/codex@1.2.3"], "codex"),
        (["npx", "@anthropic-ai/claude-code"], "claude"),
        (["npx", "@earendil-works/pi-coding-agent"], "pi"),
        (["npx", "something"], "custom"),
        (["uvx", "aider-chat"], "aider"),
        (["whatever"], "custom"),
        (["claude-wrapper"], "custom"),
        ([], "custom"),
        ("goose session --debug", "goose"),
    ],
)
def test_an_agent_is_known_by_its_command(command: list[str] | str, agent_type: str) -> None:
    assert detect(command) == agent_type


@pytest.mark.parametrize("named", AGENT_TYPES)
def test_a_name_wins_over_the_command(named: str) -> None:
    assert detect(["claude"], named) == named


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UsageError, match="invalid agent type: bad"):
        detect(["claude"], "bad")


def test_nothing_is_loaded_before_it_is_used() -> None:
    code = "import sys, ostler.drivers; print([m for m in sys.modules if m.startswith('ostler.drivers.')])"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout == "[]\n"


def test_taking_screens_apart_needs_no_emulator() -> None:
    code = (
        "import sys; sys.modules['pyghostty'] = sys.modules['bittty'] = None\n"
        "import ostler.drivers\n"
        "for name in ostler.drivers.__all__: getattr(ostler.drivers, name)\n"
        "import ostler.drivers.tracker, ostler.drivers.screen"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
