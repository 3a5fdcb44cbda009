from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.core.tool import ToolKind
from ostler.permissions.rules import PROFILES, Profile, Verdict, judge, preview, reason

KINDS: tuple[ToolKind, ...] = get_args(ToolKind)

TABLE: dict[Profile, dict[ToolKind, Verdict]] = {
    "read-only": {
        "read": "allow",
        "search": "allow",
        "edit": "refuse",
        "execute": "refuse",
        "fetch": "refuse",
        "agent": "allow",
        "ask": "allow",
        "other": "refuse",
    },
    "ask": {
        "read": "allow",
        "search": "allow",
        "edit": "ask",
        "execute": "ask",
        "fetch": "ask",
        "agent": "allow",
        "ask": "allow",
        "other": "ask",
    },
    "edit": {
        "read": "allow",
        "search": "allow",
        "edit": "allow",
        "execute": "ask",
        "fetch": "ask",
        "agent": "allow",
        "ask": "allow",
        "other": "ask",
    },
    "full": dict.fromkeys(KINDS, "allow"),
}


def test_every_profile_judges_every_kind() -> None:
    assert {profile: {kind: judge(profile, kind) for kind in KINDS} for profile in PROFILES} == TABLE


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_not_allowed_has_a_reason(profile: Profile, kind: ToolKind) -> None:
    assert (reason(profile, kind) == "") == (judge(profile, kind) == "allow")


def test_a_refusal_explains_how_to_allow_the_call() -> None:
    text = reason("read-only", "execute")
    assert "run commands" in text
    assert "--permissions edit" not in text, "which would not allow it"
    assert "--yes" in text
    assert "--permissions edit" in reason("read-only", "edit")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"timeout": 3, "command": "ls -la"}, "ls -la"),
        ({"content": "x", "path": "a.txt"}, "a.txt"),
        ({"file_path": "b.txt"}, "b.txt"),
        ({"url": "https://example.org"}, "https://example.org"),
        ({"query": "weather"}, "weather"),
        ({"path": ".", "pattern": "*.py"}, "*.py"),
        ({"path": "src", "pattern": "*.py"}, "*.py in src"),
        ({"pattern": "*.py"}, "*.py"),
        ({"name": "pdf"}, "pdf"),
        ({"city": "Oslo", "days": 2}, '{"city":"Oslo","days":2}'),
        ({"command": 7}, '{"command":7}'),
        ({}, "weather"),
        ('{"command":"ls"}', "ls"),
        ('{"command":"l', '{"command":"l'),
        ("[1]", "[1]"),
        ({"command": "make \\\n  all\n"}, "make \\ all"),
    ],
    ids=str,
)
def test_a_preview_shows_the_main_argument(arguments: dict[str, object] | str, text: str) -> None:
    assert preview("weather", arguments) == text


def test_a_long_command_is_cut_at_a_character() -> None:
    assert preview("bash", {"command": "é" * 200}) == "é" * 119 + "…"
    assert preview("bash", {"command": "é" * 120}) == "é" * 120


def test_a_preview_cannot_draw_on_the_terminal() -> None:
    assert preview("bash", {"command": "rm x\x1b[2K\u202e# safe"}) == "rm x\ufffd[2K\ufffd# safe"


@given(st.text())
def test_a_preview_is_one_printable_line_within_its_length(command: str) -> None:
    line = preview("bash", {"command": command})
    assert line.isprintable()
    assert len(line) <= 120
